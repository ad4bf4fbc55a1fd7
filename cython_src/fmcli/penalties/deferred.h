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

// `steps` steps with the same h combined, by the sum of a geometric series.
template <class V>
inline DeferredProx<V> equal_steps(V h, double steps, double l2) {
    DeferredProx<V> m;
    for (int i = 0; i < width<V>; ++i) {
        const double growth = steps * __builtin_log1p(l2 / h[i]);
        m.decay[i] = (real)__builtin_exp(-growth);
        m.rate[i] = (real)(l2 > 0 ? -__builtin_expm1(-growth) / l2 : steps / h[i]);
    }
    return m;
}

}  // namespace

#endif
