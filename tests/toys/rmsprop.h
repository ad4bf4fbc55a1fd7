// The rule of a toy solver.
#ifndef TOY_RMSPROP_H
#define TOY_RMSPROP_H

#include "fmcli/solvers/stochastic/update_rules.h"

struct Rmsprop {
    real inverse_rate, decay;
    PenaltyStrength strength;
};

namespace {

template <>
constexpr int slots<Rmsprop> = 1;

}  // namespace

template <class V>
inline V target(const Rmsprop& rule, V phi, V* state, V g, V& h) {
    state[0] = rule.decay * state[0] + (1 - rule.decay) * g * g;
    h = (root(state[0]) + real(1e-6)) * rule.inverse_rate;
    return h * phi - g;
}

#include "fmcli/solvers/stochastic/row_updates.inl"

static void rmsprop(const Block* block, const SparseGradient* gradient, const Rmsprop* body, const Rmsprop* weight) {
    step<Rmsprop>(block, gradient, body, weight);
}

#endif
