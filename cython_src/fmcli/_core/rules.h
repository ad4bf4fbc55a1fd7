// What each row solver does to a parameter, written once for scalars and vectors of any width. A rule takes the
// parameter's state and its gradient to (h, hu): the curvature h of the prox step and h times the point u it starts
// from. Every rule ends in the same prox, which is all that a rule knows of penalties.
#ifndef FMCLI_RULES_H
#define FMCLI_RULES_H

#include "kernels.h"
#include "vector.h"

namespace {

// sign(x) max(|x| - l1, 0): twice a positive part is x + |x|, twice a negative part x - |x|, both without rounding.
template <class V>
inline V soft(V x, real l1) {
    V over = x - l1, under = x + l1;
    return real(0.5) * ((over + magnitude(over)) + (under - magnitude(under)));
}

// argmin_v h/2 (v - u)^2 + l1 |v| + l2/2 v^2, given hu = h u.
template <class V>
inline V prox(V hu, V h, Strength s) {
    return soft(hu, s.l1) / (h + s.l2);
}

// phi <- prox(phi - rate g, 1/rate), multiplied through by the rate so that no division is left in the loop.
template <class V>
inline void update(const Sgd& rule, V& phi, V*, V g) {
    phi = soft(phi - rule.rate * g, rule.shrink) * rule.decay;
}

template <class V>
inline void update(const Adagrad& rule, V& phi, V* state, V g) {
    state[0] += g * g;
    V h = root(1 + state[0]) * rule.inverse_rate;  // G starts at 1, as in libffm and xLearn
    phi = prox(h * phi - g, h, rule.strength);
}

template <class V>
inline V curvature(const Ftrl& rule, V n) {
    V sum = n + rule.beta;
    return (rule.power == real(0.5) ? root(sum) : power(sum, rule.power)) * rule.inverse_alpha;
}

template <class V>
inline void update(const Ftrl& rule, V& phi, V* state, V g) {
    V before = curvature(rule, state[1]);
    state[1] += g * g;
    V h = curvature(rule, state[1]);
    state[0] += g - (h - before) * phi;
    phi = prox(-state[0], h, rule.strength);
}

// The closed form alone, for rows that no gradient reaches.
template <class V>
inline void revisit(const Ftrl& rule, V& phi, const V* state) {
    phi = prox(-state[0], curvature(rule, state[1]), rule.strength);
}

// State from which the closed form without l1 returns phi.
template <class V>
inline void start(const Ftrl& rule, const V& phi, V* state) {
    state[1] = V{};
    state[0] = -phi * (curvature(rule, state[1]) + rule.strength.l2);
}

}  // namespace

#endif
