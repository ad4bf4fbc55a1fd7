// What kernels are given besides numbers and rows.
#ifndef FMCLI_ARGUMENTS_H
#define FMCLI_ARGUMENTS_H

#include "fmcli/base/types.h"

// How strongly penalties act on one part of a row: l1 |v| + l2/2 v^2 on each of its numbers v, and `group` times
// a penalty of the whole row: that at the place `group_penalty` of the list in group_penalties.h.
template <class T>
struct StrengthOf {
    T l1, l2, group;
    int group_penalty;
};
typedef StrengthOf<double> ExactStrength;  // as given
typedef StrengthOf<real> PenaltyStrength;  // rounded to the parameters' type, for steps

static inline PenaltyStrength rounded(const ExactStrength& s) {
    return {(real)s.l1, (real)s.l2, (real)s.group, s.group_penalty};
}

// The prox with h = 1/rate, multiplied through by the rate (elementwise.h).
typedef struct ScaledProx {
    real threshold;  // rate * l1
    real decay;      // 1 / (1 + rate * l2)
} ScaledProx;

// The constants of one solver's update of one part of a row.
typedef struct Sgd {
    real rate;
    ScaledProx prox;
    PenaltyStrength strength;
} Sgd;

typedef struct Adagrad {
    real inverse_rate;
    PenaltyStrength strength;
} Adagrad;

typedef struct Ftrl {
    real inverse_alpha, beta, power;
    PenaltyStrength strength;
} Ftrl;

// The prox steps that FOBOS has to make up for on one part of rows, counted from the last time all rows were up to date.
typedef struct Fobos {
    const double* decay;  // [t]: of the steps up to t, as deferred.h says
    const double* sum;
    int32_t now;          // the last step
    real inverse_rate;    // of AdaGrad's h, for the adaptive form; else 0
    PenaltyStrength strength;
} Fobos;

enum { MAX_ORDER = 64 };

// ANOVA kernels of one output's factors.
typedef struct Anova {
    ptrdiff_t rank;   // factors, without padding
    int order;        // m, from 2 to MAX_ORDER
    int constants;    // rows of factors of features that are 1 in every sample
    const real* gamma;
    ptrdiff_t gamma_stride;  // reals from one of those rows to the next
    const real* beta;        // a weight a factor; NULL for ones
    const real* theta;       // one weight per degree, 1 .. m; NULL if only degree m counts
} Anova;

// Where derivatives of them go; beta and theta may be NULL.
typedef struct AnovaGradient {
    real* body;       // of the sample's i-th entry: from i * apart on
    ptrdiff_t apart;
    real* gamma;      // rows without gaps, padded
    real* beta;
    real* theta;
} AnovaGradient;

// The rows of a lifted ANOVA kernel: of the features, and of `constants` features that are 1 in every sample; one matrix
// each of the `order` vectors that a term multiplies. The work for a sample grows with 2^order.
enum { MOST_LIFTED = 8 };
typedef struct Lifted {
    int order;
    ptrdiff_t constants;
    Factors u[MOST_LIFTED], gamma[MOST_LIFTED];
} Lifted;

// What a field-aware model's columns are looked up in.
typedef struct FieldColumns {
    Csr rows;         // an index at most once in each
    Factors v;        // of one output, for the first field
    ptrdiff_t apart;  // reals from a feature's factors for one field to those for the next
    int32_t fields;
    int32_t feature, field;  // whose factors are visited, and for which field; -1: the row has all fields' side by side
} FieldColumns;

#endif
