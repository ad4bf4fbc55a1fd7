// The group lasso: the Euclidean norm of a row. Newton's method finds the norm of the row after a prox step, both for
// row solvers (vectors) and for coordinate descent (doubles).
#ifndef FMCLI_GROUP_NORM_H
#define FMCLI_GROUP_NORM_H

#include <stddef.h>

#include "fmcli/base/vector.h"

namespace {

// Let v minimize sum_i (d_i/2 v_i^2 - c_i v_i) + l_g sqrt(|v|^2 + fixed), where `fixed` is the sum of squares of the
// row's other parameters, which do not change. Then v_i = c_i / (d_i + l_g / nu) with nu = sqrt(|v|^2 + fixed). Returns
// nu, or 0 if the whole row is 0. Newton's method solves psi(nu) = 1 with psi = (sum_i r_i^2)^(-1/2), r_i = c_i / t_i
// and t_i = d_i nu + l_g (t = nu for fixed parameters). psi is increasing and concave, and linear if all d_i are equal.
// So no step goes beyond the root, from any start.
//
// squares, weighted: sums of c_i^2 and of c_i^2 d_i.
// lowest: the smallest d_i, or 0 if not known.
// before: an initial guess of nu, or 0.
// precision: the relative error of v at which the iteration stops. A step squares the error of nu; the share l_g / t_i
// of that error reaches v_i.
// sums(nu, s2, s3): sets s2 to sum r_i^2, and s3 to sum r_i^2 d_i / t_i.
//
// T is a double, or a vector with a row in each lane.
template <class T, class Sums>
inline __attribute__((always_inline)) T group_norm(T squares, T weighted, T lowest, T fixed, T group, T before, T precision,
                                                   Sums sums) {
    enum { MOST_STEPS = 50 };
    const T none = {}, norm = root(squares), others = root(fixed);
    const MaskOf<T> remains = is_less(group, norm), nonzero = remains | is_less(none, fixed);
    const bool partial = any(is_less(none, fixed));
    T least = chosen(remains, (norm - group) * squares / weighted, none);  // the step from nu = 0
    least = chosen(is_less(least, others), others, least);
    T nu = chosen(is_less(least, before), before, least);
    MaskOf<T> open = nonzero;
    for (int i = 0; i < MOST_STEPS && any(open); ++i) {
        T s2, s3;
        sums(nu, s2, s3);
        if (partial) {
            s2 += fixed / (nu * nu);
            s3 += fixed / (nu * nu * nu);
        }
        T next = nu + s2 * (root(s2) - 1) / s3;
        next = chosen(is_less(next, least), least, next);
        const T change = (next - nu) / next, share = group / (lowest * next + group);
        nu = chosen(open, next, nu);
        open = open & is_less(precision, change * change * share);
    }
    return chosen(nonzero, nu, none);
}

// A group penalty as group_penalties.h specifies it. Row solvers use a vectorized form of its prox (row_updates.inl).
struct GroupNorm {
    static constexpr const char* option = "group_l1";
    static constexpr bool steps_add_up = true;

    static double add(double sum, double v) { return sum + v * v; }
    static double value(double sum) { return __builtin_sqrt(sum); }

    static void prox(const double* c, const double* d, ptrdiff_t n, double rest, double strength, double* v) {
        const double precision = 1e-16;
        double squares = 0, weighted = 0;
        for (ptrdiff_t i = 0; i < n; ++i) {
            squares += c[i] * c[i];
            weighted += c[i] * c[i] * d[i];
        }
        const double norm = group_norm<double>(squares, weighted, 0, rest, strength, 0, precision,
                                       [&](double nu, double& s2, double& s3) {
            s2 = s3 = 0;
            for (ptrdiff_t i = 0; i < n; ++i) {
                const double t = d[i] * nu + strength, r = c[i] / t;
                s2 += r * r;
                s3 += r * r * d[i] / t;
            }
        });
        for (ptrdiff_t i = 0; i < n; ++i) v[i] = norm == 0 ? 0 : c[i] / (d[i] + strength / norm);
    }
};

}  // namespace

#endif
