// The table of hot functions. One is compiled for each instruction set and one chosen when the core is loaded.
#ifndef FMCLI_KERNELS_H
#define FMCLI_KERNELS_H

#include "types.h"

// Penalties on one part of a row: l1 |phi| + l2/2 phi^2, and l_g times the norm of the whole row.
typedef struct Strength {
    real l1, l2, group;
} Strength;

// The constants of one solver's update of one part of a row.
typedef struct Sgd {
    real rate;
    real shrink;  // rate * l1
    real decay;   // 1 / (1 + rate * l2)
    Strength strength;
} Sgd;

typedef struct Adagrad {
    real inverse_rate;
    Strength strength;
} Adagrad;

typedef struct Ftrl {
    real inverse_alpha, beta, power;
    Strength strength;
} Ftrl;

// The prox steps that FOBOS has to make up for on one part of rows, counted from the last time all rows were up to date.
typedef struct Fobos {
    const double* decay;  // [t]: product of 1/(1 + rate_s l2) over the steps up to t
    const double* sum;    // [t]: D_t of rules.h
    int32_t now;          // the last step
    real inverse_rate;    // of AdaGrad's h, for the adaptive form; else 0
    Strength strength;
} Fobos;

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

    // out[i] = |x - point i|^2 less the smallest of them
    void (*distances)(const Points* points, const Sample* x, double* out);

    // Per block: sums over all rows of |v|, v^2 (bodies), |w|, w^2 (weights), and of the rows' norms where rows are groups.
    void (*magnitudes)(const Block* block, ptrdiff_t rows, double* out);

    void (*sgd)(const Block* block, const Slab* slab, const Sgd* body, const Sgd* weight);
    void (*adagrad)(const Block* block, const Slab* slab, const Adagrad* body, const Adagrad* weight);
    void (*ftrl)(const Block* block, const Slab* slab, const Ftrl* body, const Ftrl* weight);
    void (*ftrl_revisit)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    void (*ftrl_start)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    // Bring the rows `first + row[i]` up to date (row NULL: the first n rows); visited[r] is row r's last step.
    void (*fobos_refresh)(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first, int32_t* visited,
                          const Fobos* body, const Fobos* weight);
} Kernels;

// The table for the instruction set that is named: baseline, or
// v3 (x86-64-v3: AVX2). NULL where this machine or this build has none of that name. A level for AVX-512 was tried: with
// these vectors of eight lanes it was 3 to 6 % slower than v3.
const Kernels* fmcli_kernels(const char* name);

#endif
