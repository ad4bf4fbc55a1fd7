// Products of linear functions of a row: polynomial networks.

#include "fmcli/kernels/kernels.h"
#include "fmcli/base/runs.h"

namespace {

void project(const Factors* u, const Sample* x, const real* constant, real* sums) {
    const real* rows = u->at;
    const ptrdiff_t stride = u->stride, lanes = u->lanes;
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V s[N] = {}, t[N] = {};  // even and odd entries: two chains of additions instead of one
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

double products(const real* z, int parts, int order, ptrdiff_t lanes, const real* beta, real* values) {
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
            for (int t = 1; t < order; ++t) value *= load<V>(first + (parts > 1 ? t : 0) * apart);
            store(values + at + n * width<V>, value);
            total += sum(beta ? value * weights[n] : value);
        }
    });
    return total;
}

void products_gradient(const real* z, int parts, int order, ptrdiff_t lanes, const real* beta, double slope,
                       real* out) {
    const real scale = (real)(slope * (order / parts));
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        for (int n = 0; n < decltype(run)::count; ++n, at += width<V>) {
            V before = V{} + 1, after = V{} + scale;
            for (int t = 0; t < parts; ++t) {
                store(out + t * lanes + at, before);
                before *= load<V>(z + t * lanes + at);
            }
            if (beta) after *= load<V>(beta + at);
            for (int t = parts; t < order; ++t) after *= load<V>(z + at);
            for (int t = parts - 1; t >= 0; --t) {
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

}  // namespace
