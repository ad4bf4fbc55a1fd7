// Products of linear functions of a sample: polynomial networks.

#include "fmcli/base/columns.h"
#include "fmcli/base/runs.h"

namespace {

void project(const Factors* u, const Sample* x, const real* constant, real* sums) {
    const real* rows = u->at;
    const ptrdiff_t stride = u->stride, lanes = u->lanes;
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V s[N] = {}, t[N] = {};  // sums over even and odd entries: two independent chains of additions
        if (constant) load_row(constant + at, lanes - at, s);
        auto add = [&](ptrdiff_t i, V(&sum)[N]) __attribute__((always_inline)) {
            const real xi = x->value[i];
            V v[N];
            load_row(rows + x->index[i] * stride + at, lanes - at, v);
            for (int n = 0; n < N; ++n) sum[n] += v[n] * xi;
        };
        ptrdiff_t i = 0;
        for (; i + 2 <= x->nnz; i += 2) {
            add(i, s);
            add(i + 1, t);
        }
        if (i < x->nnz) add(i, s);
        for (int n = 0; n < N; ++n) store(sums + at + n * width<V>, s[n] + t[n]);
    });
}

double products(const real* z, int functions, int order, ptrdiff_t lanes, const real* beta, real* values) {
    const ptrdiff_t apart = pad(lanes);
    double total = 0;
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V weights[N] = {};
        if (beta) load_row(beta + at, lanes - at, weights);
        for (int n = 0; n < N; ++n) {
            const real* first = z + at + n * width<V>;
            V value = load<V>(first);
            for (int t = 1; t < order; ++t) value *= load<V>(first + (functions > 1 ? t : 0) * apart);
            store(values + at + n * width<V>, value);
            total += sum(beta ? value * weights[n] : value);
        }
    });
    return total;
}

void products_gradient(const real* z, int functions, int order, ptrdiff_t lanes, const real* beta, double slope,
                       real* out) {
    const real scale = (real)(slope * (order / functions));
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        for (int n = 0; n < decltype(run)::count; ++n, at += width<V>) {
            V before = V{} + 1, after = V{} + scale;
            for (int t = 0; t < functions; ++t) {
                store(out + t * lanes + at, before);
                before *= load<V>(z + t * lanes + at);
            }
            if (beta) after *= load<V>(beta + at);
            for (int t = functions; t < order; ++t) after *= load<V>(z + at);
            for (int t = functions - 1; t >= 0; --t) {
                real* const p = out + t * lanes + at;
                store(p, load<V>(p) * after);
                after *= load<V>(z + t * lanes + at);
            }
        }
    });
}

void spread(const real* direction, ptrdiff_t lanes, const Sample* x, real* out) {
    for (ptrdiff_t i = 0; i < x->nnz; ++i, out += lanes) {
        const real xi = x->value[i];
        ptrdiff_t at = 0;
        for (; at + 8 <= lanes; at += 8) store(out + at, load<Vec8>(direction + at) * xi);
        if (at < lanes) store(out + at, load<Vec4>(direction + at) * xi);
    }
}

// ---- Columns, for coordinate descent. ----
//
// The score is a sum of products of linear functions z. Their values come first in the caches: `functions` functions of
// `lanes` reals each, or one function that is multiplied `order` times.

// The n-th derivative of beta z^m: beta m (m - 1) .. (m - n + 1) z^(m - n) x^n.
void power_score_gradient(const ColumnView* view, int order, int n, const real* beta, real* q) {
    const ColumnView v = *view;
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

// If A and Z are the products of the first t values z after and before the step, then A - Z for t + 1 values is
// (A - Z) z + A (step x).
void product_score_changes(const ColumnView* view, int functions, int order, ptrdiff_t lanes, const real* beta, const real* step,
                     double* out) {
    const ColumnView v = *view;
    const ptrdiff_t width = v.lanes / functions;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const real x = v.value[i];
        const real* z = cache_of(v, i) + v.at;
        double total = v.weight ? (double)step[v.lanes] * x : 0;
        for (ptrdiff_t f = 0; f < width; f += LANES) {
            Vec4 moved = Vec4{} + 1, change = {};
            if (beta) moved *= load<Vec4>(beta + v.at + f);
            for (int t = 0; t < order; ++t) {
                const ptrdiff_t function = functions > 1 ? t : 0;
                const Vec4 before = load<Vec4>(z + function * lanes + f), by = load<Vec4>(step + function * width + f) * x;
                change = change * before + moved * by;
                moved *= before + by;
            }
            total += sum(change);
        }
        out[i] = total;
    }
}

}  // namespace
