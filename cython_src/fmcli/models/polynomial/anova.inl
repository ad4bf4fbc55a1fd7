// ANOVA kernels of any order, and the all-subsets kernel, vectorized over factors.
//
// With a_j = p_j x_j, A^t is the elementary symmetric polynomial e_t(a). The forward pass over the entries computes
// e_t <- e_t + a_j e_{t-1} ([HO] Algorithm 1). The backward pass keeps l_t = d score / d e_t; the derivative by a_j is
// the sum over t of l_t e_{t-1}, with e_{t-1} of the entries before j ([HO] Algorithm 2). The alternative,
// e_t(without j) = e_t - a_j e_{t-1}(without j), would need no table of prefixes. But from order 3 on, if one |a_j| is
// a thousand times the others, it loses the precision of a float.
#ifndef FMCLI_ANOVA_INL
#define FMCLI_ANOVA_INL

#include "fmcli/base/runs.h"
#include "fmcli/models/polynomial/kernels.h"

namespace {

// Set all but the first `left` lanes of a run of vectors, its padding, to 0.
template <class V, int N>
inline void only(ptrdiff_t left, V (&v)[N]) {
    if (left >= N * width<V>) return;
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < width<V>; ++i)
            if (n * width<V> + i >= left) v[n][i] = 0;
}

template <class V, int N>
inline void store_run(real* p, const V (&v)[N]) {
    for (int n = 0; n < N; ++n) store(p + n * width<V>, v[n]);
}

// The number of reals of work memory per factor: e_1 .. e_m of all entries and, for each entry, e_1 .. e_{m-1} of the
// entries before it.
inline ptrdiff_t anova_column(const Anova& k, const Sample* x) {
    return k.order + (k.constants + x->nnz) * (k.order - 1);
}

// M is the order if it is known at compile time, else 0.
template <int M>
constexpr int most_degrees = M ? M : MAX_ORDER;

// Add an entry to the sums e_1 .. e_m; e[t - 1] has degree t.
template <int D, class V, int N>
inline __attribute__((always_inline)) void take_in(V (&e)[D][N], const V (&a)[N], int m) {
    for (int n = 0; n < N; ++n) {
        for (int t = m - 1; t > 0; --t) e[t][n] += a[n] * e[t - 1][n];
        e[0][n] += a[n];
    }
}

template <int M>
double anova_of(const Factors* factors, const Sample* x, const Anova& k, real* work) {
    const int m = M ? M : k.order;
    const real* const rows = factors->at;
    const ptrdiff_t stride = factors->stride, lanes = factors->lanes, column = anova_column(k, x);
    double total = 0;
    by_run(k.rank, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        constexpr ptrdiff_t size = N * width<V>;
        real* const all = work + at * column;
        real* before = all + m * size;
        V e[most_degrees<M>][N], a[N];  // only the first m are used and set to zero
        for (int t = 0; t < m; ++t)
            for (int n = 0; n < N; ++n) e[t][n] = V{};
        auto enter = [&]() __attribute__((always_inline)) {
            for (int t = 0; t < m - 1; ++t) store_run(before + t * size, e[t]);
            before += (m - 1) * size;
            take_in(e, a, m);
        };
        for (ptrdiff_t i = 0; i < k.constants; ++i) {
            load_row(k.gamma + i * k.gamma_stride + at, lanes - at, a);
            enter();
        }
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            load_row(rows + x->index[i] * stride + at, lanes - at, a);
            for (int n = 0; n < N; ++n) a[n] *= x->value[i];
            enter();
        }
        for (int t = 0; t < m; ++t) store_run(all + t * size, e[t]);
        V beta[N] = {};
        if (k.beta) load_row(k.beta + at, lanes - at, beta);
        for (int n = 0; n < N; ++n) {
            V value = e[m - 1][n];
            if (k.theta) {
                value *= k.theta[m - 1];
                for (int t = 0; t < m - 1; ++t) value += k.theta[t] * e[t][n];
            }
            total += sum(k.beta ? value * beta[n] : value);
        }
    });
    return total;
}

template <int M>
void anova_gradient_of(const Factors* factors, const Sample* x, const Anova& k, const real* work, double slope,
                       const AnovaGradient& out) {
    const int m = M ? M : k.order;
    const real* const rows = factors->at;
    const ptrdiff_t stride = factors->stride, column = anova_column(k, x);
    double of_theta[MAX_ORDER] = {};
    by_run(k.rank, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        constexpr ptrdiff_t size = N * width<V>;
        const real* const all = work + at * column;
        const real* before = all + column * size;
        V l[most_degrees<M>][N], a[N], seed[N];
        for (int n = 0; n < N; ++n) {
            seed[n] = (real)slope - V{};
            if (k.beta) seed[n] *= load<V>(k.beta + at + n * width<V>);
        }
        only(k.rank - at, seed);
        for (int n = 0; n < N; ++n)
            for (int t = 0; t < m; ++t)
                l[t][n] = k.theta ? k.theta[t] * seed[n] : t == m - 1 ? seed[n] : V{};
        if (out.beta)
            for (int n = 0; n < N; ++n)
                store(out.beta + at + n * width<V>, (real)slope * load<V>(all + (m - 1) * size + n * width<V>));
        if (out.theta)
            for (int t = 0; t < m; ++t)
                for (int n = 0; n < N; ++n) of_theta[t] += sum(seed[n] * load<V>(all + t * size + n * width<V>));
        // g <- the derivative by a; then l <- the derivatives by the sums of the entries before a.
        auto leave = [&](V(&g)[N]) __attribute__((always_inline)) {
            before -= (m - 1) * size;
            for (int n = 0; n < N; ++n) {
                g[n] = l[0][n];
                for (int t = 1; t < m; ++t) {
                    g[n] += l[t][n] * load<V>(before + (t - 1) * size + n * width<V>);
                    l[t - 1][n] += a[n] * l[t][n];
                }
            }
        };
        V g[N];
        for (ptrdiff_t i = x->nnz - 1; i >= 0; --i) {
            const real xi = x->value[i];
            const real* p = rows + x->index[i] * stride + at;
            for (int n = 0; n < N; ++n) a[n] = load<V>(p + n * width<V>) * xi;
            leave(g);
            for (int n = 0; n < N; ++n) g[n] *= xi;
            store_run(out.body + i * out.apart + at, g);
        }
        for (ptrdiff_t i = k.constants - 1; i >= 0; --i) {
            for (int n = 0; n < N; ++n) a[n] = load<V>(k.gamma + i * k.gamma_stride + at + n * width<V>);
            leave(g);
            store_run(out.gamma + i * pad(k.rank) + at, g);
        }
    });
    if (out.theta)
        for (int t = 0; t < pad(m); ++t) out.theta[t] = t < m ? (real)of_theta[t] : 0;
}

// Call f(Order<m>) if the kernels are compiled for order m, else f(Order<0>).
template <class F>
inline void by_degree(int order, F f) {
    switch (order) {
        case 2: return f(Order<2>{});
        case 3: return f(Order<3>{});
        case 4: return f(Order<4>{});
        case 5: return f(Order<5>{});
        case 6: return f(Order<6>{});
        case 7: return f(Order<7>{});
        case 8: return f(Order<8>{});
        default: return f(Order<0>{});
    }
}

double anova(const Factors* factors, const Sample* x, const Anova* k, real* work) {
    double total = 0;
    by_degree(k->order, [&](auto order) { total = anova_of<decltype(order)::value>(factors, x, *k, work); });
    return total;
}

void anova_gradient(const Factors* factors, const Sample* x, const Anova* k, const real* work, double slope,
                    const AnovaGradient* out) {
    by_degree(k->order, [&](auto order) {
        anova_gradient_of<decltype(order)::value>(factors, x, *k, work, slope, *out);
    });
}

// The derivative by one factor of the product is the product of all other factors: the product of the earlier ones,
// stored by `score`, times the product of the later ones. Dividing the whole product by a factor near 0 would fail.
double all_subsets(const Factors* factors, const Sample* x, ptrdiff_t rank, real* work) {
    const real* const rows = factors->at;
    const ptrdiff_t stride = factors->stride, lanes = factors->lanes;
    double total = 0;
    by_run(rank, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        real* const before = work + at * x->nnz;
        V product[N], a[N];
        for (int n = 0; n < N; ++n) product[n] = real(1) - V{};
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            load_row(rows + x->index[i] * stride + at, lanes - at, a);
            store_run(before + i * N * width<V>, product);
            for (int n = 0; n < N; ++n) product[n] *= real(1) + a[n] * x->value[i];
        }
        only(rank - at, product);
        for (int n = 0; n < N; ++n) total += sum(product[n]);
    });
    return total;
}

void all_subsets_gradient(const Factors* factors, const Sample* x, ptrdiff_t rank, const real* work, double slope,
                          real* out, ptrdiff_t apart) {
    const real* const rows = factors->at;
    const ptrdiff_t stride = factors->stride;
    by_run(rank, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        const real* const before = work + at * x->nnz;
        V behind[N];
        for (int n = 0; n < N; ++n) behind[n] = (real)slope - V{};
        only(rank - at, behind);
        for (ptrdiff_t i = x->nnz - 1; i >= 0; --i) {
            const real xi = x->value[i];
            const real* p = rows + x->index[i] * stride + at;
            for (int n = 0; n < N; ++n) {
                const ptrdiff_t lane = n * width<V>;
                store(out + i * apart + at + lane, xi * load<V>(before + i * N * width<V> + lane) * behind[n]);
                behind[n] *= real(1) + load<V>(p + lane) * xi;
            }
        }
    });
}

}  // namespace

#endif
