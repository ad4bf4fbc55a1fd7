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

// Appends step t to the tables of the combined steps 1 .. t: decay[t] is the product of 1/(1 + rate_s l2), and
// sum[t] = D_t = (D_{t-1} + rate_t)/(1 + rate_t l2). Both remain bounded in long runs if l2 > 0.
inline void append_step(double rate, double l2, double* decay, double* sum) {
    decay[0] = decay[-1] / (1 + rate * l2);
    sum[0] = (sum[-1] + rate) / (1 + rate * l2);
}

// The steps a + 1 .. b combined.
inline DeferredProx<real> steps_between(const double* decay, const double* sum, int32_t a, int32_t b) {
    const double left = decay[b] / decay[a];
    return {(real)left, (real)(sum[b] - left * sum[a])};
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
