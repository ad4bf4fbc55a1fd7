// The list of hot functions. A table of them is compiled for each instruction set, and one is chosen when the core is
// loaded. After a change of the list, scripts/kernels.py writes table.inl and table.pxd anew.
#ifndef FMCLI_KERNELS_H
#define FMCLI_KERNELS_H

#include "fmcli/base/fields.h"
#include "fmcli/base/types.h"
#include "fmcli/kernels/arguments.h"

typedef struct Kernels {
    const char* name;

    // Ask the caches for the rows `first + row[i]`.
    void (*prefetch)(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first);

    // <w, x>
    double (*linear)(const Factors* w, const Sample* x);
    // out[i] = slope * x_i
    void (*linear_gradient)(const Sample* x, double slope, real* out);

    // sum over factors f of beta_f A^2; `constant` is the factor row of a feature that is 1 in every sample, or NULL; `beta`
    // may be NULL for ones. Leaves in `sums` (lanes, padded) what the gradient needs: sum_j v_j x_j, and with beta, behind
    // them, each factor's A^2.
    double (*second_order)(const Factors* v, const Sample* x, const real* constant, const real* beta, real* sums);
    // out[i * apart .. + lanes] for entry i
    void (*second_order_gradient)(const Factors* v, const Sample* x, const real* sums, const real* beta, double slope,
                                  real* out, ptrdiff_t apart);

    // sum over factors f of beta_f sum_t theta_t A^t([gamma_f, p_f], [1, x]). Leaves in `work`, of rank (padded) times m +
    // (constants + entries of x) (m - 1) reals, what the gradient needs.
    double (*anova)(const Factors* p, const Sample* x, const Anova* kernel, real* work);
    void (*anova_gradient)(const Factors* p, const Sample* x, const Anova* kernel, const real* work, double slope,
                           const AnovaGradient* out);

    // sum over factors f of prod_j (1 + p_jf x_j). `work`: rank (padded) times entries of x.
    double (*all_subsets)(const Factors* p, const Sample* x, ptrdiff_t rank, real* work);
    void (*all_subsets_gradient)(const Factors* p, const Sample* x, ptrdiff_t rank, const real* work, double slope,
                                 real* out, ptrdiff_t apart);

    // sums (lanes, padded) <- constant + sum_j u_j x_j; constant may be NULL for zeros
    void (*project)(const Factors* u, const Sample* x, const real* constant, real* sums);
    // sum over factors s of beta_s prod_t z_ts, z being `parts` rows of padded lanes: as many as `order`, or one that counts
    // `order` times; beta may be NULL for ones. Leaves the products in `values` (lanes, padded).
    double (*products)(const real* z, int parts, int order, ptrdiff_t lanes, const real* beta, real* values);
    // out (parts, lanes) <- slope times the derivative by z; lanes are padded
    void (*products_gradient)(const real* z, int parts, int order, ptrdiff_t lanes, const real* beta, double slope,
                              real* out);
    // out[i * lanes .. + lanes] <- x_i direction, for entry i
    void (*spread)(const real* direction, ptrdiff_t lanes, const Sample* x, real* out);

    // 1/m! times the sum over factors and over ordered tuples of distinct entries of prod_t u_t x. Where `tables` is not
    // NULL, leaves there what the gradient needs: (2^m - 2) reals for each entry, constants counted, and each padded lane.
    double (*lifted)(const Lifted* l, const Sample* x, real* tables);
    // out[(i * order + t) * lanes .. + lanes] for entry i and vector t, out_constants for the constants; lanes are padded
    void (*lifted_gradient)(const Lifted* l, const Sample* x, const real* tables, double slope, real* out,
                            real* out_constants);

    // sum over pairs of entries of <v_{i,field(j)}, v_{j,field(i)}> x_i x_j; a feature's factors for field f begin f * apart
    // behind its first. Leaves in `sums` (slots^2 times lanes, padded) what the gradient needs.
    double (*field_pairs)(const Factors* v, ptrdiff_t apart, const Sample* x, const FieldEntries* entries, real* sums);
    // The same of a sample whose entries all have fields of their own.
    double (*single_field_pairs)(const Factors* v, ptrdiff_t apart, const Sample* x);
    // The gradient for entry i and the field of slot q where they meet: out[place[i * slots + q] * padded lanes ..], or
    // one behind the other where `place` is NULL; written or, with `add`, added to.
    void (*field_pairs_gradient)(const Factors* v, ptrdiff_t apart, const Sample* x, const FieldEntries* entries,
                                 const real* sums, double slope, const int32_t* place, bool add, real* out);

    // <sum of v_i x_i over side 0, sum of v_j x_j over side 1>, side[j] being 0, 1, or -1 for features on neither. Leaves both
    // in `sums` (2 x lanes, padded).
    double (*two_sides)(const Factors* v, const Sample* x, const int32_t* side, real* sums);
    // out[i * lanes .. + lanes] for entry i
    void (*two_sides_gradient)(const Sample* x, const int32_t* side, const real* sums, ptrdiff_t lanes, double slope,
                               real* out);
    // out[i] = |x - point i|^2 less the smallest of them
    void (*distances)(const Points* points, const Sample* x, double* out);

    // Columns: what a view's parameters do to the scores of its samples.
    void (*prefetch_sample_states)(const ColumnView* v);
    // r (width) += sum_i g_i q_i, G (width x width, on and above the diagonal) += sum_i s_i q_i q_i^T, the q_i `apart`; width
    // is a multiple of LANES, or one more.
    void (*gram)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r,
                 double* G);
    // r (width) += sum_i g_i q_i; sum_i s_i |q_i|^2
    double (*squares)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s,
                      double* r);
    // out[i] <- <q_i, step>
    void (*affine_score_changes)(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* step, double* out);
    // q <- derivatives by a weight alone; by numbers whose derivatives are in the caches, `behind` their first; by factors
    // whose sums are the caches' first.
    void (*weight_score_gradient)(const ColumnView* v, real* q);
    void (*cached_score_gradient)(const ColumnView* v, ptrdiff_t behind, real* q);
    void (*pairs_score_gradient)(const ColumnView* v, const real* row, const real* beta, real* q);
    // Take a step of `row` over into the caches' sums and, where they are, `values` behind them, into each factor's A^2.
    void (*pairs_update_cache)(const ColumnView* v, const real* row, const real* step, ptrdiff_t values);

    // The same where the visited row is one of factors p, or with `constant` one of the kernel's constants, and caches are
    // e_1 .. e_m of the samples, each of rank (padded) reals. `data` has the samples, for sums that must be
    // made anew because the caches have lost too many digits.
    void (*anova_cache)(const Factors* p, const Sample* x, const Anova* kernel, real* cache);
    void (*anova_score_gradient)(const ColumnView* v, const Csr* data, const Factors* p, const Anova* kernel, int constant, real* q);
    void (*anova_update_cache)(const ColumnView* v, const Csr* data, const Factors* p, const Anova* kernel, int constant,
                        const real* step);
    // q <- derivatives by the weights of degrees
    void (*degree_score_gradient)(const ColumnView* v, const Anova* kernel, real* q);
    // Caches are prod_j (1 + p_jf x_j).
    void (*all_subsets_cache)(const Factors* p, const Sample* x, real* cache);
    void (*all_subsets_score_gradient)(const ColumnView* v, const Csr* data, const Factors* p, ptrdiff_t rank, real* q);
    void (*all_subsets_update_cache)(const ColumnView* v, const Csr* data, const Factors* p, const real* step);
    // Caches are the sums of lifted.inl, for sets 1 .. 2^m - 1 of vectors, each of padded lanes.
    void (*lifted_cache)(const Lifted* l, const Sample* x, real* cache);
    void (*lifted_score_gradient)(const ColumnView* v, const Csr* data, const Lifted* l, int constant, real* q);
    void (*lifted_update_cache)(const ColumnView* v, const Csr* data, const Lifted* l, int constant, const real* step);
    // q <- derivatives by numbers that enter linear functions z, whose values (`parts` times `lanes`) are the caches' first:
    // of the sums over factors of prod_t z_t; n-th derivatives, n <= 2, of beta z^order (beta may be NULL for ones).
    void (*product_score_gradient)(const ColumnView* v, int parts, ptrdiff_t lanes, real* q);
    void (*power_score_gradient)(const ColumnView* v, int order, int n, const real* beta, real* q);
    // out[i] <- what a step will change in the i-th sum of beta prod_t z_t over `order` z, one of which counts so often
    // where `parts` is 1. With more parts the view is to a whole row.
    void (*product_score_changes)(const ColumnView* v, int parts, int order, ptrdiff_t lanes, const real* beta, const real* step,
                            double* out);

    // q times a number of the caches, `behind` their first
    void (*share_score_gradient)(const ColumnView* v, ptrdiff_t behind, real* q);
    // The same as above for pairs of a field-aware model.
    void (*field_score_gradient)(const ColumnView* v, const FieldColumns* columns, real* q);
    void (*field_score_changes)(const ColumnView* v, const FieldColumns* columns, const real* step, double* out);

    // Add the penalty of a block's rows to `out`: what acts on their bodies, on their weights, and on whole rows.
    void (*add_penalty)(const Block* block, ptrdiff_t rows, const ExactStrength* body, const ExactStrength* weight,
                        double* out);

    void (*sgd)(const Block* block, const SparseGradient* gradient, const Sgd* body, const Sgd* weight);
    void (*adagrad)(const Block* block, const SparseGradient* gradient, const Adagrad* body, const Adagrad* weight);
    void (*ftrl)(const Block* block, const SparseGradient* gradient, const Ftrl* body, const Ftrl* weight);
    void (*ftrl_recompute)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    void (*ftrl_start)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    // Bring the rows `first + row[i]` up to date (row NULL: the first n rows); visited[r] is row r's last step.
    void (*fobos_catch_up)(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first, int32_t* visited,
                          const Fobos* body, const Fobos* weight);
} Kernels;

// The table for the instruction set that is named: baseline, or
// v3 (x86-64-v3: AVX2). NULL where this machine or this build has none of that name. A level for AVX-512 was tried: with
// these vectors of eight lanes it was 3 to 6 % slower than v3.
const Kernels* fmcli_kernels(const char* name);

#endif
