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

// `steps` steps with the same h combined, by doubling: no term is negative, so that no digits are lost.
template <class V>
inline __attribute__((always_inline)) DeferredProx<V> equal_steps(V h, int32_t steps, real l2) {
    if (l2 == 0) return {1 + V{}, (real)steps / h};
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

}  // namespace

#endif
