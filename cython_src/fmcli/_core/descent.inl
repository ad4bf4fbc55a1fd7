// Coordinate descent over columns: what one feature's parameters do to the scores of the samples that have it.

#include "kernels.h"
#include "runs.h"

namespace {

inline real* cache_of(const Column* c, ptrdiff_t i) {
    return reinterpret_cast<real*>(c->records + c->sample[i] * c->apart + c->cache);
}

void prefetch_records(const Column* column) {
    const Column c = *column;
    for (ptrdiff_t i = 0; i < c.n; ++i) {
        const char* p = c.records + c.sample[i] * c.apart;
        for (ptrdiff_t at = 0; at < c.apart; at += 64) __builtin_prefetch(p + at);
    }
}

// r (width) += sum_i g_i q_i and G (width x width, upper triangle) += sum_i s_i q_i q_i^T, the q_i `apart`: summed in reals
// over few samples, in double beyond.
template <class V>
void gram_of(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r,
             double* G) {
    constexpr int W = ::width<V>;
    for (ptrdiff_t row = 0; row < width; row += W)
        for (ptrdiff_t col = row; col < width; col += W) {
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

void gram(const real* q, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r,
          double* G) {
    if (width % 8 == 0) return gram_of<Vec8>(q, apart, n, width, g, s, r, G);
    if (width % 4 == 0) return gram_of<Vec4>(q, apart, n, width, g, s, r, G);
    for (ptrdiff_t i = 0; i < n; ++i)  // one parameter
        *r += (double)g[i] * q[i * apart], *G += (double)s[i] * q[i * apart] * q[i * apart];
}

// q_i = x_i (s_i - v x_i) beta, and x_i behind it where there is a weight; s_i is the sample's cache.
void pairs_partials(const Column* column, const real* v, ptrdiff_t lanes, const real* beta, int weight, real* q) {
    const Column c = *column;
    const ptrdiff_t width = lanes + (weight ? LANES : 0);
    for (ptrdiff_t i = 0; i < c.n; ++i) {
        const real x = c.value[i];
        const real* sums = cache_of(&c, i);
        for (ptrdiff_t at = 0; at < lanes; at += LANES) {
            Vec4 d = x * (load<Vec4>(sums + at) - load<Vec4>(v + at) * x);
            if (beta) d *= load<Vec4>(beta + at);
            store(q + i * width + at, d);
        }
        if (weight) store(q + i * width + lanes, Vec4{x});
    }
}

void pairs_moved(const Column* column, const real* delta, ptrdiff_t lanes) {
    const Column c = *column;
    for (ptrdiff_t i = 0; i < c.n; ++i) {
        real* sums = cache_of(&c, i);
        for (ptrdiff_t at = 0; at < lanes; at += LANES)
            store(sums + at, load<Vec4>(sums + at) + load<Vec4>(delta + at) * c.value[i]);
    }
}

}  // namespace
