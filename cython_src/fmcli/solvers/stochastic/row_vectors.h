// Loops over the parameters of rows, as vectors. A row has a body of `lanes` numbers, a weight, or both, each followed
// by its solver state.
#ifndef FMCLI_ROW_VECTORS_H
#define FMCLI_ROW_VECTORS_H

#include "fmcli/base/vector.h"

namespace {

// Values that these loops read are first copied into local variables: otherwise the compiler must assume that a store
// to a row can change any value behind a pointer.

// Calls on_body(phi, state, i, at) for every vector of the bodies of n rows. row(i) is the id of the i-th row, and `at`
// is the position of the vector in the row. If a row fills only half a vector, the next row fills the rest. CHANGES:
// whether the state changes.
template <int SLOTS, bool CHANGES = true, class Row, class F>
inline __attribute__((always_inline)) void each_body(const Block b, ptrdiff_t n, Row row, F on_body) {
    ptrdiff_t i = 0;
    if (b.lanes == width<Vec4>)  // two short rows share a vector: half a vector's root or division costs as much
        for (; i + 2 <= n; i += 2) {
            real* const p = b.body + row(i) * b.body_stride;
            real* const q = b.body + row(i + 1) * b.body_stride;
            Vec8 phi = concat(load<Vec4>(p), load<Vec4>(q)), state[SLOTS + 1];
            for (int j = 1; j <= SLOTS; ++j) state[j - 1] = concat(load<Vec4>(p + j * LANES), load<Vec4>(q + j * LANES));
            on_body(phi, state, i, (ptrdiff_t)0);
            split(phi, p, q);
            for (int j = 1; j <= SLOTS && CHANGES; ++j) split(state[j - 1], p + j * LANES, q + j * LANES);
        }
    for (; i < n; ++i) {
        real* const p = b.body + row(i) * b.body_stride;
        auto visit = [&](ptrdiff_t at, auto phi) __attribute__((always_inline)) {
            using V = decltype(phi);
            V state[SLOTS + 1];
            phi = load<V>(p + at);
            for (int j = 0; j < SLOTS; ++j) state[j] = load<V>(p + (j + 1) * b.lanes + at);
            on_body(phi, state, i, at);
            store(p + at, phi);
            for (int j = 0; j < SLOTS && CHANGES; ++j) store(p + (j + 1) * b.lanes + at, state[j]);
        };
        ptrdiff_t at = 0;
        for (; at + 8 <= b.lanes; at += 8) visit(at, Vec8{});
        if (at < b.lanes) visit(at, Vec4{});
    }
}

// The vector of f(0), f(1), ...
template <class V, class F>
inline __attribute__((always_inline)) V gather(F f) {
    if constexpr (width<V> == 4)
        return V{f(0), f(1), f(2), f(3)};
    else
        return V{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)};
}

// The rows of a sparse gradient in the W lanes of a vector: the rows from `first` on. If fewer than W are left, the
// last row is repeated: all weights are read before any is written, so the result is the same.
template <int W>
struct RowLanes {
    ptrdiff_t first, left;

    inline __attribute__((always_inline)) ptrdiff_t operator()(int r) const { return first + (r < left ? r : left - 1); }
};

// The numbers of these rows in an array with one number per row.
template <class V, int W, class T>
inline __attribute__((always_inline)) V numbers_at(const V&, const RowLanes<W>& at, const T* number) {
    if constexpr (sizeof(T) == sizeof(real))
        if (at.left >= W) return load<V>(number + at.first);
    return gather<V>([&](int r) __attribute__((always_inline)) { return (real)number[at(r)]; });
}

// The first N numbers of four rows: column[j] has the j-th number of each row. Two adjacent floats are moved at once.
// FloatPairs has the size of Vec4 also in the build of doubles, which compiles but never runs the lines that cast it.
typedef double FloatPairs __attribute__((vector_size(sizeof(Vec4))));
template <int N>
inline __attribute__((always_inline)) void load_columns(real* const* p, Vec4 (&column)[N]) {
    if constexpr (N == LANES) {
        for (int r = 0; r < LANES; ++r) column[r] = load<Vec4>(p[r]);
        transpose(column);
    } else if constexpr (N == 2 && sizeof(real) == sizeof(float)) {
        double pair[LANES];
        for (int r = 0; r < LANES; ++r) __builtin_memcpy(pair + r, p[r], sizeof *pair);
        const Vec4 a = (Vec4)FloatPairs{pair[0], pair[1]}, b = (Vec4)FloatPairs{pair[2], pair[3]};
        column[0] = evens(a, b), column[1] = odds(a, b);
    } else {
        for (int j = 0; j < N; ++j) column[j] = gather<Vec4>([&](int r) { return p[r][j]; });
    }
}

template <int N>
inline __attribute__((always_inline)) void store_columns(real* const* p, Vec4 (&column)[N]) {
    if constexpr (N == LANES) {
        transpose(column);
        for (int r = 0; r < LANES; ++r) store(p[r], column[r]);
    } else if constexpr (N == 2 && sizeof(real) == sizeof(float)) {
        const FloatPairs a = (FloatPairs)alternating_low(column[0], column[1]);
        const FloatPairs b = (FloatPairs)alternating_high(column[0], column[1]);
        const double pair[LANES] = {a[0], a[1], b[0], b[1]};
        for (int r = 0; r < LANES; ++r) __builtin_memcpy(p[r], pair + r, sizeof *pair);
    } else {
        for (int r = 0; r < LANES; ++r)
            for (int j = 0; j < N; ++j) p[r][j] = column[j][r];
    }
}

template <int N>
inline __attribute__((always_inline)) void load_columns(real* const* p, Vec8 (&column)[N]) {
    Vec4 a[N], b[N];
    load_columns(p, a), load_columns(p + LANES, b);
    for (int j = 0; j < N; ++j) column[j] = concat(a[j], b[j]);
}

template <int N>
inline __attribute__((always_inline)) void store_columns(real* const* p, Vec8 (&column)[N]) {
    Vec4 a[N], b[N];
    for (int j = 0; j < N; ++j) a[j] = low(column[j]), b[j] = high(column[j]);
    store_columns(p, a), store_columns(p + LANES, b);
}

// Calls on_weight for the weights of one vector of rows, from row i of n on.
template <class V, int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void some_weights(const Block& b, ptrdiff_t i, ptrdiff_t n, Row row, F on_weight) {
    constexpr int W = width<V>, NUMBERS = SLOTS == 2 ? LANES : 1 + SLOTS;  // the stride of three numbers is at least four
    const RowLanes<W> at = {i, n - i};
    real* p[W];
#pragma GCC unroll 8
    for (int r = 0; r < W; ++r) p[r] = b.weight + row(at(r)) * b.weight_stride;
    V column[NUMBERS];
    load_columns(p, column);
    on_weight(column[0], column + 1, at);
    store_columns(p, column);
}

// Calls on_weight(phi, state, at) for the weights of n rows, several rows at a time; at(r) is the index of the r-th of
// these rows in the sparse gradient.
template <int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void each_weight(const Block b, ptrdiff_t n, Row row, F on_weight) {
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) some_weights<Vec8, SLOTS>(b, i, i + 8, row, on_weight);
    for (; i < n; i += 4) some_weights<Vec4, SLOTS>(b, i, n, row, on_weight);
}

// Loads a vector of a row's body (`whole`), or the row's weight as the first entry of a vector of zeros.
template <class V>
inline __attribute__((always_inline)) V take(const real* p, bool whole) {
    if (whole) return load<V>(p);
    V v = {};
    v[0] = *p;
    return v;
}

template <class V>
inline __attribute__((always_inline)) void put(real* p, V v, bool whole) {
    if (whole)
        store(p, v);
    else
        *p = v[0];
}

// Calls f(V, p, at) for each vector of a row's body, or only for the vectors that `touched` marks, if it is not NULL.
// p: the vector's address; at: its position in the row.
template <class F>
inline __attribute__((always_inline)) void each_touched(const Block& b, ptrdiff_t row, const uint8_t* touched, F f) {
    if (!b.body) return;
    real* const p = b.body + row * b.body_stride;
    ptrdiff_t at = 0;
    if (touched) {
        for (; at < b.lanes; at += LANES)
            if (touched[at / LANES]) f(Vec4{}, p + at, at);
        return;
    }
    for (; at + 8 <= b.lanes; at += 8) f(Vec8{}, p + at, at);
    if (at < b.lanes) f(Vec4{}, p + at, at);
}

// Calls f(v) for each vector of a row's body that `touched` does not mark.
template <class F>
inline __attribute__((always_inline)) void each_untouched(const Block& b, ptrdiff_t row, const uint8_t* touched, F f) {
    for (ptrdiff_t at = 0; touched && at < b.lanes; at += LANES)
        if (!touched[at / LANES]) f(load<Vec4>(b.body + row * b.body_stride + at));
}

// Calls f(V, p, apart, whole) for each vector of one row. p: the vector's address; apart: the distance from the
// parameters to their first state slot, and from slot to slot; whole: true for vectors of the body, false for the
// weight.
template <class F>
inline __attribute__((always_inline)) void each_vector(const Block& b, ptrdiff_t row, F f) {
    each_touched(b, row, nullptr, [&](auto v, real* p, ptrdiff_t) __attribute__((always_inline)) { f(v, p, b.lanes, true); });
    if (b.weight) f(Vec4{}, b.weight + row * b.weight_stride, (ptrdiff_t)1, false);
}

}  // namespace

#endif
