// The penalties of rows as a whole. One adds strength * Omega(row) to the objective for each row; all solvers that take
// one minimise it by what its struct says:
//
//     option          the option of its strength
//     add, value      Omega: `add` takes the row's numbers one by one, from a sum of 0; `value` is Omega for the sum
//     prox            v <- argmin of sum_i (d_i/2 v_i^2 - c_i v_i) + strength * Omega, where Omega is of v and of other
//                     numbers of the row, which stay: `rest` is what `add` makes of those. All d_i and the strength are
//                     above 0, and `v` may be `c`.
//     steps_add_up    whether a prox step with strength a, and then one with strength b, are one with a + b. If not, FOBOS
//                     makes up for the steps that a row has missed one by one.
//
// Omega is convex, depends on magnitudes alone, and grows with them: therefore l1 and l2 act first, and leave c and d
// (elementwise.h). Rows are padded with zeros, with c_i = 0, which Omega must not count.
#ifndef FMCLI_GROUP_PENALTIES_H
#define FMCLI_GROUP_PENALTIES_H

#include "fmcli/penalties/group_norm.h"

namespace {

template <class... Penalties>
struct ListOf {
    static constexpr int count = sizeof...(Penalties);
    static constexpr const char* options[] = {Penalties::option...};

    // f(penalty) for the one at this place in the list.
    template <class F>
    static inline __attribute__((always_inline)) void with(int place, F f) {
        int i = 0;
        ((i++ == place ? f(Penalties{}) : void()), ...);
    }
};

// The list; PenaltyStrength::group_penalty is a place in it. At most one acts in a run.
typedef ListOf<GroupNorm> GroupPenalties;

// How many there are, and the members of the one at a place in the list, for callers that are not templates.
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
