// Loops over the lanes of a row of factors in runs of vectors.
#ifndef FMCLI_RUNS_H
#define FMCLI_RUNS_H

#include "fmcli/base/vector.h"

namespace {

inline ptrdiff_t pad(ptrdiff_t lanes) { return (lanes + LANES - 1) / LANES * LANES; }

// N adjacent vectors V, as a type that a generic lambda can read V and N from.
template <class V, int N>
struct Run {
    using Vector = V;
    static constexpr int count = N;
};

// An order known at compile time, as a type that a generic lambda can read it from.
template <int M>
struct Order {
    static constexpr int value = M;
};

// Calls f(at, Run) for runs that together cover `lanes`, padded to LANES. A run has at most 16 lanes, so its
// accumulators stay in registers.
template <class F>
inline __attribute__((always_inline)) void by_run(ptrdiff_t lanes, F f) {
    const ptrdiff_t padded = pad(lanes);
    ptrdiff_t at = 0;
    for (; at + 16 <= padded; at += 16) f(at, Run<Vec8, 2>{});
    if (at + 8 <= padded) {
        f(at, Run<Vec8, 1>{});
        at += 8;
    }
    if (at < padded) f(at, Run<Vec4, 1>{});
}

// The n reals at p, followed by zeros. Not inlined, so loops that rarely call it keep their vectors in registers.
template <class V, int N>
__attribute__((noinline, cold)) void load_part(const real* p, ptrdiff_t n, V (&v)[N]) {
    real whole[N * width<V>] = {};
    for (ptrdiff_t i = 0; i < n; ++i) whole[i] = p[i];
    for (int i = 0; i < N; ++i) v[i] = load<V>(whole + i * width<V>);
}

// Rows of a mapped model file have no padding: reals after the last factor must not be read or added.
template <class V, int N>
inline __attribute__((always_inline)) void load_row(const real* p, ptrdiff_t left, V (&v)[N]) {
    if (__builtin_expect(left >= N * width<V>, true))
        for (int n = 0; n < N; ++n) v[n] = load<V>(p + n * width<V>);
    else
        load_part(p, left, v);
}

}  // namespace

#endif
