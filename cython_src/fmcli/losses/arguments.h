// A loss for kernels to call.
#ifndef FMCLI_LOSSES_ARGUMENTS_H
#define FMCLI_LOSSES_ARGUMENTS_H

#include "fmcli/base/types.h"

// A loss with one score. `slope` writes its derivative to slope[0] and returns its value. With `logs`, the value lacks
// log(1 + slope[1]), which is cheaper to add to several values at once (logistic.h).
typedef struct ScalarLoss {
    void* self;
    double (*slope)(void* self, double label, const double* score, double* slope);
    bool logs;
} ScalarLoss;

#endif
