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

// r += sum_i g_i q_i and G += sum_i s_i q_i q_i^T (rows of G `width` apart, the upper triangle by blocks of 4), with
// q of `width` reals, a multiple of LANES: summed in reals over few samples, in double beyond.
void gram(const real* q, ptrdiff_t n, ptrdiff_t width, const real* g, const real* s, double* r, double* G) {
    for (ptrdiff_t row = 0; row < width; row += LANES)
        for (ptrdiff_t col = row; col < width; col += LANES) {
            Vec4 sums[LANES] = {}, slopes = {};
            for (ptrdiff_t i = 0; i < n; ++i) {
                const Vec4 right = load<Vec4>(q + i * width + col), left = load<Vec4>(q + i * width + row) * s[i];
                for (int f = 0; f < LANES; ++f) sums[f] += left[f] * right;
                if (row == col) slopes += g[i] * right;
            }
            for (int f = 0; f < LANES; ++f)
                for (int h = 0; h < LANES; ++h) G[(row + f) * width + col + h] += sums[f][h];
            if (row == col)
                for (int h = 0; h < LANES; ++h) r[col + h] += slopes[h];
        }
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
