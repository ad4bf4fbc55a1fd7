// Interactions between two groups of features.

#include "fmcli/base/runs.h"
#include "fmcli/base/types.h"

namespace {

double two_sides(const Factors* factors, const Sample* x, const int32_t* side, real* sums) {
    const Factors v = *factors;
    const ptrdiff_t padded = pad(v.lanes);
    double total = 0;
    by_run(v.lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V first[N] = {}, second[N] = {};
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            const int32_t on = side[x->index[i]];
            if (on < 0) continue;
            V a[N];
            load_row(v.at + x->index[i] * v.stride + at, v.lanes - at, a);
            const real on_first = on ? 0 : x->value[i], on_second = on ? x->value[i] : 0;
            for (int n = 0; n < N; ++n) {
                first[n] += a[n] * on_first;
                second[n] += a[n] * on_second;
            }
        }
        for (int n = 0; n < N; ++n) {
            store(sums + at + n * width<V>, first[n]);
            store(sums + padded + at + n * width<V>, second[n]);
            total += sum(first[n] * second[n]);
        }
    });
    return total;
}

void two_sides_gradient(const Sample* x, const int32_t* side, const real* sums, ptrdiff_t lanes, double slope, real* out) {
    for (ptrdiff_t i = 0; i < x->nnz; ++i) {
        const int32_t on = side[x->index[i]];
        const real scale = on < 0 ? 0 : (real)slope * x->value[i];
        const real* other = sums + (on == 0 ? lanes : 0);
        for (ptrdiff_t at = 0; at < lanes; at += LANES) store(out + i * lanes + at, load<Vec4>(other + at) * scale);
    }
}

}  // namespace
