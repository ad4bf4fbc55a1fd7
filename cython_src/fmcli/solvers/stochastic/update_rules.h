// The update rule of each row solver for one parameter, written once for vectors of any width. From the parameter, its
// state and its gradient, a rule computes the curvature h of the prox step, and h u, where u is the point of the prox.
// Every rule ends with the same prox (elementwise.h); penalties enter a rule only there.
#ifndef FMCLI_UPDATE_RULES_H
#define FMCLI_UPDATE_RULES_H

#include "fmcli/base/vector.h"
#include "fmcli/penalties/deferred.h"
#include "fmcli/penalties/elementwise.h"
#include "fmcli/solvers/stochastic/kernels.h"

namespace {

// The number of state values that the solver keeps per parameter.
template <class Rule>
constexpr int slots = 0;
template <>
constexpr int slots<Adagrad> = 1;
template <>
constexpr int slots<Ftrl> = 2;

// The gradient of a step: the sum over its samples, and the sum of their squares.
template <class V>
struct Gradient {
    V sum, squares;

    inline __attribute__((always_inline)) void add(V g) {
        sum += g;
        squares += g * g;
    }
};

template <class V>
inline Gradient<V> of_one_sample(V g) {
    return {g, g * g};
}

// The samples of a step: usually one. The gradients of n samples in one step are computed from the same parameters, so
// their sum overshoots where a step of each sample would have reduced the slopes of the others. The curvature of their
// step is therefore at least `least`, a bound on the curvature of the loss by the other samples; it is 0 for
// one sample. Each sample applies the penalties once.
struct OneSample {};
template <class V>
struct Samples {
    V n, least;
};

template <class V>
inline V raised(V h, OneSample) {
    return h;
}
template <class V>
inline V raised(V h, const Samples<V>& samples) {
    return larger(h, samples.least);
}

inline const PenaltyStrength& times(const PenaltyStrength& s, OneSample) { return s; }
template <class V>
inline StrengthOf<V> times(const PenaltyStrength& s, const Samples<V>& samples) {
    return {s.l1 * samples.n, s.l2 * samples.n, s.group * samples.n, s.group_penalty};
}

// Returns h u of one step, and sets h.
template <class V>
inline V target(const Sgd& rule, V phi, V*, const Gradient<V>& g, OneSample, V& h) {
    h = 1 / rule.rate - V{};
    return h * phi - g.sum;
}

template <class V, class Of>
inline V target(const Adagrad& rule, V phi, V* state, const Gradient<V>& g, const Of& samples, V& h) {
    state[0] += g.squares;
    h = raised(root(1 + state[0]) * rule.inverse_rate, samples);  // G starts at 1, as in libffm and xLearn
    return h * phi - g.sum;
}

template <class V>
inline V curvature(const Ftrl& rule, V n) {
    V sum = n + rule.beta;
    return (rule.power == real(0.5) ? root(sum) : power(sum, rule.power)) * rule.inverse_alpha;
}

// The part of a gradient that changes the state z of FTRL: its step is then as short as with a raised curvature.
template <class V>
inline V shortened(V g, V, OneSample) {
    return g;
}
template <class V>
inline V shortened(V g, V h, const Samples<V>& samples) {
    return g * (h / raised(h, samples));
}

template <class V, class Of>
inline V target(const Ftrl& rule, V phi, V* state, const Gradient<V>& g, const Of& samples, V& h) {
    V before = curvature(rule, state[1]);
    state[1] += g.squares;
    h = curvature(rule, state[1]);
    state[0] += shortened(g.sum, h, samples) - (h - before) * phi;
    return -state[0];
}

// The number of times that a step applies the penalties. FTRL's do not grow with the number of samples: they are
// relative to the sum of all losses so far.
template <class Rule, class Of>
inline const Of& penalized(const Rule&, const Of& samples) {
    return samples;
}
template <class V>
inline Samples<V> penalized(const Adagrad& rule, const Samples<V>& samples) {
    return rule.penalty_steps > 0 ? Samples<V>{rule.penalty_steps + V{}, samples.least} : samples;
}
template <class Of>
inline OneSample penalized(const Ftrl&, const Of&) {
    return {};
}

template <class Rule, class V, class Of>
inline void update(const Rule& rule, V& phi, V* state, const Gradient<V>& g, const Of& samples) {
    V h;
    V hu = target(rule, phi, state, g, samples, h);
    phi = prox(hu, h, times(rule.strength, penalized(rule, samples)));
}

// Makes an update up to the first step of the prox, if a group penalty acts on the row: returns c and sets d (see
// elementwise.h).
template <class Rule, class V, class Of>
inline V reduced(const Rule& rule, V phi, V* state, const Gradient<V>& g, const Of& samples, V& d) {
    V h;
    V hu = target(rule, phi, state, g, samples, h);
    return reduce(hu, h, times(rule.strength, penalized(rule, samples)), d);
}

// The update of SGD, without a division.
template <class V>
inline void update(const Sgd& rule, V& phi, V*, const Gradient<V>& g, OneSample) {
    phi = prox(phi - rule.rate * g.sum, rule.prox);
}

// Computes h and h u of FTRL only from its state, without a gradient.
template <class V>
inline V recompute(const Ftrl& rule, const V* state, V& h) {
    h = curvature(rule, state[1]);
    return -state[0];
}

// Sets the state from which the closed form of FTRL without l1 returns phi.
template <class V>
inline void start(const Ftrl& rule, const V& phi, V* state) {
    state[1] = V{};
    state[0] = -phi * (curvature(rule, state[1]) + rule.strength.l2);
}

// `steps` prox steps of FOBOS that rows have missed, all with the same h. AdaGrad's h is constant because a row has no
// gradient in these steps. many: whether any number of steps exceeds rule.few.
template <class V>
inline __attribute__((always_inline)) DeferredProx<V> missed_steps(const Fobos& rule, V h, V steps, bool many) {
    return equal_steps(1 / h, steps, rule.inverse_rate, rule.strength.l2, rule.few, many);
}

}  // namespace

#endif
