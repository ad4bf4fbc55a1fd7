// The kernels of coordinate descent, on the derivatives q_i and the slopes g_i of samples.
#ifndef FMCLI_SOLVERS_COORDINATE_KERNELS_H
#define FMCLI_SOLVERS_COORDINATE_KERNELS_H

#include "fmcli/base/types.h"
#include "fmcli/penalties/arguments.h"

// The most pairs whose derivatives are kept at once.
enum { PAIRS_AT_ONCE = 64 };

// The observed pairs of parts. Each pair counts twice: for its context, and for its item.
typedef struct ObservedPairs {
    const int64_t* begin;  // the pairs of part i are begin[i] .. begin[i + 1] - 1
    const int32_t* other;  // the other part of each pair
    const real* share;     // of the total weight
    real* score;           // of the pairs whose parts' features are updated
    bool known;            // whether these scores are those of the parts as they are
    ptrdiff_t count;       // of pairs
    SampleStates parts;
    bool within;  // whether the features of a part interact
    const real* beta;    // the weights of the products of two parts' factors; NULL: all are 1
    ptrdiff_t weighted;  // from the factors of a part on to the factors times beta; 0: all weights are 1
} ObservedPairs;

typedef struct CoordinateKernels {
    // r (width) += sum_i g_i q_i, and G (width x width, on and above the diagonal) += sum_i s_i q_i q_i^T. The q_i are
    // `apart` reals from each other; width is a multiple of LANES, or one more.
    void (*gram)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r,
                 double* G);
    // r (width) += sum_i g_i q_i; returns sum_i s_i |q_i|^2.
    double (*squares)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s,
                      double* r);
    // out[i] <- <q_i, step>
    void (*affine_score_changes)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* step,
                                 double* out);
    // step (width) <- from 0 to about the minimum of <r, s> + s'Gs/2 plus the penalty of phi + s, by sweeps over the first
    // `moved` coordinates. `room` (2 width) is work space.
    void (*small_descent)(ptrdiff_t width, ptrdiff_t moved, const double* r, const double* G, const double* phi,
                          const ExactStrength* strength, double* room, double* step);
    // Coordinate descent over the rows of a relation that a feature enters, with the factors `row` and the states of
    // relation_rows.inl: r and G of a slice; r and the trace of G; and the change of the states by a step.
    void (*relation_row_bound)(const ColumnView* v, const real* row, ptrdiff_t width, double* r, double* G);
    double (*relation_row_squares)(const ColumnView* v, const real* row, ptrdiff_t width, double* r);
    void (*relation_row_step)(const ColumnView* v, const real* row, ptrdiff_t width, const real* step);
    // Coordinate descent on pairs of parts, by the parts that a feature enters (all_pairs.inl): what the observed pairs and
    // all pairs add to r and G of a slice, with work space; what a step changes in the parts and, unless these are not
    // needed, the scores of their observed pairs; and the scores of the observed pairs of some contexts, and their loss.
    void (*observed_pairs_bound)(const ColumnView* v, const ObservedPairs* pairs, const real* row, real* room, double* r,
                                 double* G);
    void (*parts_step)(const ColumnView* v, const ObservedPairs* pairs, const real* row, const real* step, bool scores);
    double (*observed_pairs_loss)(const ObservedPairs* pairs, ptrdiff_t start, ptrdiff_t stop);
    void (*all_pairs_bound)(const ColumnView* v, const ObservedPairs* pairs, const real* row, const real* K,
                            const real* offset, double* r, double* G);
    // step (width) <- to the minimum of <r, s> + s'Gs/2 plus the l2 penalty of phi + s; false if there is an l1 penalty.
    bool (*exact_step)(ptrdiff_t width, const double* r, const double* G, const double* phi, const ExactStrength* strength,
                       double* step);
} CoordinateKernels;

#endif
