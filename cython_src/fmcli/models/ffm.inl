// The pairs of a field-aware factorization machine, through the sums S[p][q] of v_{j,q} x_j over the entries j of field p:
// the pairs between two fields are <S[p][q], S[q][p]>. So n entries of P fields cost n P, not n^2, and a field may have any
// number of entries in a sample. Sums lie at [p * P + q], padded.

#include "fmcli/base/fields.h"
#include "fmcli/kernels/kernels.h"
#include "fmcli/base/runs.h"

namespace {

double field_pairs(const Factors* factors, ptrdiff_t apart, const Sample* x, const Presence* presence, real* sums) {
    const Factors v = *factors;
    const Presence here = *presence;
    const ptrdiff_t slots = here.slots, lanes = v.lanes, padded = pad(lanes);
    double total = 0;
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        auto sum_at = [&](ptrdiff_t p, ptrdiff_t q) { return sums + (p * slots + q) * padded + at; };
        auto dot = [&](ptrdiff_t p, ptrdiff_t q, V(&out)[N]) __attribute__((always_inline)) {
            for (int n = 0; n < N; ++n)
                out[n] += load<V>(sum_at(p, q) + n * width<V>) * load<V>(sum_at(q, p) + n * width<V>);
        };
        for (ptrdiff_t p = 0; p < slots; ++p)
            if (here.count[p] > 1)
                for (ptrdiff_t q = 0; q < slots; ++q)
                    for (int n = 0; n < N; ++n) store(sum_at(p, q) + n * width<V>, V{});
        V selves[N] = {};
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            const ptrdiff_t p = here.slot[i];
            if (p < 0) continue;
            const real xi = x->value[i];
            const real* row = v.at + x->index[i] * v.stride + at;
            real* to = sum_at(p, 0);
            if (here.count[p] == 1) {
                for (ptrdiff_t q = 0; q < slots; ++q, to += padded) {
                    V a[N];
                    load_row(row + here.field[q] * apart, lanes - at, a);
                    for (int n = 0; n < N; ++n) store(to + n * width<V>, a[n] * xi);
                }
                continue;
            }
            for (ptrdiff_t q = 0; q < slots; ++q, to += padded) {
                V a[N];
                load_row(row + here.field[q] * apart, lanes - at, a);
                for (int n = 0; n < N; ++n) {
                    a[n] *= xi;
                    if (q == p) selves[n] += a[n] * a[n];
                    store(to + n * width<V>, load<V>(to + n * width<V>) + a[n]);
                }
            }
        }
        for (ptrdiff_t p = 0; p < slots; ++p) {
            V products[N] = {}, squares[N] = {};
            for (ptrdiff_t q = 0; q < p; ++q) dot(p, q, products);
            if (here.count[p] > 1) dot(p, p, squares);
            for (int n = 0; n < N; ++n) total += sum(products[n] + real(0.5) * squares[n]);
        }
        for (int n = 0; n < N; ++n) total -= 0.5 * sum(selves[n]);
    });
    return total;
}

void field_pairs_gradient(const Factors* factors, ptrdiff_t apart, const Sample* x, const Presence* presence,
                          const real* sums, double slope, const int32_t* place, bool add, real* out) {
    const Factors v = *factors;
    const Presence here = *presence;
    const ptrdiff_t slots = here.slots, padded = pad(v.lanes);
    by_run(v.lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        ptrdiff_t next = 0;
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            const ptrdiff_t p = here.slot[i];
            if (p < 0) continue;
            const bool alone = here.count[p] == 1;
            const real xi = x->value[i], scale = (real)slope * xi;
            const real* own = v.at + x->index[i] * v.stride + here.field[p] * apart + at;
            const real* others = sums + p * padded + at;
            for (ptrdiff_t q = 0; q < slots; ++q, others += slots * padded) {
                if (alone && q == p) continue;
                real* const to = out + (place ? place[i * slots + q] : next++) * padded + at;
                for (int n = 0; n < N; ++n) {
                    V g = load<V>(others + n * width<V>);
                    if (q == p) g -= load<V>(own + n * width<V>) * xi;
                    g *= scale;
                    store(to + n * width<V>, add ? load<V>(to + n * width<V>) + g : g);
                }
            }
        }
    });
}

}  // namespace
