// The update rule of each row solver for one parameter, written once for vectors of any width. From the parameter, its
// state and its gradient, a rule computes the curvature h of the prox step, and h u, where u is the point at which the
// prox is taken. Every rule ends with the same prox (elementwise.h); penalties enter a rule only there.
#ifndef FMCLI_UPDATE_RULES_H
#define FMCLI_UPDATE_RULES_H

#include "fmcli/base/vector.h"
#include "fmcli/kernels/kernels.h"
#include "fmcli/penalties/deferred.h"
#include "fmcli/penalties/elementwise.h"

namespace {

// The number of state values that the solver keeps for each parameter.
template <class Rule>
constexpr int slots = 0;
template <>
constexpr int slots<Adagrad> = 1;
template <>
constexpr int slots<Ftrl> = 2;

// Returns h u of one step, and sets h.
template <class V>
inline V target(const Sgd& rule, V phi, V*, V g, V& h) {
    h = 1 / rule.rate - V{};
    return h * phi - g;
}

template <class V>
inline V target(const Adagrad& rule, V phi, V* state, V g, V& h) {
    state[0] += g * g;
    h = root(1 + state[0]) * rule.inverse_rate;  // G starts at 1, as in libffm and xLearn
    return h * phi - g;
}

template <class V>
inline V curvature(const Ftrl& rule, V n) {
    V sum = n + rule.beta;
    return (rule.power == real(0.5) ? root(sum) : power(sum, rule.power)) * rule.inverse_alpha;
}

template <class V>
inline V target(const Ftrl& rule, V phi, V* state, V g, V& h) {
    V before = curvature(rule, state[1]);
    state[1] += g * g;
    h = curvature(rule, state[1]);
    state[0] += g - (h - before) * phi;
    return -state[0];
}

template <class Rule, class V>
inline void update(const Rule& rule, V& phi, V* state, V g) {
    V h;
    V hu = target(rule, phi, state, g, h);
    phi = prox(hu, h, rule.strength);
}

// The update of SGD, without a division.
template <class V>
inline void update(const Sgd& rule, V& phi, V*, V g) {
    phi = prox(phi - rule.rate * g, rule.prox);
}

// Computes h and h u of FTRL from its state alone, without a gradient.
template <class V>
inline V recompute(const Ftrl& rule, const V* state, V& h) {
    h = curvature(rule, state[1]);
    return -state[0];
}

// The state from which the closed form of FTRL without l1 returns phi.
template <class V>
inline void start(const Ftrl& rule, const V& phi, V* state) {
    state[1] = V{};
    state[0] = -phi * (curvature(rule, state[1]) + rule.strength.l2);
}

// The prox steps of FOBOS after step `since`, which a row has missed. With AdaGrad (g2 is its state), h is constant
// over these steps, because the row has no gradient in them.
inline DeferredProx<real> deferred(const Fobos& rule, int32_t since) {
    return steps_between(rule.steps[since * FOBOS_PARTS], rule.steps[rule.now * FOBOS_PARTS]);
}

template <class V>
inline DeferredProx<V> deferred(const Fobos& rule, int32_t since, V g2) {
    return equal_steps(root(1 + g2) * rule.inverse_rate, rule.now - since, rule.strength.l2);
}

}  // namespace

#endif
