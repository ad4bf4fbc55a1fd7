// Kernels of coordinate descent over columns: sums of derivatives, and score changes, over the samples that one row of
// parameters affects.

#include "fmcli/base/columns.h"
#include "fmcli/base/runs.h"
#include "fmcli/kernels/kernels.h"

namespace {

void prefetch_sample_states(const ColumnView* view) {
    const ColumnView& v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const char* p = v.sample_states + v.sample[i] * v.sample_state_size;
        for (ptrdiff_t at = 0; at < v.sample_state_size; at += 64) __builtin_prefetch(p + at);
    }
}

// r += sum_i g_i q_i and, on and above the diagonal, G += sum_i s_i q_i q_i^T, in square tiles of the width of V. The
// sums over the n samples of one call are in reals, which is accurate enough for few samples; r and G are in double.
template <class V>
void gram_of(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t lanes, const real* g, const real* s, double* r,
             double* G, ptrdiff_t width) {
    constexpr int W = ::width<V>;
    for (ptrdiff_t row = 0; row < lanes; row += W)
        for (ptrdiff_t col = row; col < lanes; col += W) {
            V sums[W] = {}, slopes = {};
            for (ptrdiff_t i = 0; i < n; ++i) {
                const V right = load<V>(q + i * apart + col), left = load<V>(q + i * apart + row) * s[i];
#pragma GCC unroll 8
                for (int f = 0; f < W; ++f) sums[f] += left[f] * right;
                slopes += g[i] * right;
            }
            for (int f = 0; f < W; ++f)
                for (int h = 0; h < W; ++h) G[(row + f) * width + col + h] += sums[f][h];
            if (row == col)
                for (int h = 0; h < W; ++h) r[col + h] += slopes[h];
        }
}

// The same for the last parameter, which follows `before` others: its column of G, and its entry of r.
void gram_of_last(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t before, const real* g, const real* s, double* r,
                  double* G, ptrdiff_t width) {
    for (ptrdiff_t row = 0; row < before; row += LANES) {
        Vec4 sums = {};
        for (ptrdiff_t i = 0; i < n; ++i) sums += load<Vec4>(q + i * apart + row) * (s[i] * q[i * apart + before]);
        for (int f = 0; f < LANES; ++f) G[(row + f) * width + before] += sums[f];
    }
    double slope = 0, square = 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        const real last = q[i * apart + before];
        slope += (double)g[i] * last;
        square += (double)s[i] * last * last;
    }
    r[before] += slope;
    G[before * width + before] += square;
}

void gram(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r,
          double* G) {
    const ptrdiff_t lanes = width / LANES * LANES;
    if (lanes % 8 == 0)
        gram_of<Vec8>(q, apart, n, lanes, g, s, r, G, width);
    else
        gram_of<Vec4>(q, apart, n, lanes, g, s, r, G, width);
    if (lanes < width) gram_of_last(q, apart, n, lanes, g, s, r, G, width);
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

void weight_score_gradient(const ColumnView* v, real* q) {
    for (ptrdiff_t i = 0; i < v->n; ++i) weight_derivative(*v, i, q);
}

void cached_score_gradient(const ColumnView* v, ptrdiff_t behind, real* q) {
    for (ptrdiff_t i = 0; i < v->n; ++i)
        for (ptrdiff_t at = 0; at < v->lanes; at += LANES)
            store(q + i * v->apart + at, load<Vec4>(cache_of(*v, i) + behind + v->at + at));
}

}  // namespace
