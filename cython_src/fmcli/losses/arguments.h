// A loss, as kernels call it.
#ifndef FMCLI_LOSSES_ARGUMENTS_H
#define FMCLI_LOSSES_ARGUMENTS_H

#include "fmcli/base/types.h"

// A loss with one score: returns its value, and writes its derivative to `slope`.
typedef struct ScalarLoss {
    void* self;
    double (*slope)(void* self, double label, const double* score, double* slope);
} ScalarLoss;

#endif
