// The rule of a toy solver, on rows with the product's group penalties and a toy one behind them.
#ifndef TOY_RMSPROP_H
#define TOY_RMSPROP_H

#include "fmcli/penalties/group_penalties.h"
#include "fmcli/solvers/stochastic/update_rules.h"
#include "group_max.h"

struct Rmsprop {
    real inverse_rate, decay;
    PenaltyStrength strength;
};

namespace {

template <>
constexpr int slots<Rmsprop> = 1;

}  // namespace

template <class V>
inline V target(const Rmsprop& rule, V phi, V* state, const Gradient<V>& g, OneSample, V& h) {
    state[0] = rule.decay * state[0] + (1 - rule.decay) * g.squares;
    h = (root(state[0]) + real(1e-6)) * rule.inverse_rate;
    return h * phi - g.sum;
}

namespace {

typedef ListOf<GroupNorm, GroupMax> ToyPenalties;

}  // namespace

#define GroupPenalties ToyPenalties
#include "fmcli/solvers/stochastic/row_updates.inl"

static void rmsprop(const Block* block, const SparseGradient* gradient, const Rmsprop* body, const Rmsprop* weight) {
    step<Rmsprop>(block, gradient, body, weight);
}

#endif
