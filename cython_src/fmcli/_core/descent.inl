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

// r += sum_i g_i q_i and, on and above the diagonal, G += sum_i s_i q_i q_i^T, by squares of as many numbers as V is wide:
// summed in reals over few samples, in double beyond.
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

// The same for the number behind `before` others, against them and itself.
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

// q_i = x_i (s_i - v x_i) beta, and x_i behind it where there is a weight; s_i is the sample's cache.
void pairs_partials(const Column* column, const real* v, ptrdiff_t lanes, const real* beta, int weight, real* q) {
    const Column c = *column;
    const ptrdiff_t apart = lanes + (weight ? LANES : 0);
    for (ptrdiff_t i = 0; i < c.n; ++i) {
        const real x = c.value[i];
        const real* sums = cache_of(&c, i);
        for (ptrdiff_t at = 0; at < lanes; at += LANES) {
            Vec4 d = x * (load<Vec4>(sums + at) - load<Vec4>(v + at) * x);
            if (beta) d *= load<Vec4>(beta + at);
            store(q + i * apart + at, d);
        }
        if (weight) q[i * apart + lanes] = x;
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
    for (ptrdiff_t i = 0; i < column->n; ++i) q[i * LANES] = 1;
}

}  // namespace
