// What each row solver does to a parameter, written once for vectors of any width. A rule takes the parameter's state
// and its gradient to the curvature h of the prox step, and to h times the point u that the step starts from. Every
// rule ends in the same prox, which is all that a rule knows of penalties.
#ifndef FMCLI_UPDATE_RULES_H
#define FMCLI_UPDATE_RULES_H

#include "fmcli/kernels/kernels.h"
#include "fmcli/base/vector.h"

namespace {

// sign(x) max(|x| - l1, 0): twice a positive part is x + |x|, twice a negative part x - |x|, both without rounding.
template <class V>
inline V soft(V x, V l1) {
    V over = x - l1, under = x + l1;
    return real(0.5) * ((over + magnitude(over)) + (under - magnitude(under)));
}

template <class V>
inline V soft(V x, real l1) {
    return soft(x, l1 - V{});
}

// argmin_v h/2 (v - u)^2 + l1 |v| + l2/2 v^2, given hu = h u. A group penalty adds l_g / |row| to the denominator.
template <class V>
inline V prox(V hu, V h, const PenaltyStrength& s) {
    return soft(hu, s.l1) / (h + s.l2);
}

// State beside each parameter.
template <class Rule>
constexpr int slots = 0;
template <>
constexpr int slots<Adagrad> = 1;
template <>
constexpr int slots<Ftrl> = 2;

// One step's (h, h u).
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

// The same, multiplied through by the rate so that no division is left in the loop.
template <class V>
inline void update(const Sgd& rule, V& phi, V*, V g) {
    phi = soft(phi - rule.rate * g, rule.shrink) * rule.decay;
}

// FTRL's (h, h u) again from its state alone, for rows that no gradient reaches.
template <class V>
inline V recompute(const Ftrl& rule, const V* state, V& h) {
    h = curvature(rule, state[1]);
    return -state[0];
}

// State from which FTRL's closed form without l1 returns phi.
template <class V>
inline void start(const Ftrl& rule, const V& phi, V* state) {
    state[1] = V{};
    state[0] = -phi * (curvature(rule, state[1]) + rule.strength.l2);
}

// What the prox steps amount to that parameters missed since a visit: they shrink by the factor `decay`, and are then
// soft-thresholded by l1 times `shrink`; then comes the group's prox with h = 1/shrink.
template <class V>
struct Deferred {
    V decay, shrink;
};

// With D_t = (D_{t-1} + rate_t)/(1 + rate_t l2), the steps a+1..b sum to D_b - decay D_a, in which nothing grows however
// long the run.
inline Deferred<real> deferred(const Fobos& rule, int32_t since) {
    const double decay = rule.decay[rule.now] / rule.decay[since];
    return {(real)decay, (real)(rule.sum[rule.now] - decay * rule.sum[since])};
}

// The same under AdaGrad's state: h does not change while a row is not visited, so that the sum is a geometric series.
template <class V>
inline Deferred<V> deferred(const Fobos& rule, int32_t since, V g2) {
    const V h = root(1 + g2) * rule.inverse_rate;
    const double steps = rule.now - since, l2 = rule.strength.l2;
    Deferred<V> m;
    for (int i = 0; i < width<V>; ++i) {
        const double growth = steps * __builtin_log1p(l2 / h[i]);
        m.decay[i] = (real)__builtin_exp(-growth);
        m.shrink[i] = (real)(l2 > 0 ? -__builtin_expm1(-growth) / l2 : steps / h[i]);
    }
    return m;
}

}  // namespace

#endif
