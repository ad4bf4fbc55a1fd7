// The derivative of the pairs of a factorization machine, for its gradients, its steps and coordinate descent.
#ifndef FMCLI_PAIRS_H
#define FMCLI_PAIRS_H

namespace {

// The derivative of one factor's pairs by the parameter v of a feature with the value x: x times the sum of v x over
// the other entries, which is the sum over all entries minus v x. `scale` is x, or x times a constant.
template <class V, class X, class Scale>
inline __attribute__((always_inline)) V pairs_derivative(V sum, V v, X x, Scale scale) {
    return scale * (sum - v * x);
}

}  // namespace

#endif
