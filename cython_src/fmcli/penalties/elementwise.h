// The penalty on each parameter by itself, l1 |v| + l2/2 v^2: its value, and its prox in the forms that solvers take.
// Whatever a solver knows of it is here. V is a double or a vector of reals.
#ifndef FMCLI_ELEMENTWISE_H
#define FMCLI_ELEMENTWISE_H

#include "fmcli/base/vector.h"
#include "fmcli/kernels/arguments.h"

namespace {

// What the penalty of some numbers is made of, whatever the strengths are. T is a double or a vector of doubles.
template <class T>
struct PenaltySums {
    T magnitudes = {}, squares = {};

    inline __attribute__((always_inline)) void add(T size) {  // |v|
        magnitudes += size;
        squares += size * size;
    }
};

inline double l1_term(const PenaltySums<double>& sums, const ExactStrength& s) { return s.l1 * sums.magnitudes; }
inline double l2_term(const PenaltySums<double>& sums, const ExactStrength& s) { return s.l2 / 2 * sums.squares; }

// The penalty of one number.
inline double penalty_of(double v, const ExactStrength& s) {
    PenaltySums<double> sums;
    sums.add(magnitude(v));
    return l1_term(sums, s) + l2_term(sums, s);
}

// The soft threshold sign(x) max(|x| - threshold, 0): twice a positive part is x + |x|, twice a negative part x - |x|,
// both without rounding. The threshold is one number, or one for each of a vector's.
template <class V, class Threshold>
inline V soft(V x, Threshold threshold) {
    V over = x - threshold, under = x + threshold;
    return real(0.5) * ((over + magnitude(over)) + (under - magnitude(under)));
}

// The prox takes a number from u to argmin_v h/2 (v - u)^2 + l1 |v| + l2/2 v^2, given hu = h u. It does so in two steps,
// between which a group penalty has its turn: it minimises d/2 v^2 - c v with c, which is returned, and d.
template <class V, class Strength>
inline V reduce(V hu, V h, const Strength& s, V& d) {
    d = h + s.l2;
    return soft(hu, s.l1);
}

template <class V, class Strength>
inline V prox(V hu, V h, const Strength& s) {
    V d, c = reduce(hu, h, s, d);
    return c / d;
}

// The prox with h = 1/rate, multiplied through by the rate so that no division is left in a loop.
inline ScaledProx scaled_prox(double rate, const PenaltyStrength& s) {
    return {(real)(rate * s.l1), (real)(1 / (1 + rate * s.l2))};
}

template <class V>
inline V prox(V u, const ScaledProx& p) {
    return soft(u, p.threshold) * p.decay;
}

}  // namespace

#endif
