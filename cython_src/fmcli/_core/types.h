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
    const int32_t* index;  // feature ids, increasing; with fields, by (index, field)
    const int32_t* field;  // NULL where the data has no fields
    const float* value;
    ptrdiff_t nnz;
} Sample;

#endif
