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

// Before v moves: each factor's A^2, which lies behind the sums, moves by its derivative times delta.
void pairs_moved(const Column* column, const real* v, const real* delta, ptrdiff_t lanes, int values) {
    const Column c = *column;
    for (ptrdiff_t i = 0; i < c.n; ++i) {
        const real x = c.value[i];
        real* sums = cache_of(&c, i);
        for (ptrdiff_t at = 0; at < lanes; at += LANES) {
            const Vec4 s = load<Vec4>(sums + at), a = load<Vec4>(delta + at) * x;
            if (values) {
                real* value = sums + lanes + at;
                store(value, load<Vec4>(value) + (s - load<Vec4>(v + at) * x) * a);
            }
            store(sums + at, s + a);
        }
    }
}

// q_i = each factor's A^2.
void values_partials(const Column* column, ptrdiff_t lanes, real* q) {
    const Column c = *column;
    for (ptrdiff_t i = 0; i < c.n; ++i)
        for (ptrdiff_t at = 0; at < lanes; at += LANES) store(q + i * lanes + at, load<Vec4>(cache_of(&c, i) + lanes + at));
}

// q_i = 1: a bias alone in its row.
void ones_partials(const Column* column, real* q) {
    for (ptrdiff_t i = 0; i < column->n; ++i) store(q + i * LANES, Vec4{1});
}

}  // namespace
