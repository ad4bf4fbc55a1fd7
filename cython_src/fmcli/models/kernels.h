// The kernels of models.
#ifndef FMCLI_MODELS_KERNELS_H
#define FMCLI_MODELS_KERNELS_H

#include "fmcli/base/fields.h"
#include "fmcli/models/arguments.h"

typedef struct ModelKernels {
    // Prefetch the rows `first + row[i]`.
    void (*prefetch)(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first);
    // <w, x>
    double (*linear)(const Factors* w, const Sample* x);
    // out[i] = slope * x_i
    void (*linear_gradient)(const Sample* x, double slope, real* out);
    // sum over factors f of beta_f A^2. `constant` is the factor row of a feature that is 1 in every sample, or NULL;
    // `beta` is NULL if all are 1. Stores in `sums` (lanes, padded) what the gradient needs: sum_j v_j x_j, followed by
    // A^2 of each factor if beta is given.
    double (*second_order)(const Factors* v, const Sample* x, const real* constant, const real* beta, real* sums);
    // out[i * apart] <- bias + <w, x> + second_order for the samples i = start .. stop - 1 of `data`, or its samples
    // rows[i]; without weights, w->at is NULL. `sums` is temporary.
    void (*second_order_scores)(const Factors* v, const Factors* w, double bias, const Csr* data, const int32_t* rows,
                                ptrdiff_t start, ptrdiff_t stop, real* sums, double* out, ptrdiff_t apart);
    // The second-order scores by at most DRAWS_TOGETHER draws of the parameters: out[d * apart + i] for draw d. The
    // factors of a feature in all draws, padded, follow each other from its row of `v` on; the weights in
    // DRAWS_TOGETHER draws, if there are weights, from its row of `w` on.
    void (*second_order_draws)(const Factors* v, const Factors* w, const double* bias, ptrdiff_t draws, const Csr* data,
                               const int32_t* rows, ptrdiff_t start, ptrdiff_t stop, double* out, ptrdiff_t apart);
    // out[i * apart ..] <- row number row[i], or i if `row` is NULL, for i = 0 .. n - 1.
    void (*copy_rows)(const KeptRows* kept, const int32_t* row, ptrdiff_t n, real* out, ptrdiff_t apart);
    // The derivatives by the factors of the constant feature and by beta, if these are not NULL.
    void (*structural_gradient)(const real* sums, const real* constant, const real* beta, ptrdiff_t lanes, double slope,
                                real* of_constant, real* of_beta);
    // Writes out[i * apart .. + lanes] for entry i.
    void (*second_order_gradient)(const Factors* v, const Sample* x, const real* sums, const real* beta, double slope,
                                  real* out, ptrdiff_t apart);
    // sum over pairs of entries of <v_{i,field(j)}, v_{j,field(i)}> x_i x_j. The factors of a feature for field f begin
    // f * apart reals after the factors for field 0. Stores the sums that the gradient
    // needs in `sums` (slots^2 times lanes, padded).
    double (*field_pairs)(const Factors* v, ptrdiff_t apart, const Sample* x, const FieldEntries* entries, real* sums);
    // The sum over pairs for a sample whose entries all have different fields.
    double (*single_field_pairs)(const Factors* v, ptrdiff_t apart, const Sample* x);
    // Its gradient for each entry and each field of another entry, contiguously: the same bits as by a formula.
    void (*single_field_pairs_gradient)(const Factors* v, ptrdiff_t apart, const Sample* x, double slope, real* out);
    // The gradient for each entry i and field of slot q that form a pair: written to out[place[i * slots + q] * padded
    // lanes ..], or contiguously if `place` is NULL. With `add`, it is added to `out` instead.
    void (*field_pairs_gradient)(const Factors* v, ptrdiff_t apart, const Sample* x, const FieldEntries* entries,
                                 const real* sums, double slope, const int32_t* place, bool add, real* out);
    // out <- the positions, in a table of weights, of the pairs (index[a], index[b]) with a < b, for b = first .. last - 1:
    // hashes of `bits` bits or, if `bits` is 0, j (j - 1) / 2 + i for the pair (i, j). Pairs with the same b are contiguous.
    void (*pair_places)(const int32_t* index, ptrdiff_t first, ptrdiff_t last, int bits, int32_t* out);
    // <sum of v_i x_i over side 0, sum of v_j x_j over side 1>, where side[j] is 0, 1, or -1 for features on neither
    // side. Stores both sums in `sums` (2 x lanes, padded).
    double (*two_sides)(const Factors* v, const Sample* x, const int32_t* side, real* sums);
    // Writes out[i * lanes .. + lanes] for entry i.
    void (*two_sides_gradient)(const Sample* x, const int32_t* side, const real* sums, ptrdiff_t lanes, double slope,
                               real* out);
    // out[i] = |x - point i|^2 minus the smallest of these distances
    void (*distances)(const Points* points, const Sample* x, double* out);
    // Columns: the scores of samples start .. stop - 1 without structural parameters, and the sums of each factor, in
    // the samples' states.
    void (*second_order_states)(const Factors* v, const Factors* w, double bias, const Csr* data, ptrdiff_t start,
                                ptrdiff_t stop, int output, const SampleStates* states);
    // The effect of a view's parameters on the scores of its samples.
    void (*prefetch_sample_states)(const ColumnView* v);
    // q <- derivatives: by only a weight; by numbers whose derivatives are in the caches from index `behind` on; by
    // factors whose sums come first in the caches.
    void (*weight_score_gradient)(const ColumnView* v, real* q);
    void (*cached_score_gradient)(const ColumnView* v, ptrdiff_t behind, real* q);
    void (*pairs_score_gradient)(const ColumnView* v, const real* row, const real* beta, real* q);
    // Update the caches for a step of `row`: the sums and, unless `values` is 0, the A^2 of each factor, from index
    // `values` on.
    void (*pairs_update_cache)(const ColumnView* v, const real* row, const real* step, ptrdiff_t values);
    // q <- derivatives of the sum over factors of prod_t z_t by coefficients of linear functions z, whose values
    // (`functions` times `lanes`) come first in the caches.
    void (*product_score_gradient)(const ColumnView* v, int functions, ptrdiff_t lanes, real* q);
    // Multiply q by the number at index `behind` of the caches.
    void (*share_score_gradient)(const ColumnView* v, ptrdiff_t behind, real* q);
    // Score gradients and score changes for the pairs of a field-aware model.
    void (*field_score_gradient)(const ColumnView* v, const FieldColumns* columns, real* q);
    void (*field_score_changes)(const ColumnView* v, const FieldColumns* columns, const real* step, double* out);
    // Prefetch the parts of the samples' states that these functions read.
    void (*field_prefetch_states)(const ColumnView* v, const FieldColumns* columns);
} ModelKernels;

#endif
