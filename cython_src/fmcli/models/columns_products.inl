// Coordinate descent over columns for products of linear functions z, whose values are the caches' first: `parts` of them,
// each of so many `lanes`, or one that counts `order` times.

#include "fmcli/kernels/kernels.h"
#include "fmcli/base/runs.h"

namespace {

// The derivative of a product by one z is the product of the others.
void product_partials(const Visit* visit, int parts, ptrdiff_t lanes, real* q) {
    const Visit v = *visit;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const real x = v.value[i];
        const real* z = cache_of(v, i);
        for (ptrdiff_t at = 0; at < v.lanes; at += LANES) {
            const ptrdiff_t own = (v.at + at) / lanes, f = (v.at + at) % lanes;
            Vec4 d = Vec4{} + x;
            for (ptrdiff_t t = 0; t < parts; ++t)
                if (t != own) d *= load<Vec4>(z + t * lanes + f);
            store(q + i * v.apart + at, d);
        }
        weight_partial(v, i, q);
    }
}

// Derivatives by what enters a score with a share that the cache has `behind` its first number.
void share_partials(const Visit* visit, ptrdiff_t behind, real* q) {
    const Visit v = *visit;
    for (ptrdiff_t i = 0; i < v.n; ++i, q += v.apart) {
        const real share = cache_of(v, i)[behind];
        for (ptrdiff_t at = 0; at < v.lanes; at += LANES) store(q + at, load<Vec4>(q + at) * share);
        if (v.weight) q[v.lanes] *= share;
    }
}

// The n-th derivative of beta z^m: beta m (m - 1) .. (m - n + 1) z^(m - n) x^n.
void power_partials(const Visit* visit, int order, int n, const real* beta, real* q) {
    const Visit v = *visit;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        real scale = 1;
        for (int t = 0; t < n; ++t) scale *= (real)(order - t) * v.value[i];
        const real* z = cache_of(v, i) + v.at;
        for (ptrdiff_t at = 0; at < v.lanes; at += LANES) {
            Vec4 d = Vec4{} + scale;
            if (beta) d *= load<Vec4>(beta + v.at + at);
            const Vec4 base = load<Vec4>(z + at);
            for (int t = n; t < order; ++t) d *= base;
            store(q + i * v.apart + at, d);
        }
        if (v.weight) q[i * v.apart + v.lanes] = n == 1 ? v.value[i] : 0;
    }
}

// With products A of the z that have moved and Z of those before, A - Z goes from t to t + 1 by (A - Z) z + A (step x).
void product_changes(const Visit* visit, int parts, int order, ptrdiff_t lanes, const real* beta, const real* step,
                     double* out) {
    const Visit v = *visit;
    const ptrdiff_t width = v.lanes / parts;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const real x = v.value[i];
        const real* z = cache_of(v, i) + v.at;
        double total = v.weight ? (double)step[v.lanes] * x : 0;
        for (ptrdiff_t f = 0; f < width; f += LANES) {
            Vec4 moved = Vec4{} + 1, change = {};
            if (beta) moved *= load<Vec4>(beta + v.at + f);
            for (int t = 0; t < order; ++t) {
                const ptrdiff_t part = parts > 1 ? t : 0;
                const Vec4 before = load<Vec4>(z + part * lanes + f), by = load<Vec4>(step + part * width + f) * x;
                change = change * before + moved * by;
                moved *= before + by;
            }
            total += sum(change);
        }
        out[i] = total;
    }
}

}  // namespace
