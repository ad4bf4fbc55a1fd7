// A draw from a normal distribution given by its precision.
#ifndef FMCLI_CONDITIONAL_H
#define FMCLI_CONDITIONAL_H

#include "fmcli/base/types.h"
#include "fmcli/solvers/gibbs/random.h"

// A pivot of the Cholesky factor is at least this share of the diagonal element: sums of products of reals differ by
// about this much rounding.
#define LEAST_PIVOT (sizeof(real) == sizeof(float) ? 1e-6 : 1e-12)

// step <- -P^-1 t + U^-1 z, where P = U^T U and z are standard normal numbers: a draw from N(-P^-1 t, P^-1).
//
// P (width x width) is read on and above its diagonal and replaced there by U, with the reciprocals of U's diagonal; t
// is overwritten, too. Each row of U is subtracted from the rows below as soon as it is known, so no sum has to wait
// for its last term.
static inline void draw_by_precision(double* P, double* t, ptrdiff_t width, Stream* stream, double* step) {
    double* const least = step;  // until the draw replaces it
    for (ptrdiff_t f = 0; f < width; ++f) least[f] = LEAST_PIVOT * P[f * width + f];
    for (ptrdiff_t f = 0; f < width; ++f) {
        double* const U = P + f * width;
        const double inverse = 1 / sqrt(U[f] > least[f] ? U[f] : least[f]);
        U[f] = inverse;
        for (ptrdiff_t h = f + 1; h < width; ++h) U[h] *= inverse;
        t[f] *= inverse;
        for (ptrdiff_t i = f + 1; i < width; ++i) {
            double* const row = P + i * width;
            for (ptrdiff_t h = i; h < width; ++h) row[h] -= U[i] * U[h];
            t[i] -= U[i] * t[f];
        }
    }
    normals(stream, step, width);
    for (ptrdiff_t f = width - 1; f >= 0; --f) {
        step[f] = (step[f] - t[f]) * P[f * width + f];
        for (ptrdiff_t i = 0; i < f; ++i) step[i] -= P[i * width + f] * step[f];
    }
}

#endif
