// The list of hot functions. A table of them is compiled for each instruction set, and one table is chosen when the
// core is loaded. After a change to the list, run scripts/kernels.py to update table.inl and table.pxd.
#ifndef FMCLI_KERNELS_H
#define FMCLI_KERNELS_H

#include "fmcli/base/fields.h"
#include "fmcli/base/types.h"
#include "fmcli/kernels/arguments.h"

typedef struct Kernels {
    const char* name;

    // Prefetch the rows `first + row[i]`.
    void (*prefetch)(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first);

    // <w, x>
    double (*linear)(const Factors* w, const Sample* x);
    // out[i] = slope * x_i
    void (*linear_gradient)(const Sample* x, double slope, real* out);

    // sum over factors f of beta_f A^2. `constant` is the factor row of a feature that is 1 in every sample, or NULL;
    // `beta` is NULL if all are 1. Stores in `sums` (lanes, padded) what the gradient needs: sum_j v_j x_j and, if beta
    // is given, A^2 of each factor after them.
    double (*second_order)(const Factors* v, const Sample* x, const real* constant, const real* beta, real* sums);
    // out[i * apart] <- bias + <w, x> + second_order for the samples i = start .. stop - 1 of `data`, or its samples
    // rows[i]; without weights, w->at is NULL. `sums` is temporary.
    void (*second_order_scores)(const Factors* v, const Factors* w, double bias, const Csr* data, const int32_t* rows,
                                ptrdiff_t start, ptrdiff_t stop, real* sums, double* out, ptrdiff_t apart);
    // The same for at most DRAWS_TOGETHER draws of the parameters: out[d * apart + i] for draw d. The factors of a
    // feature in all draws, padded, lie one after the other from its row of `v` on, and then the weights in
    // DRAWS_TOGETHER draws, from its row of `w` on, if there are some.
    void (*second_order_draws)(const Factors* v, const Factors* w, const double* bias, ptrdiff_t draws, const Csr* data,
                               const int32_t* rows, ptrdiff_t start, ptrdiff_t stop, double* out, ptrdiff_t apart);
    // The derivatives by the factors of the constant feature and by beta, if these are not NULL.
    void (*structural_gradient)(const real* sums, const real* constant, const real* beta, ptrdiff_t lanes, double slope,
                                real* of_constant, real* of_beta);
    // Writes out[i * apart .. + lanes] for entry i.
    void (*second_order_gradient)(const Factors* v, const Sample* x, const real* sums, const real* beta, double slope,
                                  real* out, ptrdiff_t apart);

    // sum over factors f of beta_f sum_t theta_t A^t([gamma_f, p_f], [1, x]). Stores what the gradient needs in `work`,
    // which has rank (padded) times m + (constants + entries of x) (m - 1) reals.
    double (*anova)(const Factors* p, const Sample* x, const Anova* kernel, real* work);
    void (*anova_gradient)(const Factors* p, const Sample* x, const Anova* kernel, const real* work, double slope,
                           const AnovaGradient* out);

    // sum over factors f of prod_j (1 + p_jf x_j). `work` has rank (padded) times entries of x reals.
    double (*all_subsets)(const Factors* p, const Sample* x, ptrdiff_t rank, real* work);
    void (*all_subsets_gradient)(const Factors* p, const Sample* x, ptrdiff_t rank, const real* work, double slope,
                                 real* out, ptrdiff_t apart);

    // sums (lanes, padded) <- constant + sum_j u_j x_j; NULL as the constant means zeros.
    void (*project)(const Factors* u, const Sample* x, const real* constant, real* sums);
    // sum over factors s of beta_s prod_t z_ts, where z has `parts` rows of padded lanes: `order` rows, or one row that
    // is multiplied `order` times. `beta` is NULL if all are 1. Stores the products in `values` (lanes, padded).
    double (*products)(const real* z, int parts, int order, ptrdiff_t lanes, const real* beta, real* values);
    // out (parts, lanes) <- slope times the derivative by z. Lanes are padded.
    void (*products_gradient)(const real* z, int parts, int order, ptrdiff_t lanes, const real* beta, double slope,
                              real* out);
    // out[i * lanes .. + lanes] <- x_i direction, for each entry i
    void (*spread)(const real* direction, ptrdiff_t lanes, const Sample* x, real* out);

    // 1/m! times the sum over factors and over ordered tuples of distinct entries of prod_t u_t x. Stores what the
    // gradient needs in `tables`, unless it is NULL: (2^m - 2) reals for each entry, including constants, and each
    // padded lane.
    double (*lifted)(const Lifted* l, const Sample* x, real* tables);
    // Writes out[(i * order + t) * lanes .. + lanes] for entry i and vector t, and out_constants for the constants.
    // Lanes are padded.
    void (*lifted_gradient)(const Lifted* l, const Sample* x, const real* tables, double slope, real* out,
                            real* out_constants);

    // sum over pairs of entries of <v_{i,field(j)}, v_{j,field(i)}> x_i x_j. The factors of a feature for field f begin
    // f * apart reals after those for field 0. Stores what the gradient needs in `sums` (slots^2 times lanes, padded).
    double (*field_pairs)(const Factors* v, ptrdiff_t apart, const Sample* x, const FieldEntries* entries, real* sums);
    // The same for a sample whose entries all have different fields.
    double (*single_field_pairs)(const Factors* v, ptrdiff_t apart, const Sample* x);
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

    // Columns: the scores of samples start .. stop - 1 without structural parameters, and the sums of each factor, in the
    // samples' states.
    void (*second_order_states)(const Factors* v, const Factors* w, double bias, const Csr* data, ptrdiff_t start,
                                ptrdiff_t stop, int output, const SampleStates* states);
    // The effect of a view's parameters on the scores of its samples.
    void (*prefetch_sample_states)(const ColumnView* v);
    // r (width) += sum_i g_i q_i, and G (width x width, on and above the diagonal) += sum_i s_i q_i q_i^T. The q_i are
    // `apart` reals from each other; width is a multiple of LANES, or such a multiple plus 1.
    void (*gram)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r,
                 double* G);
    // r (width) += sum_i g_i q_i; returns sum_i s_i |q_i|^2.
    double (*squares)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s,
                      double* r);
    // out[i] <- <q_i, step>
    void (*affine_score_changes)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* step, double* out);
    // Coordinate descent over the rows of a relation's block that a feature enters, with the factors `row` and the states
    // of block_rows.inl: r and G of a slice; r, and the trace of G; and what a step changes in the states.
    void (*block_row_bound)(const ColumnView* v, const real* row, ptrdiff_t width, double* r, double* G);
    double (*block_row_squares)(const ColumnView* v, const real* row, ptrdiff_t width, double* r);
    void (*block_row_step)(const ColumnView* v, const real* row, ptrdiff_t width, const real* step);
    // q <- derivatives: by only a weight; by numbers whose derivatives are in the caches, from index `behind` on; by
    // factors whose sums come first in the caches.
    void (*weight_score_gradient)(const ColumnView* v, real* q);
    void (*cached_score_gradient)(const ColumnView* v, ptrdiff_t behind, real* q);
    void (*pairs_score_gradient)(const ColumnView* v, const real* row, const real* beta, real* q);
    // Update the caches for a step of `row`: the sums and, unless `values` is 0, the A^2 of each factor, which begin at
    // index `values`.
    void (*pairs_update_cache)(const ColumnView* v, const real* row, const real* step, ptrdiff_t values);

    // The same for a view of a row of the factors p or, with `constant`, of the kernel's constants. Caches are e_1 ..
    // e_m of the samples, each of rank (padded) reals. `data` contains the samples, from which sums are recomputed if
    // the caches have lost too many digits.
    void (*anova_cache)(const Factors* p, const Sample* x, const Anova* kernel, real* cache);
    void (*anova_score_gradient)(const ColumnView* v, const Csr* data, const Factors* p, const Anova* kernel, int constant, real* q);
    void (*anova_update_cache)(const ColumnView* v, const Csr* data, const Factors* p, const Anova* kernel, int constant,
                        const real* step);
    // q <- derivatives by the weights of the degrees, theta
    void (*degree_score_gradient)(const ColumnView* v, const Anova* kernel, real* q);
    // Caches are prod_j (1 + p_jf x_j).
    void (*all_subsets_cache)(const Factors* p, const Sample* x, real* cache);
    void (*all_subsets_score_gradient)(const ColumnView* v, const Csr* data, const Factors* p, ptrdiff_t rank, real* q);
    void (*all_subsets_update_cache)(const ColumnView* v, const Csr* data, const Factors* p, const real* step);
    // Caches are the sums of lifted.inl for the sets 1 .. 2^m - 1 of vectors, each of padded lanes.
    void (*lifted_cache)(const Lifted* l, const Sample* x, real* cache);
    void (*lifted_score_gradient)(const ColumnView* v, const Csr* data, const Lifted* l, int constant, real* q);
    void (*lifted_update_cache)(const ColumnView* v, const Csr* data, const Lifted* l, int constant, const real* step);
    // q <- derivatives by coefficients of linear functions z, whose values (`parts` times `lanes`) come first in the
    // caches: of the sum over factors of prod_t z_t; n-th derivatives, n <= 2, of beta z^order. `beta` is NULL if all
    // are 1.
    void (*product_score_gradient)(const ColumnView* v, int parts, ptrdiff_t lanes, real* q);
    void (*power_score_gradient)(const ColumnView* v, int order, int n, const real* beta, real* q);
    // out[i] <- the change of sample i's sum of beta prod_t z_t by a step. The product has `order` factors z; if
    // `parts` is 1, they are all the same z. If there are more parts, the view must contain the whole row.
    void (*product_score_changes)(const ColumnView* v, int parts, int order, ptrdiff_t lanes, const real* beta, const real* step,
                            double* out);

    // Multiply q by the number at index `behind` of the caches.
    void (*share_score_gradient)(const ColumnView* v, ptrdiff_t behind, real* q);
    // Score gradients and score changes for the pairs of a field-aware model.
    void (*field_score_gradient)(const ColumnView* v, const FieldColumns* columns, real* q);
    void (*field_score_changes)(const ColumnView* v, const FieldColumns* columns, const real* step, double* out);

    // Add the penalty of a block's rows to `out`: that of their bodies, of their weights, and of whole rows.
    void (*add_penalty)(const Block* block, ptrdiff_t rows, const ExactStrength* body, const ExactStrength* weight,
                        double* out);

    void (*sgd)(const Block* block, const SparseGradient* gradient, const Sgd* body, const Sgd* weight);
    void (*adagrad)(const Block* block, const SparseGradient* gradient, const Adagrad* body, const Adagrad* weight);
    void (*ftrl)(const Block* block, const SparseGradient* gradient, const Ftrl* body, const Ftrl* weight);
    // Steps for a run of samples. The constants of the update are those of each block. Returns `total` plus the weighted
    // losses, each before the sample's own step.
    double (*sgd_samples)(const SampleRun* run, const Sgd* body, const Sgd* weight, double total);
    double (*adagrad_samples)(const SampleRun* run, const Adagrad* body, const Adagrad* weight, double total);
    double (*ftrl_samples)(const SampleRun* run, const Ftrl* body, const Ftrl* weight, double total);
    // The losses of samples of a block, and what their gradients depend on.
    void (*block_gradients)(const BlockSamples* samples);
    // The step for a block of samples: one thread's share of the rows.
    void (*adagrad_block)(const Block* block, const BlockGradient* gradient, const Adagrad* body, const Adagrad* weight,
                          const ThreadShare* share);
    void (*ftrl_block)(const Block* block, const BlockGradient* gradient, const Ftrl* body, const Ftrl* weight,
                       const ThreadShare* share);
    void (*ftrl_recompute)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    void (*ftrl_start)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    // Apply the deferred steps to the rows `first + row[i]` (row NULL: the first n rows); visited[r] is the last step
    // of row r.
    void (*fobos_catch_up)(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first, int32_t* visited,
                          const Fobos* body, const Fobos* weight);
} Kernels;

// The table for the instruction set `name`: "baseline", or "v3" (x86-64-v3: AVX2). NULL if this machine or this build
// does not have it. A level for AVX-512 was tried: with these vectors of eight lanes it was 3 to 6 % slower than v3.
const Kernels* fmcli_kernels(const char* name);

#endif
