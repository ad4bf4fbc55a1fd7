// What a kernel of coordinate descent sees of the samples that one row of parameters enters.
#ifndef FMCLI_COLUMNS_H
#define FMCLI_COLUMNS_H

#include "fmcli/base/types.h"

namespace {

// The cache of the i-th sample.
inline real* cache_of(const ColumnView& v, ptrdiff_t i) {
    return reinterpret_cast<real*>(v.sample_states + v.sample[i] * v.sample_state_size + v.cache);
}

// The derivative by the row's weight, where it is part of the visit: the entry's value.
inline void weight_derivative(const ColumnView& v, ptrdiff_t i, real* q) {
    if (v.weight) q[i * v.apart + v.lanes] = v.value[i];
}

// Ratio A_{m-1} / b_{m-1} (columns_anova.inl) beyond which sums are made anew. A derivative keeps 12 digits in double and
// 3 in float, enough to lower the objective, for caches are made anew in each epoch. If signs differ, some b_{m-1} are this
// small by chance, more of them the higher the order: a lower limit would cost time for derivatives that count for little.
constexpr real MOST_LOST = 1e4;

}  // namespace

#endif
