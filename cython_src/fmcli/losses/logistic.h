// The logistic loss log(1 + exp(-m)) of margins m.
#ifndef FMCLI_LOGISTIC_H
#define FMCLI_LOGISTIC_H

#include <stddef.h>

namespace {

typedef double Vec4d __attribute__((vector_size(4 * sizeof(double))));

// log(1 + t) for 0 <= t <= 1, only with sums, products and a division, so all instruction sets give the same bits:
// 2 artanh(s) with s = t / (2 + t), by the series of artanh, with an error of about 5e-16 of the result. Even and odd
// terms are separate, which halves the chain of operations.
inline __attribute__((always_inline)) Vec4d log_of_one_plus(Vec4d t) {
    constexpr int TERMS = 16;  // the next term is at most (1/9)^16 / 33 of the first
    const Vec4d s = t / (2 + t), square = s * s, fourth = square * square;
    Vec4d even = {}, odd = {};
#pragma GCC unroll 16
    for (int k = TERMS - 2; k >= 0; k -= 2) {
        even = 2. / (2 * k + 1) + even * fourth;
        odd = 2. / (2 * k + 3) + odd * fourth;
    }
    return (even + odd * square) * s;
}

inline double log_of_one_plus(double t) { return log_of_one_plus(t + Vec4d{})[0]; }

// Adds log(1 + t[i]) to each of n values. Not inlined, because loops over samples rarely call it.
inline __attribute__((noinline)) void add_logs(double* value, const double* t, ptrdiff_t n) {
    ptrdiff_t i = 0;
    for (Vec4d x, v; i + 4 <= n; i += 4) {
        __builtin_memcpy(&x, t + i, sizeof x);
        __builtin_memcpy(&v, value + i, sizeof v);
        v += log_of_one_plus(x);
        __builtin_memcpy(value + i, &v, sizeof v);
    }
    for (; i < n; ++i) value[i] += log_of_one_plus(t[i]);
}

}  // namespace

#endif
