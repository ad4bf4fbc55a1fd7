// The kernels of row solvers.
#ifndef FMCLI_SOLVERS_STOCHASTIC_KERNELS_H
#define FMCLI_SOLVERS_STOCHASTIC_KERNELS_H

#include "fmcli/models/arguments.h"
#include "fmcli/penalties/arguments.h"

// The constants of a solver's update for the body of a row, or for its weight.
typedef struct Sgd {
    real rate;
    ScaledProx prox;
    PenaltyStrength strength;
} Sgd;

typedef struct Adagrad {
    real inverse_rate;
    real penalty_steps;  // how often a round applies the penalties; 0: once per sample of the row
    PenaltyStrength strength;
} Adagrad;

typedef struct Ftrl {
    real inverse_alpha, beta, power;
    PenaltyStrength strength;
} Ftrl;

// A table of combined steps has a row per number of steps, with an entry for weights and one for factors, which have
// their own rates and l2: so one cache line has all that a parameter row needs.
enum { FOBOS_RATES = 2 };

// The deferred prox steps of FOBOS for the bodies of rows, or for their weights, counted from the last time that all
// rows were up to date.
typedef struct Fobos {
    const CombinedSteps* steps;  // [t * FOBOS_RATES]: the steps up to t; NULL: all steps have the same h
    int32_t now;                 // the number of the last step
    int32_t few;                 // without `steps`: the result of few_steps (deferred.h)
    bool adaptive;               // whether h is AdaGrad's
    real inverse_rate;           // h of all steps, or AdaGrad's initial h
    PenaltyStrength strength;
} Fobos;

// Some samples of a round of a second-order model. The arrays have a number, or `lanes` numbers, for each sample of the
// round.
typedef struct RoundSamples {
    SampleRun run;
    ptrdiff_t begin;                        // the first sample of the round
    real *sums, *slope;                     // of the features' gradients, which are formulas
    real *of_bias, *of_constant, *of_beta;  // the gradients by rows that all samples share; unused without such a block
    double* loss;
} RoundSamples;

typedef struct StochasticKernels {
    void (*sgd)(const Block* block, const SparseGradient* gradient, const Sgd* body, const Sgd* weight);
    void (*adagrad)(const Block* block, const SparseGradient* gradient, const Adagrad* body, const Adagrad* weight);
    void (*ftrl)(const Block* block, const SparseGradient* gradient, const Ftrl* body, const Ftrl* weight);
    // Steps for a run of samples. The constants of the update are per block. Returns `total` plus the weighted losses,
    // each before the sample's own step.
    double (*sgd_samples)(const SampleRun* run, const Sgd* body, const Sgd* weight, double total);
    double (*adagrad_samples)(const SampleRun* run, const Adagrad* body, const Adagrad* weight, double total);
    double (*ftrl_samples)(const SampleRun* run, const Ftrl* body, const Ftrl* weight, double total);
    // The losses of samples of a round, and what their gradients depend on.
    void (*round_gradients)(const RoundSamples* samples);
    // The step for a round: one thread's share of the rows.
    void (*adagrad_round)(const Block* block, const RoundGradient* gradient, const Adagrad* body, const Adagrad* weight,
                          const ThreadShare* share);
    void (*ftrl_round)(const Block* block, const RoundGradient* gradient, const Ftrl* body, const Ftrl* weight,
                       const ThreadShare* share);
    void (*ftrl_recompute)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    void (*ftrl_start)(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight);
    // Apply the deferred steps to the rows `first + row[i]` (row NULL: to the first n rows); visited[r] is the last
    // step of row r.
    void (*fobos_catch_up)(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first, int32_t* visited,
                          const Fobos* body, const Fobos* weight);
} StochasticKernels;

#endif
