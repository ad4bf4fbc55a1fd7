// Linear scores, and the pairs of a factorization machine with their derivatives, for the kernels of models and the
// loops of solvers.
#ifndef FMCLI_PAIRS_H
#define FMCLI_PAIRS_H

#include "fmcli/base/runs.h"

namespace {

// A sample for which it is known at compile time whether all values are 1, which are then not read.
template <bool ONES>
struct KnownSample : Sample {};
inline float value_of(const Sample& x, ptrdiff_t i) { return x.value[i]; }
template <bool ONES>
inline float value_of(const KnownSample<ONES>& x, ptrdiff_t i) {
    return ONES ? 1 : x.value[i];
}

template <class X>
inline __attribute__((always_inline)) double linear_score(const Factors& weights, const X& x) {
    const real* w = weights.at;
    const ptrdiff_t stride = weights.stride, n = x.nnz;
    double sums[4] = {0, 0, 0, 0};  // four independent chains of additions instead of one
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; ++j) sums[j] += (double)w[x.index[i + j] * stride] * value_of(x, i + j);
    for (; i < n; ++i) sums[i & 3] += (double)w[x.index[i] * stride] * value_of(x, i);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The derivative of one factor's pairs by the parameter v of a feature with value x: x times the sum of v x over the
// other entries, which is the sum over all entries minus v x. `scale` is x, or x times a constant.
template <class V, class X, class Scale>
inline __attribute__((always_inline)) V pairs_derivative(V sum, V v, X x, Scale scale) {
    return scale * (sum - v * x);
}

// The factors of a run from `at` on: all <- the constant plus sum_j v_j x_j, value <- the pairs of each factor.
template <class V, int N, class X>
inline __attribute__((always_inline)) void pairs_of_run(const Factors& v, const X& x, const real* constant, ptrdiff_t at,
                                                        V (&all)[N], V (&value)[N]) {
    const real* rows = v.at;
    const ptrdiff_t stride = v.stride, lanes = v.lanes;
    V s[N] = {}, q[N] = {}, t[N] = {}, r[N] = {};  // two independent chains of additions: even and odd entries
    if (constant) {
        load_row(constant + at, lanes - at, s);
        for (int n = 0; n < N; ++n) q[n] = s[n] * s[n];
    }
    auto add = [&](ptrdiff_t i, V(&sum)[N], V(&squares)[N]) __attribute__((always_inline)) {
        const real xi = value_of(x, i);
        V v[N];
        load_row(rows + x.index[i] * stride + at, lanes - at, v);
        for (int n = 0; n < N; ++n) {
            V a = v[n] * xi;
            sum[n] += a;
            squares[n] += a * a;
        }
    };
    ptrdiff_t i = 0;
    for (; i + 2 <= x.nnz; i += 2) {
        add(i, s, q);
        add(i + 1, t, r);
    }
    if (i < x.nnz) add(i, s, q);
    for (int n = 0; n < N; ++n) {
        all[n] = s[n] + t[n];
        value[n] = real(0.5) * (all[n] * all[n] - (q[n] + r[n]));
    }
}

template <class X>
inline __attribute__((always_inline)) double pairs(const Factors& v, const X& x, const real* constant, const real* beta,
                                                   real* sums) {
    real* const values = sums + pad(v.lanes);
    double total = 0;
    by_run(v.lanes, [&](ptrdiff_t at, auto run) __attribute__((always_inline)) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V all[N], value[N], weights[N] = {};
        pairs_of_run(v, x, constant, at, all, value);
        if (beta) load_row(beta + at, v.lanes - at, weights);
        for (int n = 0; n < N; ++n) {
            store(sums + at + n * width<V>, all[n]);
            if (beta) {
                store(values + at + n * width<V>, value[n]);
                value[n] *= weights[n];
            }
            total += sum(value[n]);
        }
    });
    return total;
}

// The factors of a sample's entries in a field-aware model: row(i) + of(j) points to the factors of entry i for the
// field of entry j. Here they are computed: a feature's rows are of_feature reals apart, its rows for a field `apart`.
template <class Real>
struct FieldRows {
    Real* at;
    ptrdiff_t of_feature, apart;
    const Sample& x;

    inline Real* row(ptrdiff_t i) const { return at + x.index[i] * of_feature; }
    inline ptrdiff_t of(ptrdiff_t j) const { return x.field[j] * apart; }
};

// The same factors, listed once for the many loops over the entries of a sample.
struct ListedFieldRows {
    real** rows;
    ptrdiff_t* offsets;

    // The room has two words for each entry.
    ListedFieldRows(real* room, ptrdiff_t entries)
        : rows(reinterpret_cast<real**>(room)), offsets(reinterpret_cast<ptrdiff_t*>(rows + entries)) {}

    inline void list(const FieldRows<real>& computed) const {
        for (ptrdiff_t i = 0; i < computed.x.nnz; ++i) rows[i] = computed.row(i), offsets[i] = computed.of(i);
    }
    inline real* row(ptrdiff_t i) const { return rows[i]; }
    inline ptrdiff_t of(ptrdiff_t j) const { return offsets[j]; }
};

// The pairs of a field-aware model, for a sample in which no two entries share a field.
template <class Rows, class X>
inline __attribute__((always_inline)) double pairs_by_field(const Rows& rows, ptrdiff_t lanes, const X& x) {
    double total = 0;
    by_run(lanes, [&](ptrdiff_t at, auto run) __attribute__((always_inline)) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        for (ptrdiff_t i = 1; i < x.nnz; ++i) {
            const real* const of_entry = rows.row(i) + at;
            const ptrdiff_t of_field = rows.of(i) + at;
            const real xi = value_of(x, i);
            V products[2][N] = {};  // two independent chains of additions: even and odd entries
            auto add = [&](ptrdiff_t j, V(&sum)[N]) __attribute__((always_inline)) {
                V a[N], b[N];
                load_row(of_entry + rows.of(j), lanes - at, a);
                load_row(rows.row(j) + of_field, lanes - at, b);
                for (int n = 0; n < N; ++n) sum[n] += a[n] * xi * (b[n] * value_of(x, j));
            };
            ptrdiff_t j = 0;
            for (; j + 2 <= i; j += 2) {
                add(j, products[0]);
                add(j + 1, products[1]);
            }
            if (j < i) add(j, products[0]);
            for (int n = 0; n < N; ++n) total += sum(products[0][n] + products[1][n]);
        }
    });
    return total;
}

// The derivatives by the factors of the constant feature and by beta.
inline void structural_gradient(const real* sums, const real* constant, const real* beta, ptrdiff_t lanes, double slope,
                                real* of_constant, real* of_beta) {
    const real* const values = sums + pad(lanes);
    for (ptrdiff_t f = 0; f < lanes; ++f) {
        if (constant) {
            of_constant[f] = (real)(slope * (sums[f] - constant[f]));
            if (beta) of_constant[f] *= beta[f];
        }
        if (beta) of_beta[f] = (real)(slope * values[f]);
    }
}

}  // namespace

#endif
