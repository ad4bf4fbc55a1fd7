// The kernels of polynomial models.
#ifndef FMCLI_MODELS_POLYNOMIAL_KERNELS_H
#define FMCLI_MODELS_POLYNOMIAL_KERNELS_H

#include "fmcli/base/types.h"

enum { MAX_ORDER = 64 };

// The ANOVA kernel of one output.
typedef struct Anova {
    ptrdiff_t rank;   // the number of factors, without padding
    int order;        // m, from 2 to MAX_ORDER
    int constants;    // the number of constant features, which are 1 in every sample
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
// the `order` vectors of a product has one matrix. The time per sample is proportional to 2^order.
enum { MOST_LIFTED = 8 };
typedef struct Lifted {
    int order;
    ptrdiff_t constants;
    Factors u[MOST_LIFTED], gamma[MOST_LIFTED];
} Lifted;

typedef struct PolynomialKernels {
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
    // sum over factors s of beta_s prod_t z_ts, where z has `functions` rows of padded lanes: `order` rows, or one row
    // that is multiplied `order` times. `beta` is NULL if all are 1. Stores the products in `values` (lanes, padded).
    double (*products)(const real* z, int functions, int order, ptrdiff_t lanes, const real* beta, real* values);
    // out (functions, lanes) <- slope times the derivative by z. Lanes are padded.
    void (*products_gradient)(const real* z, int functions, int order, ptrdiff_t lanes, const real* beta, double slope,
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
    // Score gradients and updates of the caches for a view of a row of the factors p or, with `constant`, of the
    // kernel's constants. Caches are e_1 .. e_m of the samples, each of rank (padded) reals. `data` contains the
    // samples, to recompute sums from if the caches have lost too many digits.
    void (*anova_cache)(const Factors* p, const Sample* x, const Anova* kernel, real* cache);
    void (*anova_score_gradient)(const ColumnView* v, const Csr* data, const Factors* p, const Anova* kernel, int constant,
                                 real* q);
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
    // q <- n-th derivatives, n <= 2, of the sum of beta z^order by coefficients of linear functions z, whose values come
    // first in the caches. `beta` is NULL if all are 1.
    void (*power_score_gradient)(const ColumnView* v, int order, int n, const real* beta, real* q);
    // out[i] <- the change of sample i's sum of beta prod_t z_t by a step. The product has `order` factors z; if
    // `functions` is 1, they are all the same z. With more functions, the view must contain the whole row.
    void (*product_score_changes)(const ColumnView* v, int functions, int order, ptrdiff_t lanes, const real* beta,
                                  const real* step, double* out);
} PolynomialKernels;

#endif
