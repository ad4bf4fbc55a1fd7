// Squared distances of a sample from given points, in double.

#include "fmcli/base/types.h"

namespace {

// |x|^2 is left out because it is the same for all points.
void distances(const Points* points, const Sample* x, double* out) {
    const Points p = *points;
    for (ptrdiff_t i = 0; i < p.n; ++i) out[i] = 0;
    for (ptrdiff_t e = 0; e < x->nnz; ++e) {
        const real* const z = p.at + x->index[e] * p.feature_stride;
        const double xe = x->value[e];
        if (p.point_stride == 1)  // contiguous while training: this loop is vectorized
            for (ptrdiff_t i = 0; i < p.n; ++i) out[i] += xe * z[i];
        else
            for (ptrdiff_t i = 0; i < p.n; ++i) out[i] += xe * z[i * p.point_stride];
    }
    double smallest = 0;
    for (ptrdiff_t i = 0; i < p.n; ++i) {
        out[i] = p.scale[i] * (p.scale[i] * p.squares[i] - 2 * out[i]);
        smallest = i == 0 || out[i] < smallest ? out[i] : smallest;
    }
    for (ptrdiff_t i = 0; i < p.n; ++i) out[i] -= smallest;
}

}  // namespace
