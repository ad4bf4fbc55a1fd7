// Kernels of coordinate descent over columns: sums of derivatives, and score changes, over the samples that one row of
// parameters affects, and the small problem that these sums define.

#ifndef FMCLI_DESCENT_INL
#define FMCLI_DESCENT_INL

#include "fmcli/base/runs.h"
#include "fmcli/base/types.h"
#include "fmcli/penalties/elementwise.h"

namespace {

// Sums over the n samples of one call, which are in reals: that is accurate enough for few samples. r and G are in double.
struct GramSums {
    const real *q, *g, *s;
    ptrdiff_t apart, n, width;
    double *r, *G;
};

// The most samples of one call.
constexpr ptrdiff_t GRAM_SAMPLES = 64;

// G += sum_i s_i q_i q_i^T in a square tile of the width of V, whose rows' s_i q_i are in `left`; on the diagonal, also
// r += sum_i g_i q_i and, with LAST, the tile's slice of the column of the last parameter, at `last`. Numbers of `left`
// are read one by one, which is faster than to take them from a vector.
template <class V, bool DIAGONAL, bool LAST>
inline void gram_tile(const GramSums& x, const real* left, ptrdiff_t row, ptrdiff_t col, ptrdiff_t last) {
    constexpr int W = ::width<V>;
    V sums[W] = {}, slopes = {}, lasts = {};
    for (ptrdiff_t i = 0; i < x.n; ++i, left += W) {
        const real* const q = x.q + i * x.apart;
        const V right = load<V>(q + col);
#pragma GCC unroll 8
        for (int f = 0; f < W; ++f) sums[f] += left[f] * right;
        if (DIAGONAL) slopes += x.g[i] * right;
        if (LAST) lasts += right * (x.s[i] * q[last]);
    }
    for (int f = 0; f < W; ++f)
        for (int h = 0; h < W; ++h) x.G[(row + f) * x.width + col + h] += sums[f][h];
    for (int h = 0; h < W; ++h) {
        if (DIAGONAL) x.r[col + h] += slopes[h];
        if (LAST) x.G[(row + h) * x.width + last] += lasts[h];
    }
}

template <class V, bool LAST>
void gram_of(const GramSums& x, ptrdiff_t lanes) {
    real left[GRAM_SAMPLES * width<V>];
    for (ptrdiff_t row = 0; row < lanes; row += width<V>) {
        for (ptrdiff_t i = 0; i < x.n; ++i) store(left + i * width<V>, load<V>(x.q + i * x.apart + row) * x.s[i]);
        gram_tile<V, true, LAST>(x, left, row, row, lanes);
        for (ptrdiff_t col = row + width<V>; col < lanes; col += width<V>)
            gram_tile<V, false, false>(x, left, row, col, lanes);
    }
}

// The diagonal element of the last parameter, and its entry of r.
void gram_of_last(const GramSums& x, ptrdiff_t last) {
    double slope = 0, square = 0;
    for (ptrdiff_t i = 0; i < x.n; ++i) {
        const real value = x.q[i * x.apart + last];
        slope += (double)x.g[i] * value;
        square += (double)x.s[i] * value * value;
    }
    x.r[last] += slope;
    x.G[last * x.width + last] += square;
}

void gram(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r,
          double* G) {
    const GramSums x{q, g, s, apart, n, width, r, G};
    const ptrdiff_t lanes = width / LANES * LANES;
    const bool last = lanes < width;
    if (lanes % 8 == 0)
        last ? gram_of<Vec8, true>(x, lanes) : gram_of<Vec8, false>(x, lanes);
    else
        last ? gram_of<Vec4, true>(x, lanes) : gram_of<Vec4, false>(x, lanes);
    if (last) gram_of_last(x, lanes);
}

// r += sum_i g_i q_i; returns sum_i s_i |q_i|^2.
double squares(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r) {
    double total = 0;
    for (ptrdiff_t i = 0; i < n; ++i, q += apart) {
        double square = 0;
        for (ptrdiff_t f = 0; f < width; ++f) {
            r[f] += (double)g[i] * q[f];
            square += (double)q[f] * q[f];
        }
        total += s[i] * square;
    }
    return total;
}

// out_i = q_i^T step: the changes of scores that are affine in the step.
void affine_score_changes(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* step, double* out) {
    const ptrdiff_t lanes = width / LANES * LANES;
    for (ptrdiff_t i = 0; i < n; ++i, q += apart) {
        Vec4 sums = {};
        for (ptrdiff_t at = 0; at < lanes; at += LANES) sums += load<Vec4>(q + at) * load<Vec4>(step + at);
        out[i] = sum(sums) + (lanes < width ? (double)q[lanes] * step[lanes] : 0);
    }
}

// Few sweeps, for the problem is only a bound on the real one. They end early only if no coordinate moves: if small moves
// ended them, results that differ by rounding would differ by a sweep.
enum { SWEEPS = 5 };

void small_descent(ptrdiff_t width, ptrdiff_t moved, const double* r, const double* G, const double* phi,
                   const ExactStrength* strength, double* room, double* step) {
    double* const slope = room;
    double* const inverse = room + width;  // of the curvatures with the penalty; no division waits for a move
    for (ptrdiff_t f = 0; f < width; ++f) {
        slope[f] = r[f], step[f] = 0;
        const double curvature = G[f * width + f] + strength[f].l2;
        inverse[f] = curvature > 0 ? 1 / curvature : 0;
    }
    bool moves = true;
    for (int sweep = 0; sweep < SWEEPS && moves; ++sweep) {
        moves = false;
        for (ptrdiff_t f = 0; f < moved; ++f) {
            const double* const row = G + f * width;
            const double now = phi[f] + step[f];
            double to = strength[f].l1 > 0 ? 0 : now;  // if nothing else depends on the parameter
            if (inverse[f] > 0) {
                double unused;
                to = reduce(row[f] * now - slope[f], row[f], strength[f], unused) * inverse[f];
            }
            const double change = to - now;
            if (change == 0) continue;
            step[f] += change;
            for (ptrdiff_t i = 0; i < width; ++i) slope[i] += change * row[i];
            moves = true;
        }
    }
}

}  // namespace

#endif
