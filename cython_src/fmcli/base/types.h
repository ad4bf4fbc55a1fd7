// The structs that models, solvers and the loop hand to each other, and the one choice of the real type.
#ifndef FMCLI_TYPES_H
#define FMCLI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifndef FMCLI_REAL
#define FMCLI_REAL float
#endif
// Parameters, solver state and gradients. Scores, losses and sums are double in either build.
typedef FMCLI_REAL real;

// One example, borrowed from a Dataset.
typedef struct Sample {
    const int32_t* index;  // feature ids, increasing; with fields by (index, field), and then one may repeat
    const int32_t* field;  // NULL where the data has no fields
    const float* value;
    ptrdiff_t nnz;
} Sample;

// One parameter array. A row has a body of factors, a linear weight, or both. While training, each is followed by its
// solver state, [body | state of body | weight | state of weight | padding], so that a row is few cache lines; where
// the weight alone would begin another line, weights with their state are an array of their own. Factors are padded with
// zeros to a multiple of LANES. Mapped from a model file, bodies and weights are arrays of
// their own without state or padding, and no kernel may read past a row's `lanes`.
typedef struct Block {
    real* body;               // NULL: rows have no factors
    ptrdiff_t body_stride;    // reals from one row's body to the next
    ptrdiff_t lanes;          // reals in a body
    real* weight;             // NULL: rows have no linear weight
    ptrdiff_t weight_stride;  // reals from one row's weight to the next
    ptrdiff_t rows;           // of one class; class c begins at row c * rows
    ptrdiff_t columns;        // parameters in a row, without padding
    double* room;             // for the prox of one row as a whole: 3 times `lanes` and LANES more
} Block;

enum { LANES = 4 };

// What scoring reads of one output's rows: feature j's numbers are at[j * stride .. j * stride + lanes - 1]. While
// training they lie in a Block among other arrays and state; mapped from a file they are an array of their own.
typedef struct Factors {
    const real* at;
    ptrdiff_t stride;
    ptrdiff_t lanes;
} Factors;

// Points that samples are compared with: coordinate j of point i is scale[i] * at[j * feature_stride + i * point_stride].
typedef struct Points {
    const real* at;
    ptrdiff_t feature_stride, point_stride;
    const double* scale;
    const double* squares;  // of each point's numbers before they are scaled
    ptrdiff_t n;
} Points;

// The gradient by a sample's rows as a formula, from which a step computes each row's part when it needs it. The body of
// the row of entry i has the derivative slope x_i beta (sums - v_i x_i), and its weight slope x_i. With fields, entry i
// has a row v_{i,f} for each field f, and v_{i,f(j)}, where j is another entry, has the derivative slope x_i x_j v_{j,f(i)}.
typedef struct GradientFormula {
    const float* value;    // x_i; NULL: the gradient is not a formula
    double slope;
    const real* sums;      // the sum of all v_i x_i; NULL where rows have no body
    const real* beta;      // NULL for ones
    const int32_t* field;  // of each entry, all different; NULL: each entry has one row
    ptrdiff_t fields;      // rows of each feature
} GradientFormula;

// The gradient by one block, sparse: the rows that one update touches, and the gradient of each.
typedef struct SparseGradient {
    int block;
    const int32_t* row;  // each once; may point straight at Sample.index
    ptrdiff_t n;
    ptrdiff_t first;  // added to every row id: where the class of the gradient begins
    real* body;       // n x lanes, contiguous; NULL where rows have no body
    real* weight;     // n; NULL where rows have no weight
    const uint8_t* touched;  // n x lanes / LANES: which of a row's factors are meant, so many at a time; NULL: all
    GradientFormula formula; // if it is given, body and weight are not set; with fields, row and n are those of entries
} SparseGradient;

// Rows in compressed form, as a Dataset has them.
typedef struct Csr {
    const int64_t* indptr;
    const int32_t* index;
    const int32_t* field;  // NULL: none
    const float* value;
    int constant;  // every value is 1: all rows share one run of them
} Csr;

static inline Sample sample_of(const Csr* rows, ptrdiff_t i) {
    const int64_t start = rows->indptr[i];
    const Sample x = {rows->index + start, rows->field ? rows->field + start : rows->field,
                      rows->constant ? rows->value : rows->value + start, (ptrdiff_t)(rows->indptr[i + 1] - start)};
    return x;
}

// A look at some parameters of one row, and at some of the samples that the row enters: what solvers by columns hand to
// models. Every sample has a sample state, in which the model keeps what makes derivatives cheap: its cache.
typedef struct ColumnView {
    int block, output;
    ptrdiff_t row;        // of its class
    ptrdiff_t at, lanes;  // reals at .. at + lanes - 1 of the body, both multiples of LANES
    int weight;           // 1: and the weight
    ptrdiff_t apart;      // reals from one sample's derivatives to the next; the weight's are behind the body's
    const int32_t* sample;
    const real* value;  // of the row's entry in each sample; 1 where rows are not features'
    ptrdiff_t n;
    char* sample_states;
    ptrdiff_t sample_state_size, cache;  // bytes of a sample state, and before the class's cache in it
} ColumnView;

// Room for one sample's work, one a thread: models and solvers own none.
typedef struct Scratch {
    SparseGradient* gradients;  // one for each class and block
    int n_gradients;
    double* score;   // C
    double* slope;   // C
    int formulas;       // whether `gradient` may give formulas instead of numbers
    double rate_share;  // what the solver's schedule leaves of learning rates in this update; for `finish_update`
    real* work;      // the model's own: what `score` leaves for `gradient`
    int32_t* ids;    // the model's own: row ids that are not the sample's
    real* gradient_buffer;  // what the buffers of `gradients` point into
} Scratch;

// Ask the caches for what lies at p. Always inlined: GCC takes a function that only prefetches for one without effect and
// drops calls to it.
static inline __attribute__((always_inline)) void prefetch_line(const void* p) { __builtin_prefetch(p); }

// The same for n reals.
static inline __attribute__((always_inline)) void prefetch_reals(const real* p, ptrdiff_t n) {
    enum { LINE = 64 };
    const char* const end = (const char*)(p + n);
    for (const char* at = (const char*)((uintptr_t)p / LINE * LINE); at < end; at += LINE) __builtin_prefetch(at);
}

#endif
