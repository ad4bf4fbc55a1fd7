// The multi-linear form of the ANOVA kernel: the sum of products of m vectors over ordered tuples of distinct entries.
//
// Subsets T of the m vectors are bit masks. a[T] is the sum over all assignments of distinct entries to the vectors of
// T. A new entry is assigned to no vector of T, or to one: a[T] += sum over t in T of c_t a[T without t]. This
// recursion only adds products and takes no difference, so no digits are lost, however much one entry outweighs the
// others.

#include "fmcli/base/columns.h"
#include "fmcli/base/runs.h"
#include "fmcli/models/polynomial/kernels.h"

namespace {

// Add one more entry, whose products are c, to the sums of the sets up to `LAST`, larger sets first. For up to five
// vectors the loops are fully unrolled, which keeps the sums in registers and is twice as fast.
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

// c_t = u_t x for the i-th entry, where the constants come first; returns x.
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

// The number of sums over the earlier entries that gradients need: one for each set but the empty and the full one.
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
    V s[1 << M] = {}, p[1 << M], c[M];  // the same sums over the later entries, and over the earlier ones
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

// Calls f(Order<order>) for an order known only at run time.
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

// ---- Columns, for coordinate descent. ----
//
// Lifted ANOVA kernels by columns: the contribution of one parameter row is removed from a sample's sums a[T] over sets
// T of vectors.
//
// Without entry j, b[T] = a[T] - sum over t in T of c_t b[T without t], smaller sets first, and the derivative by c_t
// is b[all but t]. As in columns_anova.inl, cancellation can lose digits: the error of b[T] is up to the rounding of a
// number times A[T] = sum over t in T of |c_t| (A[T without t] + |b[T without t]|). If A[T] is much larger than the
// b[T] that the derivatives use, all b[T] are computed again from the other entries.

// b[T] <- the sums without the entry whose products are c, for all sets but the full one. The sums `a` over all entries
// are `apart` reals from each other. Returns whether too many digits are lost.
template <int M, class V>
inline __attribute__((always_inline)) bool take_out(const real* a, ptrdiff_t apart, const V (&c)[M], V (&b)[1 << M]) {
    V loss[1 << M];
    b[0] = real(1) - V{};
    loss[0] = V{};
    bool lost = false;
#pragma GCC unroll 32
    for (int T = 1; T <= KEPT<M>; ++T) {
        b[T] = load<V>(a + (T - 1) * apart);
        loss[T] = V{};
#pragma GCC unroll 32
        for (int t = 0; t < M; ++t)
            if (T >> t & 1) {
                const int rest = T & ~(1 << t);
                b[T] -= c[t] * b[rest];
                loss[T] += magnitude(c[t]) * (loss[rest] + magnitude(b[rest]));
            }
    }
    for (int t = 0; t < M; ++t) {
        const int others = KEPT<M> + 1 - (1 << t);
        lost |= any_negative(MOST_LOST * magnitude(b[others]) - loss[others]);
    }
    return lost;
}

// a[T] <- some lanes of the sums over all entries but `without`, where the constants come first; -1: over all entries.
template <int M, class V>
__attribute__((noinline)) void sum_up(const Lifted* l, const Sample& x, ptrdiff_t at, ptrdiff_t without,
                                      V (&a)[1 << M]) {
    V c[M];
    for (int T = 0; T <= KEPT<M> + 1; ++T) a[T] = V{};
    for (ptrdiff_t i = 0; i < l->constants + x.nnz; ++i) {
        if (i == without) continue;
        load_entry(l, &x, i, at, c);
        let_in<M, KEPT<M> + 1>(a, c);
    }
    a[0] = real(1) - V{};
}

// The number of a feature's entry among all entries, where the constants come first.
inline ptrdiff_t place_of(const Lifted* l, const Sample& x, ptrdiff_t feature) {
    ptrdiff_t i = 0;
    while (x.index[i] != feature) ++i;
    return l->constants + i;
}

void lifted_cache(const Lifted* l, const Sample* x, real* cache) {
    const ptrdiff_t lanes = l->u[0].lanes;
    by_order(l->order, [&](auto order) {
        constexpr int M = decltype(order)::value;
        by_run(lanes, [&](ptrdiff_t at, auto run) {
            using V = typename decltype(run)::Vector;
            for (int n = 0; n < decltype(run)::count; ++n, at += width<V>) {
                V a[1 << M];
                sum_up<M>(l, *x, at, -1, a);
                for (int T = 1; T <= KEPT<M> + 1; ++T) store(cache + (T - 1) * lanes + at, a[T]);
            }
        });
    });
}

// Calls f(i, place, a, c, b, anew) for each sample i of the view and each run of lanes, as wide as V, that the view
// contains for at least one vector. place[t] is the position of vector t's lanes in the view, or -1 if the view lacks
// them; a: the cached sums; c: the row's products; b: the sums without the row. If `anew`, the b are computed from the
// other entries, and include the sum of the full set.
template <int M, class V, class F>
inline void without_row(const ColumnView& v, const Csr* data, const Lifted* l, bool constant, F f) {
    const Factors* const rows = constant ? l->gamma : l->u;
    const ptrdiff_t lanes = rows[0].lanes;
    for (ptrdiff_t at = 0; at < lanes; at += width<V>) {
        ptrdiff_t place[M];
        bool moves = false;
        V visited[M], c[M], b[1 << M];
        for (int t = 0; t < M; ++t) {
            place[t] = t * lanes + at - v.at;
            if (place[t] >= v.lanes) place[t] = -1;
            moves |= place[t] >= 0;
            visited[t] = load<V>(rows[t].at + v.row * rows[t].stride + at);
        }
        for (ptrdiff_t i = 0; moves && i < v.n; ++i) {
            real* const a = cache_of(v, i) + at;
            for (int t = 0; t < M; ++t) c[t] = visited[t] * v.value[i];
            const bool anew = take_out<M>(a, lanes, c, b);
            if (__builtin_expect(anew, 0)) {
                const Sample x = sample_of(data, v.sample[i]);
                sum_up<M>(l, x, at, constant ? v.row : place_of(l, x, v.row), b);
            }
            f(i, place, a, c, b, anew);
        }
    }
}

// Calls f(Order<m>, V) with the widest vectors V that divide both the row and the view.
template <class F>
inline void by_width(const ColumnView& v, const Lifted* l, F f) {
    by_order(l->order, [&](auto order) {
        if (l->u[0].lanes % width<Vec8> || v.at % width<Vec8> || v.lanes % width<Vec8>)
            f(order, Vec4{});
        else
            f(order, Vec8{});
    });
}

void lifted_score_gradient(const ColumnView* view, const Csr* data, const Lifted* l, int constant, real* q) {
    const ColumnView v = *view;
    const real share = (real)(1 / orderings(l->order));
    by_width(v, l, [&](auto order, auto vector) {
        constexpr int M = decltype(order)::value;
        without_row<M, decltype(vector)>(v, data, l, constant, [&](ptrdiff_t i, const auto& place, real*, auto&, auto& b,
                                                                   bool) {
            for (int t = 0; t < M; ++t)
                if (place[t] >= 0) store(q + i * v.apart + place[t], b[KEPT<M> + 1 - (1 << t)] * (share * v.value[i]));
        });
    });
}

void lifted_update_cache(const ColumnView* view, const Csr* data, const Lifted* l, int constant, const real* step) {
    const ColumnView v = *view;
    const ptrdiff_t lanes = l->u[0].lanes;
    by_width(v, l, [&](auto order, auto vector) {
        constexpr int M = decltype(order)::value;
        using V = decltype(vector);
        without_row<M, V>(v, data, l, constant, [&](ptrdiff_t i, const auto& place, real* a, auto& c, auto& b, bool anew) {
            for (int t = 0; t < M; ++t) {
                const V more = place[t] < 0 ? V{} : load<V>(step + place[t]) * v.value[i];
                c[t] = anew ? c[t] + more : more;
            }
#pragma GCC unroll 32
            for (int T = 1; T <= KEPT<M> + 1; ++T) {
                real* const sum = a + (T - 1) * lanes;
                V after = anew ? b[T] : load<V>(sum);
#pragma GCC unroll 32
                for (int t = 0; t < M; ++t)
                    if (T >> t & 1) after += c[t] * b[T & ~(1 << t)];
                store(sum, after);
            }
        });
    });
}

}  // namespace
