// Several deferred prox steps, applied to a row at once.
#ifndef FMCLI_DEFERRED_H
#define FMCLI_DEFERRED_H

#include "fmcli/penalties/elementwise.h"

namespace {

// Several prox steps of elementwise.h combined: parameters are multiplied by `decay`, then soft-thresholded by l1 *
// rate. If a group penalty acts, its prox with h = 1/rate follows.
template <class V>
struct DeferredProx {
    V decay, rate;
};

template <class V>
inline V prox(V v, const DeferredProx<V>& steps, const PenaltyStrength& s) {
    return s.l1 == 0 ? v * steps.decay + 0 : soft(v * steps.decay, steps.rate * s.l1);  // no division by l2 or h is needed for l1 = 0
}

// The steps 1 .. t combined, from the steps 1 .. t - 1: the decay is the product of 1/(1 + rate_s l2), and the sum is
// D_t = (D_{t-1} + rate_t)/(1 + rate_t l2). Both stay bounded in long runs if l2 > 0.
inline CombinedSteps with_step(const CombinedSteps& before, double rate, double l2) {
    return {before.decay / (1 + rate * l2), (before.sum + rate) / (1 + rate * l2)};
}

// The steps a + 1 .. b combined, from the steps 1 .. a and 1 .. b.
inline DeferredProx<real> steps_between(const CombinedSteps& a, const CombinedSteps& b) {
    const double left = b.decay / a.decay;
    return {(real)left, (real)(b.sum - left * a.sum)};
}

// Several steps with the same h = 1/rate combined: the decay is exp(-g) with g = steps log(1 + l2 rate), and the
// combined rate is (1 - decay)/l2. Both are power series that need few terms if l2 rate <= TINY and g <= SHORT.
constexpr bool IN_FLOAT = sizeof(real) == sizeof(float);
constexpr double TINY = 1.0 / 4096, SHORT = 1.0 / 32;
constexpr double WEAK = 1.0 / 64;  // up to this bound of l2 rate, a longer series serves more steps

// The number of steps, at most `most`, with rates up to `rate` for which the short series holds; -1: none.
inline int32_t few_steps(double rate, double l2, int32_t most) {
    const double t = rate * l2;
    return t > TINY ? -1 : t * most <= SHORT ? most : (int32_t)(SHORT / t);
}

// log(1 + t) / t for small t >= 0.
template <int TERMS, class V>
inline __attribute__((always_inline)) V log_ratio(V t) {
    V sum = real(1) / TERMS - V{};
#pragma GCC unroll 16
    for (int n = TERMS - 1; n > 0; --n) sum = real(1) / n - t * sum;
    return sum;
}

// (1 - exp(-g)) / g, which is the sum over n >= 0 of (-g)^n / (n + 1)!.
template <int TERMS, class V>
inline __attribute__((always_inline)) V exp_ratio(V g) {
    double term = 1;
    for (int n = 2; n <= TERMS; ++n) term /= n;
    V sum = (real)term - V{};
#pragma GCC unroll 16
    for (int n = TERMS; n > 1; --n) {
        term *= n;
        sum = (real)term - g * sum;
    }
    return sum;
}

template <class V>
struct Decay {
    V decay, drop;  // drop = 1 - decay, with its own digits
};

// decay = exp(-g) for any g >= 0: g = k log(2) + r with |r| <= log(2)/2, and 2^-k is made from its bits.
template <class V>
inline Decay<V> decay_by(V g) {
    constexpr int DIGITS = IN_FLOAT ? 23 : 52;                       // of a real, after the first
    constexpr real ROUNDS = real(1.5) * real((int64_t)1 << DIGITS);  // adding it rounds a number to an integer
    constexpr real LOG2 = IN_FLOAT ? 0x1.62e4p-1 : 0x1.62e42fefap-1;  // with so few digits that k LOG2 is exact
    constexpr real REST = IN_FLOAT ? 0x1.7f7d1cf79abcap-20 : 0x1.cf79abc9e3b3ap-40;
    constexpr real MOST = IN_FLOAT ? 80 : 700;  // exp(-MOST) is tiny compared with 1, and not subnormal
    g = chosen(is_less(g, MOST - V{}), g, MOST - V{});
    const V shifted = g * real(1 / 0x1.62e42fefa39efp-1) + ROUNDS, k = shifted - ROUNDS;
    const V r = (g - k * LOG2) - k * REST, part = r * exp_ratio<IN_FLOAT ? 7 : 13>(r), one = 1 + V{};
    const V scale = (V)(bits(one) - (bits(shifted) << DIGITS));
    return {scale - scale * part, (1 - scale) + scale * part};
}

// The combined decay and 1 - decay for any number of steps and any t = l2 rate; `weak`: whether all t are at most WEAK.
// Not inlined, because it is rarely needed.
template <class V>
__attribute__((noinline)) Decay<V> decay_of_many_steps(V t, V steps, bool weak) {
    if (weak) return decay_by(steps * (t * log_ratio<IN_FLOAT ? 4 : 9>(t)));
    Decay<V> found;
    for (int i = 0; i < width<V>; ++i) {
        const double g = steps[i] * __builtin_log1p((double)t[i]);
        found.decay[i] = (real)__builtin_exp(-g);
        found.drop[i] = (real)-__builtin_expm1(-g);
    }
    return found;
}

// `steps` steps of the same rate, at most 1/least, combined. few: few_steps of 1/least; many: whether any number of
// steps exceeds it. The result for a number of a vector does not depend on its neighbors.
template <class V>
inline __attribute__((always_inline)) DeferredProx<V> equal_steps(V rate, V steps, real least, real l2, int32_t few, bool many) {
    if (l2 == 0) return {1 + V{}, steps * rate};
    const V t = l2 * rate, ratio = log_ratio<IN_FLOAT ? 2 : 5>(t), g = steps * (t * ratio);
    const V part = exp_ratio<IN_FLOAT ? 4 : 8>(g);
    DeferredProx<V> found = {1 - g * part, steps * (rate * ratio * part)};
    if (__builtin_expect(many, false)) {
        const Decay<V> of_many = decay_of_many_steps(t, steps, l2 <= (real)WEAK * least);
        const auto is_few = ~is_less((real)few + V{}, steps);
        found = {chosen(is_few, found.decay, of_many.decay), chosen(is_few, found.rate, of_many.drop / l2)};
    }
    return found;
}

}  // namespace

#endif
