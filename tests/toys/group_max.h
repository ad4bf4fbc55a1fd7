// The largest magnitude of a row: a row of equal magnitudes costs no more than one number of it.
#ifndef TOY_GROUP_MAX_H
#define TOY_GROUP_MAX_H

#include <stddef.h>

namespace {

// A group penalty, as group_penalties.h says.
struct GroupMax {
    static constexpr const char* option = "group_max";
    static constexpr bool steps_add_up = true;

    static double add(double sum, double v) { return __builtin_fmax(sum, __builtin_fabs(v)); }
    static double value(double sum) { return sum; }

    // v_i = sign(c_i) min(|c_i|/d_i, t), where t is `rest` or, if that is more, the root of sum_i max(|c_i| - d_i t, 0) =
    // strength, by bisection.
    static void prox(const double* c, const double* d, ptrdiff_t n, double rest, double strength, double* v) {
        double low = rest, high = rest;
        for (ptrdiff_t i = 0; i < n; ++i) high = __builtin_fmax(high, __builtin_fabs(c[i]) / d[i]);
        auto above = [&](double t) {
            double sum = 0;
            for (ptrdiff_t i = 0; i < n; ++i) sum += __builtin_fmax(__builtin_fabs(c[i]) - d[i] * t, 0);
            return sum > strength;
        };
        if (above(low))
            for (int i = 0; i < 100; ++i) {
                const double middle = (low + high) / 2;
                (above(middle) ? low : high) = middle;
            }
        for (ptrdiff_t i = 0; i < n; ++i) v[i] = __builtin_copysign(__builtin_fmin(__builtin_fabs(c[i]) / d[i], low), c[i]);
    }
};

}  // namespace

#endif
