// A loss, as kernels call it.
#ifndef FMCLI_LOSSES_ARGUMENTS_H
#define FMCLI_LOSSES_ARGUMENTS_H

#include "fmcli/base/types.h"

// A loss with one score. `slope` writes its derivative to slope[0] and returns its value; with `logs`, the value lacks
// log(1 + slope[1]), which costs less if it is added to several values at once (logistic.h).
typedef struct ScalarLoss {
    void* self;
    double (*slope)(void* self, double label, const double* score, double* slope);
    bool logs;
} ScalarLoss;

#endif
