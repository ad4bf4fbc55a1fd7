// The structs that models, solvers and the training loop exchange, and the definition of the real type.
#ifndef FMCLI_TYPES_H
#define FMCLI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifndef FMCLI_REAL
#define FMCLI_REAL float
#endif
// The type of parameters, solver state and gradients. Scores, losses and sums are double in both builds.
typedef FMCLI_REAL real;

// One example, borrowed from a Dataset.
typedef struct Sample {
    const int32_t* index;  // feature ids, increasing; with fields, sorted by (index, field), and an id may repeat
    const int32_t* field;  // NULL if the data has no fields
    const float* value;
    ptrdiff_t nnz;
    ptrdiff_t number;  // the number of the row in the Dataset
} Sample;

// One parameter array. A row has a body of factors, a linear weight, or both. During training, each is followed by its
// solver state, [body | state of body | weight | state of weight | padding], so a row occupies few cache lines. If the
// weight alone would start another cache line, weights and their state are a separate array. Factors are padded with
// zeros to a multiple of LANES. In a mapped model file, bodies and weights are separate arrays without state or
// padding, and a kernel must not read past a row's `lanes`.
typedef struct Block {
    real* body;               // NULL if rows have no factors
    ptrdiff_t body_stride;    // reals from one row's body to the next
    ptrdiff_t lanes;          // reals in a body
    real* weight;             // NULL if rows have no linear weight
    ptrdiff_t weight_stride;  // reals from one row's weight to the next
    ptrdiff_t rows;           // number of rows of one class; class c begins at row c * rows
    ptrdiff_t columns;        // parameters in a row, without padding
    double* room;             // work space for the prox of a whole row: 3 * (lanes + LANES)
} Block;

enum { LANES = 4 };

// The rows of one output as scoring reads them: the numbers of feature j are at[j * stride .. j * stride + lanes - 1].
// During training they are part of a Block with other arrays and state; in a mapped model file they are a separate
// array.
typedef struct Factors {
    const real* at;
    ptrdiff_t stride;
    ptrdiff_t lanes;
} Factors;

// Points whose distances from samples are computed. Coordinate j of point i is
// scale[i] * at[j * feature_stride + i * point_stride].
typedef struct Points {
    const real* at;
    ptrdiff_t feature_stride, point_stride;
    const double* scale;
    const double* squares;  // sum of squares of each point's numbers, before scaling
    ptrdiff_t n;
} Points;

// A gradient as a formula; the step computes the numbers. x_i is the value of entry i.
// - With `sums`, the model is of second order: the derivative by v_i is slope x_i (sums - x_i v_i), times beta for each
//   factor unless `beta` is NULL.
// - Otherwise, it is field-aware. Each entry i has a row v_{i,f} for each field f. For another entry j, the derivative
//   by v_{i,f(j)} is slope x_i x_j v_{j,f(i)}.
typedef struct GradientFormula {
    const float* value;    // x_i; NULL if the gradient is not a formula
    double slope;
    const real* sums;      // of v_i x_i over the entries of a sample
    const real* beta;
    const int32_t* field;  // f(i), all different
    ptrdiff_t fields;      // rows of each feature
} GradientFormula;

// The sparse gradient by one block: the rows that an update touches, and the gradient of each row.
typedef struct SparseGradient {
    int block;
    const int32_t* row;  // row ids, all different; may point directly to Sample.index
    ptrdiff_t n;
    ptrdiff_t first;  // added to every row id: the first row of the class
    real* body;       // n x lanes, contiguous; NULL if rows have no body
    real* weight;     // n; NULL if rows have no weight
    const uint8_t* touched;  // n x lanes / LANES: whether each group of LANES factors has a gradient; NULL: all have
    GradientFormula formula; // if set, body is not set, and `row` has the n feature ids of the entries
} SparseGradient;

// The parameter rows that a round of samples touches, and each row's entries in the samples. Rows with one entry come
// first, then rows with two, and so on.
enum { MANY_ENTRIES = 3 };
typedef struct RowEntries {
    int32_t* row;                 // row ids
    ptrdiff_t end[MANY_ENTRIES];  // ends in `row` of the rows with g + 1 entries; the last is for MANY_ENTRIES or more
    int32_t* start;               // where each row's entries begin, and the end of the last row's
    int32_t* entry;               // the numbers of each row's entries, or of their samples, in the order of the samples
    float* value;                 // the values of the entries, if some are not 1 and a formula needs them
    real* curvature;              // of each row, as in Samples (update_rules.h), for a loss of curvature 1
} RowEntries;

// The gradients of a round of samples by the rows of a Block: numbers for each entry, a second-order formula, or sums
// over the entries of each row.
typedef struct RoundGradient {
    int block;
    RowEntries rows;
    ptrdiff_t first;     // added to every row id: the first row of the class
    const real* body;    // entries x lanes
    const real* weight;  // entries
    const real* slope;   // of a formula, by sample; entries are numbered by their samples
    const real* sums;    // of a formula: samples x lanes; else NULL
    const real* beta;    // of a formula
    double curvature;    // a bound on the loss's curvature
    // If set, these are sums of squares, and `body` and `weight` are sums over each row's entries; else NULL.
    const real* body_squares;    // rows x lanes
    const real* weight_squares;  // rows
} RoundGradient;

// A thread's part of a job: the `number`-th of `count` equal shares.
typedef struct ThreadShare {
    int number, count;
    double* room;  // as in Block
} ThreadShare;

// The labels of rows: numbers, or class codes of a byte each; both NULL: there are none. Losses see numbers minus
// `center`, divided by `scale`.
typedef struct LabelArray {
    const double* number;
    const int8_t* coded;
    double center, scale;
} LabelArray;

static inline double label_of(const LabelArray* labels, ptrdiff_t i) {
    return labels->coded ? labels->coded[i] : (labels->number[i] - labels->center) / labels->scale;
}

// Compressed sparse rows, as in a Dataset.
typedef struct Csr {
    const int64_t* indptr;
    const int32_t* index;
    const int32_t* field;  // NULL if there are no fields
    const float* value;
    bool constant;  // whether all values are equal; then all rows share one array of values
} Csr;

static inline Sample sample_of(const Csr* rows, ptrdiff_t i) {
    const int64_t start = rows->indptr[i];
    const Sample x = {rows->index + start, rows->field ? rows->field + start : rows->field,
                      rows->constant ? rows->value : rows->value + start, (ptrdiff_t)(rows->indptr[i + 1] - start), i};
    return x;
}

// A column view: some parameters of one row, and some of the samples that the row affects. Coordinate solvers pass it
// to models. Every sample has a sample state, which includes the model's cache: intermediate results that make
// derivatives cheap.
typedef struct ColumnView {
    int block, output;
    ptrdiff_t row;        // row id within the class
    ptrdiff_t at, lanes;  // reals at .. at + lanes - 1 of the body; both numbers are multiples of LANES
    bool weight;          // whether the view contains the weight
    ptrdiff_t apart;      // reals from one sample's derivatives to the next; the weight follows the body
    const int32_t* sample;
    const real* value;  // of the row's feature in each sample; otherwise the derivative by the row's weight, mostly 1
    ptrdiff_t n;
    char* sample_states;
    ptrdiff_t sample_state_size, cache;  // size of a sample state and offset of the class's cache in it, in bytes
} ColumnView;

// The states of all samples in a coordinate solver, at equal distances in memory.
typedef struct SampleStates {
    char* at;
    ptrdiff_t size;          // bytes of a state
    ptrdiff_t scores;        // the offset of the scores, doubles
    ptrdiff_t cache;         // the offset of the model's caches, reals, one cache per class; 0: there are none
    ptrdiff_t reals;         // in the cache of a class
} SampleStates;

static inline double* scores_in(const SampleStates* s, ptrdiff_t i) { return (double*)(s->at + i * s->size + s->scores); }

static inline real* cache_in(const SampleStates* s, ptrdiff_t i, int output) {
    return (real*)(s->at + i * s->size + s->cache) + output * s->reals;
}

// Work space for one sample. Each thread has one; models and solvers have none.
typedef struct Scratch {
    SparseGradient* gradients;  // one for each class and block
    int n_gradients;
    double* score;   // C
    double* slope;   // C
    ptrdiff_t longest;  // the largest number of entries of a sample
    bool formulas;      // whether `gradient` may return a formula instead of numbers
    double rate_share;  // factor of the learning rates in this update, by the solver's schedule; for `finish_update`
    real* work;      // for the model: results of `score` that `gradient` needs
    int32_t* ids;    // for the model: row ids other than the sample's feature ids
    real* gradient_buffer;  // memory of the buffers in `gradients`
} Scratch;

// Prefetch the cache line at p. Always inlined: GCC assumes that a function that only prefetches has no effect, and
// drops calls to it.
static inline __attribute__((always_inline)) void prefetch_line(const void* p) { __builtin_prefetch(p); }

static inline __attribute__((always_inline)) void prefetch_label(const LabelArray* labels, ptrdiff_t i) {
    __builtin_prefetch(labels->coded ? (const void*)(labels->coded + i) : (const void*)(labels->number + i));
}

// Prefetch n reals.
static inline __attribute__((always_inline)) void prefetch_reals(const real* p, ptrdiff_t n) {
    enum { LINE = 64 };
    const char* const end = (const char*)(p + n);
    for (const char* at = (const char*)((uintptr_t)p / LINE * LINE); at < end; at += LINE) __builtin_prefetch(at);
}

#endif
