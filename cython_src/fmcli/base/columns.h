// Helpers of coordinate-descent kernels for column views: one parameter row and the samples that it affects.
#ifndef FMCLI_COLUMNS_H
#define FMCLI_COLUMNS_H

#include "fmcli/base/types.h"

namespace {

// Return the cache of the i-th sample.
inline real* cache_of(const ColumnView& v, ptrdiff_t i) {
    return reinterpret_cast<real*>(v.sample_states + v.sample[i] * v.sample_state_size + v.cache);
}

// Store the derivative by the row's weight, the entry's value, if the view contains the weight.
inline void weight_derivative(const ColumnView& v, ptrdiff_t i, real* q) {
    if (v.weight) q[i * v.apart + v.lanes] = v.value[i];
}

// The largest ratio A_{m-1} / b_{m-1} (columns_anova.inl) without recomputing sums. With this limit, a derivative keeps
// 12 digits in double and 3 in float, enough to lower the objective, because caches are recomputed in each epoch. If
// signs differ, some b_{m-1} are this small by chance, more often for higher orders: a lower limit would spend time on
// derivatives that hardly matter.
constexpr real MOST_LOST = 1e4;

}  // namespace

#endif
