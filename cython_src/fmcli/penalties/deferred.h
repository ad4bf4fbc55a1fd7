// Several deferred prox steps, applied to a row at once.
#ifndef FMCLI_DEFERRED_H
#define FMCLI_DEFERRED_H

#include "fmcli/penalties/elementwise.h"

namespace {

// Several prox steps of elementwise.h combined: parameters are multiplied by `decay`, then soft-thresholded by
// l1 * rate. If a group penalty acts, its prox with h = 1/rate follows.
template <class V>
struct DeferredProx {
    V decay, rate;
};

template <class V>
inline V prox(V v, const DeferredProx<V>& steps, const PenaltyStrength& s) {
    return soft(v * steps.decay, steps.rate * s.l1);
}

// The steps 1 .. t combined, from the steps 1 .. t - 1: the decay is the product of 1/(1 + rate_s l2), and the sum is
// D_t = (D_{t-1} + rate_t)/(1 + rate_t l2). Both remain bounded in long runs if l2 > 0.
inline CombinedSteps with_step(const CombinedSteps& before, double rate, double l2) {
    return {before.decay / (1 + rate * l2), (before.sum + rate) / (1 + rate * l2)};
}

// The steps a + 1 .. b combined, from the steps 1 .. a and 1 .. b.
inline DeferredProx<real> steps_between(const CombinedSteps& a, const CombinedSteps& b) {
    const double left = b.decay / a.decay;
    return {(real)left, (real)(b.sum - left * a.sum)};
}

// `steps` steps with the same h combined, for any strength of l2, by doubling: no term is negative, so that no digits are
// lost.
template <class V>
DeferredProx<V> strong_equal_steps(V h, int32_t steps, real l2) {
    constexpr int N = width<V> / width<Vec4>;
    Vec4 part[N];
    __builtin_memcpy(part, &h, sizeof h);
    Wide4 rate[N], decay[N], all_rate[N] = {}, all_decay[N];  // of 1, 2, 4, .. steps; of all counted so far
    for (int i = 0; i < N; ++i) {
        rate[i] = 1 / (wide(part[i]) + (double)l2);
        decay[i] = wide(part[i]) * rate[i];
        all_decay[i] = 1 + Wide4{};
    }
    for (;; steps >>= 1) {
        for (int i = 0; i < N; ++i) {
            all_rate[i] = all_rate[i] * chosen(steps & 1, decay[i], 1) + chosen(steps & 1, rate[i], 0);
            all_decay[i] *= chosen(steps & 1, decay[i], 1);
        }
        if (steps == 1) break;
        for (int i = 0; i < N; ++i) {
            rate[i] += rate[i] * decay[i];
            decay[i] *= decay[i];
        }
    }
    DeferredProx<V> found;
    for (int i = 0; i < N; ++i) part[i] = narrow(all_decay[i]);
    __builtin_memcpy(&found.decay, part, sizeof h);
    for (int i = 0; i < N; ++i) part[i] = narrow(all_rate[i]);
    __builtin_memcpy(&found.rate, part, sizeof h);
    return found;
}

// log(1 + t) / t for 0 < t <= 1/64, by its power series.
template <class V>
inline __attribute__((always_inline)) V log_ratio(V t) {
    constexpr int TERMS = sizeof(real) == sizeof(float) ? 5 : 10;
    V sum = real(1) / TERMS - V{};
#pragma GCC unroll 16
    for (int n = TERMS - 1; n > 0; --n) sum = real(1) / n - t * sum;
    return sum;
}

// (1 - exp(-g)) / g for 0 < g <= 1/2, by its power series.
template <class V>
inline __attribute__((always_inline)) V exp_ratio(V g) {
    constexpr int TERMS = sizeof(real) == sizeof(float) ? 8 : 15;
    V sum = 1 + V{};
#pragma GCC unroll 16
    for (int n = TERMS; n > 1; --n) sum = 1 - g * sum * (real(1) / n);
    return sum;
}

// `steps` steps with the same h combined: the decay is exp(-g) with g = steps log(1 + l2/h), and the rate (1 - decay)/l2.
template <class V>
inline __attribute__((always_inline)) DeferredProx<V> equal_steps(V h, int32_t steps, real l2) {
    if (l2 == 0) return {1 + V{}, (real)steps / h};
    const V t = l2 / h;
    if (any_negative(real(1) / 64 - t)) return strong_equal_steps(h, steps, l2);
    const V ratio = log_ratio(t) * (real)steps;
    // As many steps are halved as often as the series needs, and doubled again; usually that is never.
    V g = ratio * t;
    real part = 1;
    for (; any_negative(real(0.5) - g); part *= real(0.5)) g *= real(0.5);
    const V sum = exp_ratio(g);
    DeferredProx<V> found = {1 - g * sum, ratio * sum * part / h};
    for (; part < 1; part *= 2) {
        found.rate += found.rate * found.decay;
        found.decay *= found.decay;
    }
    return found;
}

}  // namespace

#endif
