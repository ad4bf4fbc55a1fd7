// The elementwise penalty l1 |v| + l2/2 v^2: its value, and its prox in the forms that solvers use. Solvers use it only
// through this file. V is a double or a vector of reals.
#ifndef FMCLI_ELEMENTWISE_H
#define FMCLI_ELEMENTWISE_H

#include "fmcli/base/vector.h"
#include "fmcli/penalties/arguments.h"

namespace {

// Sums that give the penalty of some parameters for any strengths. T is a double or a vector of doubles.
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

// The penalty of one parameter.
inline double penalty_of(double v, const ExactStrength& s) {
    PenaltySums<double> sums;
    sums.add(magnitude(v));
    return l1_term(sums, s) + l2_term(sums, s);
}

// Whether any penalty acts.
template <class T>
inline bool acts(const StrengthOf<T>& s) {
    return s.l1 > 0 || s.l2 > 0 || s.group > 0;
}

// The soft threshold sign(x) max(|x| - threshold, 0), without branches: x + |x| is twice the positive part of x, and
// x - |x| is twice its negative part, both without rounding. The threshold is a scalar, or a vector with one threshold
// per lane.
template <class V, class Threshold>
inline V soft(V x, Threshold threshold) {
    if constexpr (sizeof threshold < sizeof(Vec4))
        if (threshold == 0) return x + 0;  // the usual case, in fewer instructions; -0 becomes 0, as below
    V over = x - threshold, under = x + threshold;
    return real(0.5) * ((over + magnitude(over)) + (under - magnitude(under)));
}

// The prox of u is argmin_v h/2 (v - u)^2 + l1 |v| + l2/2 v^2; its argument is hu = h u. It has two steps: `reduce`
// turns the problem into minimizing d/2 v^2 - c v, returns c and sets d; the solution of this problem is c / d. A group
// penalty acts between the two steps: it is added to the reduced problem.
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

// The prox with h = 1/rate. Its formula is multiplied by the rate, so a loop needs no division.
inline ScaledProx scaled_prox(double rate, const PenaltyStrength& s) {
    return {(real)(rate * s.l1), (real)(1 / (1 + rate * s.l2))};
}

template <class V>
inline V prox(V u, const ScaledProx& p) {
    return soft(u, p.threshold) * p.decay;
}

}  // namespace

#endif
