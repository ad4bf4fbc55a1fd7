// Structs that are arguments of kernels.
#ifndef FMCLI_ARGUMENTS_H
#define FMCLI_ARGUMENTS_H

#include "fmcli/base/types.h"

// Penalty strengths for one part of a row: l1 |v| + l2/2 v^2 for each of its numbers v, and `group` times a penalty of
// the whole row. `group_penalty` is the index of the latter in the list of group_penalties.h.
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

// The constants of a solver's update for one part of a row.
typedef struct Sgd {
    real rate;
    ScaledProx prox;
    PenaltyStrength strength;
} Sgd;

typedef struct Adagrad {
    real inverse_rate;
    real penalty_steps;  // how often a block step applies the penalties; 0: once for each sample of the row
    PenaltyStrength strength;
} Adagrad;

typedef struct Ftrl {
    real inverse_alpha, beta, power;
    PenaltyStrength strength;
} Ftrl;

// The first prox steps of FOBOS combined, as deferred.h defines it.
typedef struct CombinedSteps {
    double decay, sum;
} CombinedSteps;

// A table of them has a row for each number of steps, with an entry for each part of the rows that have a rate and l2 of
// their own, so that one cache line has all that a row needs.
enum { FOBOS_PARTS = 2 };

// The deferred prox steps of FOBOS for one part of rows, counted from the last time that all rows were up to date.
typedef struct Fobos {
    const CombinedSteps* steps;  // [t * FOBOS_PARTS]: the steps up to t; NULL: all steps have the same h
    int32_t now;                 // number of the last step
    int32_t few;                 // without `steps`: the result of few_steps (deferred.h)
    bool adaptive;               // whether h is that of AdaGrad
    real inverse_rate;           // h of all steps, or AdaGrad's h at first
    PenaltyStrength strength;
} Fobos;

// A loss with one score: returns its value, and writes its derivative to `slope`.
typedef struct ScalarLoss {
    void* self;
    double (*slope)(void* self, double label, const double* score, double* slope);
} ScalarLoss;

// Draws of the parameters of a model that are scored at once.
enum { DRAWS_TOGETHER = 8 };

// A run of samples on which a row solver trains a linear model, or a model of second order, of one output.
enum { NO_BLOCK = -1 };
typedef struct SampleRun {
    const Csr* data;
    const double *label, *weight;  // of the rows of `data`; weight NULL: all 1
    double weight_scale;           // of each weight, in the gradient alone
    const int32_t* order;          // numbers of rows; those from `stop` to `end` - 1 are only prefetched
    ptrdiff_t start, stop, end;
    ScalarLoss loss;
    const Block* block;  // the model's blocks
    int bias, features, constant, beta;  // numbers of blocks, or NO_BLOCK
    bool trains_beta;
    real *sums;    // work space of `second_order`
    real *buffer;  // work space for the gradients of `constant` and `beta`, where the model has them: lanes each
    void* solver;
    void (*before)(void* solver, ptrdiff_t i);  // called before the score of sample order[i]; NULL: nothing to do
} SampleRun;

// Some samples of a block, for block steps of a model of second order. The arrays have a number, or `lanes` numbers, for
// each sample of the block.
typedef struct BlockSamples {
    SampleRun run;
    ptrdiff_t begin;                        // the first sample of the block
    real *sums, *slope;                     // of the features' gradients, which are formulas
    real *of_bias, *of_constant, *of_beta;  // the gradients by rows of all samples; not used without such a block
    double* loss;
} BlockSamples;

enum { MAX_ORDER = 64 };

// The ANOVA kernel of one output.
typedef struct Anova {
    ptrdiff_t rank;   // number of factors, without padding
    int order;        // m, from 2 to MAX_ORDER
    int constants;    // number of constant features, which are 1 in every sample
    const real* gamma;       // rows of factors of the constant features
    ptrdiff_t gamma_stride;  // reals from one of these rows to the next
    const real* beta;        // one weight per factor; NULL if all are 1
    const real* theta;       // one weight per degree, 1 .. m; NULL if only degree m counts
} Anova;

// Output arrays for the derivatives of an ANOVA kernel; beta and theta can be NULL.
typedef struct AnovaGradient {
    real* body;       // the derivatives of entry i start at i * apart
    ptrdiff_t apart;
    real* gamma;      // contiguous rows, padded
    real* beta;
    real* theta;
} AnovaGradient;

// The rows of a lifted ANOVA kernel, for the features and for `constants` features that are 1 in every sample. Each of
// the `order` vectors of a product has one matrix. The time for a sample is proportional to 2^order.
enum { MOST_LIFTED = 8 };
typedef struct Lifted {
    int order;
    ptrdiff_t constants;
    Factors u[MOST_LIFTED], gamma[MOST_LIFTED];
} Lifted;

// The samples and factors that column kernels of a field-aware model read.
typedef struct FieldColumns {
    Csr rows;         // each index occurs at most once in a row
    Factors v;        // the factors of one output for the first field
    ptrdiff_t apart;  // reals from a feature's factors for one field to those for the next
    int32_t fields;
    int32_t feature, field;  // the feature and field of the viewed factors; field -1: the row has those of all fields
    int placed;              // whether caches have the places of their samples' entries, by field
} FieldColumns;

#endif
