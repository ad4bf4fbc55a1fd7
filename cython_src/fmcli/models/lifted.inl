// The ANOVA kernel's multi-linear form: the sum, over ordered tuples of distinct entries, of products of m vectors.
//
// Subsets T of the m vectors are bit masks. a[T] is the sum over ways to give each vector of T an entry of its own; an
// entry may take none, or one vector out of T: a[T] += sum over t in T of c_t a[T without t]. Every term is a product of
// what is there, no difference is taken, so no digits are lost however much one entry outweighs the others.

#include "fmcli/kernels/kernels.h"
#include "fmcli/base/runs.h"

namespace {

// Let one more entry, whose products are c, take part in the sets up to `LAST`; larger sets come first. Up to five vectors
// the loops are unrolled in full, which keeps sets in registers and is twice as fast.
template <int M, int LAST, class V>
inline __attribute__((always_inline)) void let_in(V (&a)[1 << M], const V (&c)[M]) {
#pragma GCC unroll 32
    for (int T = LAST; T > 0; --T) {
        if (!(T & (T - 1))) continue;  // one vector alone
#pragma GCC unroll 32
        for (int t = 0; t < M; ++t)
            if (T >> t & 1) a[T] += c[t] * a[T & ~(1 << t)];
    }
    for (int t = 0; t < M; ++t) a[1 << t] += c[t];
}

// c_t = u_t x of the i-th entry, the constants counting first; returns x.
template <int M, class V>
inline __attribute__((always_inline)) real load_entry(const Lifted* l, const Sample* x, ptrdiff_t i, ptrdiff_t at,
                                                      V (&c)[M]) {
    const bool constant = i < l->constants;
    const Factors* rows = constant ? l->gamma : l->u;
    const ptrdiff_t row = constant ? i : x->index[i - l->constants];
    const real value = constant ? 1 : x->value[i - l->constants];
    for (int t = 0; t < M; ++t) {
        V v[1];
        load_row(rows[t].at + row * rows[t].stride + at, rows[t].lanes - at, v);
        c[t] = v[0] * value;
    }
    return value;
}

// The sums before an entry came that gradients need: all but those of no vector and of all.
template <int M>
constexpr int KEPT = (1 << M) - 2;

template <int M, class V>
__attribute__((noinline)) double lifted_vector(const Lifted* l, const Sample* x, ptrdiff_t at, real* tables) {
    V a[1 << M] = {}, c[M];
    const ptrdiff_t n = l->constants + x->nnz;
    real* table = tables ? tables + at * KEPT<M> * n : nullptr;
    for (ptrdiff_t i = 0; i < n; ++i) {
        load_entry(l, x, i, at, c);
        if (table)
            for (int T = 1; T <= KEPT<M>; ++T, table += width<V>) store(table, a[T]);
        let_in<M, KEPT<M> + 1>(a, c);
    }
    return sum(a[KEPT<M> + 1]);
}

template <int M, class V>
__attribute__((noinline)) void lifted_gradient_vector(const Lifted* l, const Sample* x, ptrdiff_t at,
                                                      const real* tables, real slope, real* out,
                                                      real* out_constants) {
    const ptrdiff_t lanes = l->u[0].lanes, n = l->constants + x->nnz;
    V s[1 << M] = {}, p[1 << M], c[M];  // the same sums of the entries behind, and of those before
    const real* table = tables + at * KEPT<M> * n;
    for (ptrdiff_t i = n - 1; i >= 0; --i) {
        const real scale = slope * load_entry(l, x, i, at, c);
        const ptrdiff_t j = i - l->constants;
        real* g = (j < 0 ? out_constants + i * M * lanes : out + j * M * lanes) + at;
        for (int T = 1; T <= KEPT<M>; ++T) p[T] = load<V>(table + (i * KEPT<M> + T - 1) * width<V>);
#pragma GCC unroll 32
        for (int t = 0; t < M; ++t) {
            const int others = KEPT<M> + 1 - (1 << t);
            V sums = p[others] + s[others];
#pragma GCC unroll 32
            for (int A = (others - 1) & others; A; A = (A - 1) & others) sums += p[A] * s[others & ~A];
            store(g + t * lanes, sums * scale);
        }
        let_in<M, KEPT<M>>(s, c);
    }
}

template <int M>
double lifted_order(const Lifted* l, const Sample* x, real* tables) {
    double total = 0;
    by_run(l->u[0].lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        for (int n = 0; n < decltype(run)::count; ++n)
            total += lifted_vector<M, V>(l, x, at + n * width<V>, tables);
    });
    return total;
}

template <int M>
void lifted_gradient_order(const Lifted* l, const Sample* x, const real* tables, real slope, real* out,
                           real* out_constants) {
    by_run(l->u[0].lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        for (int n = 0; n < decltype(run)::count; ++n)
            lifted_gradient_vector<M, V>(l, x, at + n * width<V>, tables, slope, out, out_constants);
    });
}

// f(Order<order>), for orders that are known when the program runs.
template <int M = 2, class F>
inline void by_order(int order, F f) {
    if (order == M)
        f(Order<M>{});
    else if constexpr (M < MOST_LIFTED)
        by_order<M + 1>(order, f);
}

double orderings(int order) { return order < 2 ? 1 : order * orderings(order - 1); }

double lifted(const Lifted* l, const Sample* x, real* tables) {
    double total = 0;
    by_order(l->order, [&](auto order) { total = lifted_order<decltype(order)::value>(l, x, tables); });
    return total / orderings(l->order);
}

void lifted_gradient(const Lifted* l, const Sample* x, const real* tables, double slope, real* out,
                     real* out_constants) {
    const real scale = (real)(slope / orderings(l->order));
    by_order(l->order, [&](auto order) {
        lifted_gradient_order<decltype(order)::value>(l, x, tables, scale, out, out_constants);
    });
}

}  // namespace
