// The kernels of linear scores, and of the pairs of a factorization machine.

#include "fmcli/base/columns.h"
#include "fmcli/models/arguments.h"
#include "fmcli/models/second_order/pairs.h"

namespace {

double linear(const Factors* weights, const Sample* x) { return linear_score(*weights, *x); }

void linear_gradient(const Sample* x, double slope, real* out) {
    const real s = (real)slope;
    for (ptrdiff_t i = 0; i < x->nnz; ++i) out[i] = s * x->value[i];
}

double second_order(const Factors* v, const Sample* x, const real* constant, const real* beta, real* sums) {
    return pairs(*v, *x, constant, beta, sums);
}

// How many samples ahead rows are prefetched.
constexpr ptrdiff_t SAMPLES_AHEAD = 3;

inline ptrdiff_t number_of(const int32_t* rows, ptrdiff_t i) { return rows ? rows[i] : i; }

// Always inlined, like prefetch_line.
inline __attribute__((always_inline)) void prefetch_rows(const Factors* factors, ptrdiff_t reals, const Sample& x) {
    for (ptrdiff_t i = 0; i < x.nnz; ++i) prefetch_reals(factors->at + x.index[i] * factors->stride, reals);
}

// Calls put(i, score) for the samples i = start .. stop - 1, or rows[i]; the sums of sample i are stored at sums_of(i).
template <class Sums, class Put>
inline __attribute__((always_inline)) void each_score(const Factors& v, const Factors& w, double bias, const Csr& csr,
                                                      const int32_t* rows, ptrdiff_t start, ptrdiff_t stop,
                                                      Sums sums_of, Put put) {
    // In arrays of their own, a row of one factor would be as long as its weight's, which lies elsewhere.
    const bool together = w.at && w.stride == v.stride && w.at >= v.at && w.at - v.at < v.stride;
    const ptrdiff_t reals = together ? w.at - v.at + 1 : v.lanes;
    for (ptrdiff_t i = start; i < stop; ++i) {
        if (i + SAMPLES_AHEAD < stop) {
            const Sample next = sample_of(&csr, number_of(rows, i + SAMPLES_AHEAD));
            prefetch_rows(&v, reals, next);
            if (w.at && !together) prefetch_rows(&w, 1, next);
        }
        const Sample x = sample_of(&csr, number_of(rows, i));
        double score = bias + pairs(v, x, nullptr, nullptr, sums_of(i));
        if (w.at) score += linear_score(w, x);
        put(i, score);
    }
}

void second_order_scores(const Factors* factors, const Factors* weights, double bias, const Csr* data,
                         const int32_t* rows, ptrdiff_t start, ptrdiff_t stop, real* sums, double* out,
                         ptrdiff_t apart) {
    each_score(
        *factors, *weights, bias, *data, rows, start, stop, [&](ptrdiff_t) { return sums; },
        [&](ptrdiff_t i, double score) { out[i * apart] = score; });
}

void second_order_states(const Factors* factors, const Factors* weights, double bias, const Csr* data, ptrdiff_t start,
                         ptrdiff_t stop, int output, const SampleStates* states) {
    const SampleStates to = *states;
    each_score(
        *factors, *weights, bias, *data, nullptr, start, stop,
        [&](ptrdiff_t i) { return cache_in(&to, i, output); },
        [&](ptrdiff_t i, double score) { scores_in(&to, i)[output] = score; });
}

// out[d] <- linear_score of draw d, by the same chains of additions.
inline __attribute__((always_inline)) void linear_scores(const Factors& weights, const Sample& x, double* out) {
    double sums[4][DRAWS_TOGETHER] = {};
    for (ptrdiff_t i = 0; i < x.nnz; ++i) {
        const real* w = weights.at + x.index[i] * weights.stride;
        for (int d = 0; d < DRAWS_TOGETHER; ++d) sums[i & 3][d] += (double)w[d] * x.value[i];
    }
    for (int d = 0; d < DRAWS_TOGETHER; ++d) out[d] = (sums[0][d] + sums[2][d]) + (sums[1][d] + sums[3][d]);
}

void second_order_draws(const Factors* factors, const Factors* weights, const double* bias, ptrdiff_t draws,
                        const Csr* data, const int32_t* rows, ptrdiff_t start, ptrdiff_t stop, double* out,
                        ptrdiff_t apart) {
    const Csr csr = *data;
    const Factors all = *factors, w = *weights;
    const ptrdiff_t reals = DRAWS_TOGETHER * (all.lanes + (w.at != nullptr));
    auto score = [&](auto pairs_of) __attribute__((always_inline)) {
        for (ptrdiff_t i = start; i < stop; ++i) {
            if (i + SAMPLES_AHEAD < stop)
                prefetch_rows(&all, reals, sample_of(&csr, number_of(rows, i + SAMPLES_AHEAD)));
            const Sample x = sample_of(&csr, number_of(rows, i));
            double linear[DRAWS_TOGETHER];
            if (w.at) linear_scores(w, x, linear);
            Factors v = all;
            for (ptrdiff_t d = 0; d < draws; ++d, v.at += v.lanes) {
                const double pairs = bias[d] + pairs_of(v, x);
                out[d * apart + i] = w.at ? pairs + linear[d] : pairs;
            }
        }
    };
    auto add_run = [](const Factors& v, const Sample& x, ptrdiff_t at, auto run, double& total)
                       __attribute__((always_inline)) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V all[N], value[N];
        pairs_of_run(v, x, nullptr, at, all, value);
        for (int n = 0; n < N; ++n) total += sum(value[n]);
    };
    if (all.lanes == width<Vec8>)  // the usual rank, without a loop over runs
        score([&](const Factors& v, const Sample& x) __attribute__((always_inline)) {
            double total = 0;
            add_run(v, x, 0, Run<Vec8, 1>{}, total);
            return total;
        });
    else
        score([&](const Factors& v, const Sample& x) __attribute__((always_inline)) {
            double total = 0;
            by_run(v.lanes, [&](ptrdiff_t at, auto run) __attribute__((always_inline)) { add_run(v, x, at, run, total); });
            return total;
        });
}

void second_order_gradient(const Factors* factors, const Sample* x, const real* sums, const real* beta, double slope,
                           real* out, ptrdiff_t apart) {
    const real* rows = factors->at;
    const ptrdiff_t stride = factors->stride;
    by_run(factors->lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V s[N], weights[N];
        for (int n = 0; n < N; ++n) {
            s[n] = load<V>(sums + at + n * width<V>);
            if (beta) weights[n] = load<V>(beta + at + n * width<V>);
        }
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            const real xi = x->value[i], scale = (real)slope * xi;
            const real* v = rows + x->index[i] * stride + at;
            for (int n = 0; n < N; ++n) {
                V g = pairs_derivative(s[n], load<V>(v + n * width<V>), xi, scale);
                if (beta) g *= weights[n];
                store(out + i * apart + at + n * width<V>, g);
            }
        }
    });
}

// Coordinate descent. A cache contains the sum of each factor and, from offset `values` on, each factor's kernel value.
void pairs_score_gradient(const ColumnView* view, const real* row, const real* beta, real* q) {
    const ColumnView v = *view;
    by_run(v.lanes, [&](ptrdiff_t at, auto run) __attribute__((always_inline)) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V factors[N], weights[N];
        for (int n = 0; n < N; ++n) {
            factors[n] = load<V>(row + v.at + at + n * width<V>);
            if (beta) weights[n] = load<V>(beta + v.at + at + n * width<V>);
        }
        for (ptrdiff_t i = 0; i < v.n; ++i) {
            const real x = v.value[i];
            const real* sums = cache_of(v, i) + v.at + at;
            for (int n = 0; n < N; ++n) {
                V d = pairs_derivative(load<V>(sums + n * width<V>), factors[n], x, x);
                if (beta) d *= weights[n];
                store(q + i * v.apart + at + n * width<V>, d);
            }
        }
    });
    for (ptrdiff_t i = 0; i < v.n; ++i) weight_derivative(v, i, q);
}

// The kernel value A^2 of a factor changes by its derivative times the step, and its sum changes by x times the step.
void pairs_update_cache(const ColumnView* view, const real* row, const real* step, ptrdiff_t values) {
    const ColumnView v = *view;
    by_run(v.lanes, [&](ptrdiff_t at, auto run) __attribute__((always_inline)) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V steps[N];
        for (int n = 0; n < N; ++n) steps[n] = load<V>(step + at + n * width<V>);
        for (ptrdiff_t i = 0; i < v.n; ++i) {
            const real x = v.value[i];
            real* sums = cache_of(v, i) + v.at + at;
            for (int n = 0; n < N; ++n, sums += width<V>) {
                const V s = load<V>(sums), a = steps[n] * x;
                if (values) {
                    const V factors = load<V>(row + v.at + at + n * width<V>);
                    store(sums + values, load<V>(sums + values) + pairs_derivative(s, factors, x, a));
                }
                store(sums, s + a);
            }
        }
    });
}

}  // namespace
