// Group penalties. A group penalty adds strength * Omega(row) to the objective for each row of parameters. One struct
// defines it for all solvers that support group penalties:
//
//     option          the name of the option that sets the strength
//     add, value      Omega: `add` adds one parameter of the row to a sum that starts from 0; `value` returns Omega for
//                     the sum over the whole row
//     prox            v <- argmin of sum_i (d_i/2 v_i^2 - c_i v_i) + strength * Omega. Omega includes the row's other
//                     parameters, which do not change: `rest` is their sum by `add`. All d_i and the strength are
//                     positive; `v` and `c` may be the same array.
//     steps_add_up    whether a prox step with strength a, followed by one with strength b, equals one with a + b. If
//                     not, FOBOS applies deferred steps one by one.
//
// Omega must be convex, depend only on the absolute values of the parameters, and increase with them. Then l1 and l2
// can be applied first, which gives c and d (elementwise.h). Rows are padded with zeros (c_i = 0), which must not
// change Omega.
#ifndef FMCLI_GROUP_PENALTIES_H
#define FMCLI_GROUP_PENALTIES_H

#include "fmcli/penalties/group_norm.h"

namespace {

template <class... Penalties>
struct ListOf {
    static constexpr int count = sizeof...(Penalties);
    static constexpr const char* options[] = {Penalties::option...};

    // Whether the penalty at this position in the list is `Penalty`.
    template <class Penalty>
    static constexpr bool is(int place) {
        int i = 0;
        return ((i++ == place && __is_same(Penalty, Penalties)) || ...);
    }

    // Calls f(penalty) for the penalty at this position in the list.
    template <class F>
    static inline __attribute__((always_inline)) void with(int place, F f) {
        int i = 0;
        ((i++ == place ? f(Penalties{}) : void()), ...);
    }
};

// The list of group penalties; PenaltyStrength::group_penalty is a position in it. At most one is active in a run.
typedef ListOf<GroupNorm> GroupPenalties;

// The number of group penalties, and the members of the penalty at a position in the list, for callers without
// templates.
constexpr int group_penalties = GroupPenalties::count;
inline const char* group_option(int place) { return GroupPenalties::options[place]; }

inline bool group_steps_add_up(int place) {
    bool found = false;
    GroupPenalties::with(place, [&](auto penalty) { found = penalty.steps_add_up; });
    return found;
}

inline double group_value(int place, const double* v, ptrdiff_t n) {
    double found = 0;
    GroupPenalties::with(place, [&](auto penalty) {
        double sum = 0;
        for (ptrdiff_t i = 0; i < n; ++i) sum = penalty.add(sum, v[i]);
        found = penalty.value(sum);
    });
    return found;
}

inline void group_prox(int place, const double* c, const double* d, ptrdiff_t n, double rest, double strength, double* v) {
    GroupPenalties::with(place, [&](auto penalty) { penalty.prox(c, d, n, rest, strength, v); });
}

}  // namespace

#endif
