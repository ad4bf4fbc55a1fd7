// What a pair of features adds to derivatives, for whoever computes them: a gradient, a step, or coordinate descent.
#ifndef FMCLI_PAIRS_H
#define FMCLI_PAIRS_H

#include "fmcli/base/vector.h"

namespace {

// The derivative of one factor's pairs by the number v of a feature with the value x: x times the sum of all others' v x,
// which is the sum of all without its own; `scale` is x, or a product with x.
template <class V, class Value, class Scale>
inline __attribute__((always_inline)) V pairs_derivative(V sum, V v, Value x, Scale scale) {
    return scale * (sum - v * x);
}

}  // namespace

#endif
