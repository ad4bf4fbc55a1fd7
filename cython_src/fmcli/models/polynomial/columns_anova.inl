// ANOVA and all-subsets kernels for coordinate descent: the visited row is removed from the cached sums or products.
//
// Without entry j, the sums e_t become b_t = e_t - a_j b_{t-1}, so a derivative costs O(m) per factor. But these
// differences lose digits: with the unit roundoff u, the error of b_t is up to u A_t, where A_t = |a_j| (A_{t-1} +
// |b_{t-1}|). Relative to b_t, A_t is of size (|a_j| / |a_i|)^t if one |a_j| outweighs the others, |a_i|. Derivatives
// are computed from b_{m-1}, so the b_t are summed anew from the other entries if A_{m-1} is much larger than b_{m-1}.
// This includes samples with too few entries, whose b_{m-1} must be 0: a rounding error instead of 0 would permit steps
// of unlimited length.
// of unlimited length.

#include "fmcli/base/columns.h"
#include "fmcli/base/runs.h"
#include "fmcli/models/polynomial/anova.inl"

namespace {

// The smallest |1 + a_j| to divide the product by; below it, the product of the others is computed anew. Above it, the
// quotient is as accurate as the product, and a few factors of this size do not make the product underflow.
constexpr real LEAST_FACTOR = 1e-4;

// b <- the sums b_1 .. b_{m-1}, from the sums e_1 .. e_m of all entries, which are `apart` reals from each other.
// Returns whether too many digits are lost.
template <int D, class V, int N>
inline __attribute__((always_inline)) bool take_out(const real* e, ptrdiff_t apart, int m, const V (&a)[N],
                                                    V (&b)[D][N]) {
    bool lost = false;
    for (int n = 0; n < N; ++n) {
        const V size = magnitude(a[n]);
        V loss = size;
        b[0][n] = load<V>(e + n * width<V>) - a[n];
        for (int t = 1; t < m - 1; ++t) {
            loss = size * (loss + magnitude(b[t - 1][n]));
            b[t][n] = load<V>(e + t * apart + n * width<V>) - a[n] * b[t - 1][n];
        }
        lost |= any_negative(MOST_LOST * magnitude(b[m - 2][n]) - loss);
    }
    return lost;
}

// e <- e_1 .. e_m of some lanes, summed over all entries and constants except the given feature and constant; a
// negative number excludes none.
template <int D, class V, int N>
__attribute__((noinline)) void sum_up(const Sample& x, const Factors& p, const Anova& k, ptrdiff_t at,
                                      ptrdiff_t feature, ptrdiff_t constant, V (&e)[D][N]) {
    V a[N];
    for (int t = 0; t < k.order; ++t)
        for (int n = 0; n < N; ++n) e[t][n] = V{};
    for (ptrdiff_t i = 0; i < k.constants; ++i) {
        if (i == constant) continue;
        load_row(k.gamma + i * k.gamma_stride + at, p.lanes - at, a);
        take_in(e, a, k.order);
    }
    for (ptrdiff_t i = 0; i < x.nnz; ++i) {
        if (x.index[i] == feature) continue;
        load_row(p.at + x.index[i] * p.stride + at, p.lanes - at, a);
        for (int n = 0; n < N; ++n) a[n] *= x.value[i];
        take_in(e, a, k.order);
    }
}

void anova_cache(const Factors* p, const Sample* x, const Anova* k, real* cache) {
    by_degree(k->order, [&](auto order) {
        constexpr int M = decltype(order)::value;
        by_run(k->rank, [&](ptrdiff_t at, auto run) {
            using V = typename decltype(run)::Vector;
            V e[most_degrees<M>][decltype(run)::count];
            sum_up(*x, *p, *k, at, -1, -1, e);
            for (int t = 0; t < k->order; ++t) store_run(cache + t * pad(k->rank) + at, e[t]);
        });
    });
}

// Call f(run, i, at, e, a, b, anew) for each run of lanes and each sample i of the view. The run begins at lane `at` of
// the kernel; e are the cached sums, a = p_j x_j of the visited row, and b_1 .. b_{m-1} the sums without it. If the
// sums were computed `anew`, b_m is set, too.
template <int M, class F>
inline void without_row(const ColumnView& v, const Csr* data, const Factors& p, const Anova& k, bool constant, F f) {
    const int m = M ? M : k.order;
    const ptrdiff_t apart = pad(k.rank);
    const real* const row = constant ? k.gamma + v.row * k.gamma_stride : p.at + v.row * p.stride;
    by_run(v.lanes, [&](ptrdiff_t first, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        const ptrdiff_t at = v.at + first;
        V visited[N], a[N], b[most_degrees<M>][N];
        for (int n = 0; n < N; ++n) visited[n] = load<V>(row + at + n * width<V>);
        for (ptrdiff_t i = 0; i < v.n; ++i) {
            real* const e = cache_of(v, i) + at;
            for (int n = 0; n < N; ++n) a[n] = visited[n] * v.value[i];
            const bool anew = take_out(e, apart, m, a, b);
            if (__builtin_expect(anew, 0))
                sum_up(sample_of(data, v.sample[i]), p, k, at, constant ? -1 : v.row, constant ? v.row : -1, b);
            f(run, i, at, e, a, b, anew);
        }
    });
}

void anova_score_gradient(const ColumnView* view, const Csr* data, const Factors* p, const Anova* kernel, int constant, real* q) {
    const ColumnView v = *view;
    const Anova k = *kernel;
    by_degree(k.order, [&](auto order) {
        constexpr int M = decltype(order)::value;
        const int m = M ? M : k.order;
        without_row<M>(v, data, *p, k, constant, [&](auto run, ptrdiff_t i, ptrdiff_t at, real*, auto&, auto& b, bool) {
            using V = typename decltype(run)::Vector;
            V g[decltype(run)::count];
            for (int n = 0; n < decltype(run)::count; ++n) {
                g[n] = b[m - 2][n];
                if (k.theta) {
                    g[n] = k.theta[0] + k.theta[m - 1] * g[n];
                    for (int t = 1; t < m - 1; ++t) g[n] += k.theta[t] * b[t - 1][n];
                }
                if (k.beta) g[n] *= load<V>(k.beta + at + n * width<V>);
                g[n] *= v.value[i];
            }
            if (k.theta) only(k.rank - at, g);
            store_run(q + i * v.apart + at - v.at, g);
        });
    });
}

void anova_update_cache(const ColumnView* view, const Csr* data, const Factors* p, const Anova* kernel, int constant,
                 const real* step) {
    const ColumnView v = *view;
    const Anova k = *kernel;
    const ptrdiff_t apart = pad(k.rank);
    by_degree(k.order, [&](auto order) {
        constexpr int M = decltype(order)::value;
        const int m = M ? M : k.order;
        without_row<M>(v, data, *p, k, constant, [&](auto run, ptrdiff_t i, ptrdiff_t at, real* e, auto& a, auto& b,
                                                     bool anew) {
            using V = typename decltype(run)::Vector;
            for (int n = 0; n < decltype(run)::count; ++n) {
                // From b if it was computed anew: if a large a_j becomes small, e has lost the other entries' digits.
                V more = load<V>(step + at - v.at + n * width<V>) * v.value[i];
                if (anew) more += a[n];
                for (int t = m - 1; t >= 0; --t) {
                    real* const sum = e + t * apart + n * width<V>;
                    const V before = anew ? b[t][n] : load<V>(sum);
                    store(sum, before + (t ? more * b[t - 1][n] : more));
                }
            }
        });
    });
}

// The derivative by the weight theta_t of a degree is the sum of A^t over the factors.
void degree_score_gradient(const ColumnView* view, const Anova* k, real* q) {
    const ColumnView v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i)
        for (ptrdiff_t at = 0; at < v.lanes; ++at) {
            const ptrdiff_t t = v.at + at;
            const real* const e = cache_of(v, i) + t * pad(k->rank);
            double total = 0;
            if (t < k->order)
                for (ptrdiff_t f = 0; f < k->rank; f += LANES) total += sum(load<Vec4>(e + f));
            q[i * v.apart + at] = (real)total;
        }
}

// product <- some lanes of prod (1 + p_j x_j) over all entries except the given feature's; a negative number excludes
// none.
template <class V, int N>
__attribute__((noinline)) void multiply(const Sample& x, const Factors& p, ptrdiff_t at, ptrdiff_t feature,
                                        V (&product)[N]) {
    V a[N];
    for (int n = 0; n < N; ++n) product[n] = real(1) - V{};
    for (ptrdiff_t i = 0; i < x.nnz; ++i) {
        if (x.index[i] == feature) continue;
        load_row(p.at + x.index[i] * p.stride + at, p.lanes - at, a);
        for (int n = 0; n < N; ++n) product[n] *= real(1) + a[n] * x.value[i];
    }
}

void all_subsets_cache(const Factors* p, const Sample* x, real* cache) {
    by_run(p->lanes, [&](ptrdiff_t at, auto run) {
        typename decltype(run)::Vector product[decltype(run)::count];
        multiply(*x, *p, at, -1, product);
        store_run(cache + at, product);
    });
}

// Call f(run, i, at, product, others) for each run of lanes and each sample i of the view. The run begins at lane `at`
// of the kernel; `product` is the cached product, and `others` the product without the visited row.
template <class F>
inline void without_factor(const ColumnView& v, const Csr* data, const Factors& p, F f) {
    by_run(v.lanes, [&](ptrdiff_t first, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        const ptrdiff_t at = v.at + first;
        V visited[N], others[N];
        for (int n = 0; n < N; ++n) visited[n] = load<V>(p.at + v.row * p.stride + at + n * width<V>);
        for (ptrdiff_t i = 0; i < v.n; ++i) {
            real* const product = cache_of(v, i) + at;
            bool small = false;
            for (int n = 0; n < N; ++n) {
                const V factor = real(1) + visited[n] * v.value[i];
                others[n] = load<V>(product + n * width<V>) / factor;
                small |= any_negative(magnitude(factor) - LEAST_FACTOR);
            }
            if (__builtin_expect(small, 0)) multiply(sample_of(data, v.sample[i]), p, at, v.row, others);
            f(run, i, at, product, others);
        }
    });
}

void all_subsets_score_gradient(const ColumnView* view, const Csr* data, const Factors* p, ptrdiff_t rank, real* q) {
    const ColumnView v = *view;
    without_factor(v, data, *p, [&](auto run, ptrdiff_t i, ptrdiff_t at, real*, auto& others) {
        for (int n = 0; n < decltype(run)::count; ++n) others[n] *= v.value[i];
        only(rank - at, others);
        store_run(q + i * v.apart + at - v.at, others);
    });
}

void all_subsets_update_cache(const ColumnView* view, const Csr* data, const Factors* p, const real* step) {
    const ColumnView v = *view;
    const real* const row = p->at + v.row * p->stride;
    without_factor(v, data, *p, [&](auto run, ptrdiff_t i, ptrdiff_t at, real* product, auto& others) {
        using V = typename decltype(run)::Vector;
        for (int n = 0; n < decltype(run)::count; ++n) {
            // Rounded like the factor by which the next visit divides the product.
            const V after = load<V>(row + at + n * width<V>) + load<V>(step + at - v.at + n * width<V>);
            others[n] *= real(1) + after * v.value[i];
        }
        store_run(product, others);
    });
}

}  // namespace
