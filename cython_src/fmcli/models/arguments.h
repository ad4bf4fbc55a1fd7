// Structs for arguments of the models' kernels, and a model as the solvers' kernels see it.
#ifndef FMCLI_MODELS_ARGUMENTS_H
#define FMCLI_MODELS_ARGUMENTS_H

#include "fmcli/base/types.h"
#include "fmcli/losses/arguments.h"

// The number of draws of a model's parameters that are scored at once.
enum { DRAWS_TOGETHER = 8 };

// Rows of an array of a draw, as it is kept.
typedef struct KeptRows {
    const void* at;
    ptrdiff_t stride;  // numbers from one row to the next
    ptrdiff_t size;    // numbers in a row
    bool halved;       // whether they are numbers of 16 bits, not reals
} KeptRows;

// A run of samples on which a row solver trains, for one output: of a linear model, a second-order model, or a
// field-aware model on samples without repeated fields.
enum { NO_BLOCK = -1 };
typedef struct SampleRun {
    const Csr* data;
    LabelArray label;               // of the rows of `data`
    const double* weight;          // of the rows; NULL: all are 1
    double weight_scale;           // factor of the weights, only in the gradient
    const int32_t* order;          // numbers of rows; rows `stop` to `end` - 1 are only prefetched
    ptrdiff_t start, stop, end;
    ScalarLoss loss;
    const Block* block;  // the model's blocks
    int bias, features, constant, beta;  // block numbers, or NO_BLOCK
    int weights;       // of a field-aware model: the block of its features' weights, or NO_BLOCK
    ptrdiff_t fields;  // of a field-aware model: the rows of each feature; 0: the model is not field-aware
    bool trains_beta;
    real *sums;    // work space of `second_order`
    real *buffer;  // work space for the gradients of `constant` and `beta`, if the model has them: lanes each
    void* solver;
    void (*before)(void* solver, ptrdiff_t i);  // called before the score of sample order[i]; NULL: nothing to do
} SampleRun;

// The samples and factors for column kernels of a field-aware model.
typedef struct FieldColumns {
    Csr rows;         // each index occurs at most once in a row
    Factors v;        // the factors of one output for the first field
    ptrdiff_t apart;  // reals from a feature's factors for one field to its factors for the next
    int32_t fields;
    int32_t feature, field;  // the feature and field of the viewed factors; field -1: the row has all fields
    bool by_field;           // whether caches have the ids of their samples' entries by field and, unless all are
                             // equal, the values
} FieldColumns;

#endif
