// The strengths of penalties, and the constants of their proximal steps.
#ifndef FMCLI_PENALTIES_ARGUMENTS_H
#define FMCLI_PENALTIES_ARGUMENTS_H

#include "fmcli/base/types.h"

// Penalty strengths for one part of a row: l1 |v| + l2/2 v^2 for each number v, and `group` times a penalty of the
// whole row. `group_penalty` is the index of the group penalty in the list of group_penalties.h.
template <class T>
struct StrengthOf {
    T l1, l2, group;
    int group_penalty;
};
typedef StrengthOf<double> ExactStrength;  // as given
typedef StrengthOf<real> PenaltyStrength;  // rounded to the type of the parameters, for updates

static inline PenaltyStrength rounded(const ExactStrength& s) {
    return {(real)s.l1, (real)s.l2, (real)s.group, s.group_penalty};
}

// The prox with h = 1/rate, with both its constants multiplied by the rate (elementwise.h).
typedef struct ScaledProx {
    real threshold;  // rate * l1
    real decay;      // 1 / (1 + rate * l2)
} ScaledProx;

// The first prox steps of FOBOS, combined; see deferred.h.
typedef struct CombinedSteps {
    double decay, sum;
} CombinedSteps;

#endif
