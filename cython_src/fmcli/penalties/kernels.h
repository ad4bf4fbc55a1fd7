// The kernel of penalties.
#ifndef FMCLI_PENALTIES_KERNELS_H
#define FMCLI_PENALTIES_KERNELS_H

#include "fmcli/penalties/arguments.h"

typedef struct PenaltyKernels {
    // Add the penalty of a block's rows to `out`: of their bodies, of their weights, and of whole rows.
    void (*add_penalty)(const Block* block, ptrdiff_t rows, const ExactStrength* body, const ExactStrength* weight,
                        double* out);
} PenaltyKernels;

#endif
