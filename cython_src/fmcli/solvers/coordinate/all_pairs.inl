// Kernels of coordinate descent on observed pairs and all pairs of two parts (AllPairs). The state of a part has its own
// score t and, as its cache, its factors B. A feature of value x and factors v changes B by x dv, and t by x (B - x v) dv
// + x dw, or by x dw alone if the features of a part do not interact. If the products of factors have weights
// beta, which are fixed, beta B follows B in the cache. r and G are of derivatives without beta (PairUpdater.weigh).

#include "fmcli/base/runs.h"
#include "fmcli/solvers/coordinate/descent.inl"
#include "fmcli/solvers/coordinate/kernels.h"
#include "fmcli/solvers/coordinate/relation_rows.inl"

namespace {

typedef double Double4 __attribute__((vector_size(4 * sizeof(double))));


// How many pairs ahead the other part's state is prefetched.
constexpr ptrdiff_t PAIRS_AHEAD = 6;

// The scores of a part's pairs, by their places.
inline real* scores_of(const ObservedPairs& pairs, ptrdiff_t part) {
    return pairs.score - (pairs.begin[part] >= pairs.count ? pairs.count : 0);
}

inline __attribute__((always_inline)) void prefetch_part(const SampleStates& parts, ptrdiff_t i) {
    const char* const state = parts.at + i * parts.size;
    for (ptrdiff_t at = 0; at < parts.size; at += 64) __builtin_prefetch(state + at);
}

// A part's factors times beta.
inline const real* weighted_in(const ObservedPairs& pairs, ptrdiff_t part) {
    return cache_in(&pairs.parts, part, 0) + pairs.weighted;
}

// <a, b> of n reals, a multiple of LANES.
inline real product(const real* a, const real* b, ptrdiff_t n) {
    Vec8 first{}, second{};
    ptrdiff_t at = 0;
    for (; at + 16 <= n; at += 16) {
        first += load<Vec8>(a + at) * load<Vec8>(b + at);
        second += load<Vec8>(a + at + 8) * load<Vec8>(b + at + 8);
    }
    Vec4 sums = folded(first + second);
    for (; at < n; at += LANES) sums += load<Vec4>(a + at) * load<Vec4>(b + at);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// r and, on and above the diagonal, G of a slice: what the observed pairs of a feature's parts contribute. The first
// slice of a row computes the scores of these pairs, unless they are known.
void observed_pairs_bound(const ColumnView* view, const ObservedPairs* pairs, const real* row, real* room, double* r,
                          double* G) {
    const ColumnView& v = *view;
    const SampleStates& parts = pairs->parts;
    real *const slopes = room, *const shares = room + PAIRS_AT_ONCE, *const q = room + 2 * PAIRS_AT_ONCE;
    ptrdiff_t n = 0;
    const auto add = [&] {
        gram(q, v.apart, n, v.lanes + v.weight, slopes, shares, r, G);
        n = 0;
    };
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const ptrdiff_t part = v.sample[i], end = pairs->begin[part + 1];
        const real* const B = cache_in(&parts, part, 0);
        const real x = v.value[i], within = pairs->within ? x : 0;
        real* const score = scores_of(*pairs, part);
        for (ptrdiff_t e = pairs->begin[part], stop; e < end; e = stop) {
            stop = e + PAIRS_AT_ONCE - n < end ? e + PAIRS_AT_ONCE - n : end;
            const int32_t* const other = pairs->other + e;
            const ptrdiff_t count = stop - e;
            if (v.at == 0 && !pairs->known) {
                const double t = scores_in(&parts, part)[0];
                for (ptrdiff_t m = 0; m < count; ++m) {
                    if (e + m + PAIRS_AHEAD < end) prefetch_part(parts, other[m + PAIRS_AHEAD]);
                    score[e + m] = (real)(t + scores_in(&parts, other[m])[0]) +
                                   product(B + pairs->weighted, cache_in(&parts, other[m], 0), parts.reals);
                }
            }
            for (ptrdiff_t m = 0; m < count; ++m) {
                slopes[n + m] = pairs->share[e + m] * (score[e + m] - 1);
                shares[n + m] = pairs->share[e + m];
            }
            real* const first = q + n * v.apart;
            by_run(v.lanes, [&](ptrdiff_t at, auto run) __attribute__((always_inline)) {
                using V = typename decltype(run)::Vector;
                constexpr int N = decltype(run)::count;
                V own[N];  // the derivative without the other part
                for (int m = 0; m < N; ++m) {
                    const ptrdiff_t f = v.at + at + m * width<V>;
                    own[m] = within * (load<V>(B + f) - x * load<V>(row + f));
                }
                for (ptrdiff_t p = 0; p < count; ++p) {
                    const real* const factors = cache_in(&parts, other[p], 0) + v.at + at;
                    for (int m = 0; m < N; ++m)
                        store(first + p * v.apart + at + m * width<V>, own[m] + x * load<V>(factors + m * width<V>));
                }
            });
            if (v.weight)
                for (ptrdiff_t p = 0; p < count; ++p) first[p * v.apart + v.lanes] = x;
            n += count;
            if (n == PAIRS_AT_ONCE) add();
        }
    }
    if (n) add();
}

// A feature's parts and, if `scores`, the scores of their pairs take a step from `row`.
void parts_step(const ColumnView* view, const ObservedPairs* pairs, const real* row, const real* step, bool scores) {
    const ColumnView& v = *view;
    const real* const beta = pairs->beta ? pairs->beta + v.at : nullptr;
    real move[MOST_LANES];
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const ptrdiff_t part = v.sample[i];
        real *const score = scores_of(*pairs, part), *const B = cache_in(&pairs->parts, part, 0) + v.at;
        const real x = v.value[i];
        double change = v.weight ? (double)x * step[v.lanes] : 0;
        for (ptrdiff_t f = 0; f < v.lanes; ++f) {
            const real others = B[f] - x * row[v.at + f];
            move[f] = x * step[f];
            B[f] += move[f];
            if (beta) B[pairs->weighted + f] += move[f] *= beta[f];
            if (pairs->within) change += (double)others * move[f];
        }
        scores_in(&pairs->parts, part)[0] += change;
        if (!scores) continue;
        const real own = (real)change;
        for (ptrdiff_t e = pairs->begin[part]; e < pairs->begin[part + 1]; ++e) {
            const real* const factors = cache_in(&pairs->parts, pairs->other[e], 0) + v.at;
            score[e] += own + product(move, factors, v.lanes);
        }
    }
}

// The scores of the pairs of the contexts start .. stop - 1; returns their share of the mean loss.
double observed_pairs_loss(const ObservedPairs* pairs, ptrdiff_t start, ptrdiff_t stop) {
    const SampleStates& parts = pairs->parts;
    double total = 0;
    for (ptrdiff_t i = start; i < stop; ++i)
        for (ptrdiff_t e = pairs->begin[i]; e < pairs->begin[i + 1]; ++e) {
            const ptrdiff_t other = pairs->other[e];
            if (e + PAIRS_AHEAD < pairs->begin[i + 1]) prefetch_part(parts, pairs->other[e + PAIRS_AHEAD]);
            const double score = scores_in(&parts, i)[0] + scores_in(&parts, other)[0] +
                                 product(weighted_in(*pairs, i), cache_in(&parts, other, 0), parts.reals);
            pairs->score[e] = (real)score;
            total += pairs->share[e] / 2 * (1 - score) * (1 - score);
        }
    return total;
}

// The same for all pairs of a feature's parts: the parts of a side share the curvature K, and the slope of a part is
// K (beta B, t) + offset.
void all_pairs_bound(const ColumnView* view, const ObservedPairs* pairs, const real* row, const real* K,
                     const real* offset, double* r, double* G) {
    const ColumnView& v = *view;
    const SampleStates* const parts = &pairs->parts;
    const ptrdiff_t lanes = parts->reals, width = lanes + 1;
    const real* const of_weight = K + lanes * width;
    const double within = pairs->within;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const real *const B = cache_in(parts, v.sample[i], 0), *const weighted = B + pairs->weighted;
        const real t = (real)scores_in(parts, v.sample[i])[0];
        real slope[MOST_LANES];
        by_run(v.lanes, [&](ptrdiff_t at, auto run) __attribute__((always_inline)) {
            using V = typename decltype(run)::Vector;
            constexpr int N = decltype(run)::count;
            const real* const of = K + v.at + at;
            V sums[N], others[N] = {};
            for (int m = 0; m < N; ++m)
                sums[m] = load<V>(offset + v.at + at + m * ::width<V>) + t * load<V>(of_weight + v.at + at + m * ::width<V>);
            for (ptrdiff_t g = 0; g < lanes; g += 2)
                for (int m = 0; m < N; ++m) {
                    sums[m] += weighted[g] * load<V>(of + g * width + m * ::width<V>);
                    others[m] += weighted[g + 1] * load<V>(of + (g + 1) * width + m * ::width<V>);
                }
            for (int m = 0; m < N; ++m) store(slope + at + m * ::width<V>, sums[m] + others[m]);
        });
        const real own = offset[lanes] + t * of_weight[lanes] + product(weighted, of_weight, lanes);
        add_row_bound(v, RowQuadratic<real>{B, slope - v.at, own, K, within}, v.value[i], row, width, r, G);
    }
}

// The step to the minimum of <r, s> + s'Gs/2 plus the l2 penalty of phi + s; G is read on and above the diagonal. False,
// without a step, if there is an l1 penalty.
bool exact_step(ptrdiff_t width, const double* r, const double* G, const double* phi, const ExactStrength* strength,
                double* step) {
    constexpr ptrdiff_t VECTORS = MOST_LANES / 4 + 1;
    constexpr double LEAST_SHARE = 1e-9;  // of a coordinate's curvature: less is rounding
    Double4 rows[4 * VECTORS][VECTORS] = {};  // of the system, on and above the diagonal, with zeros behind `width`
    const auto row = [&](ptrdiff_t f) { return reinterpret_cast<double*>(rows[f]); };
    double inverse[4 * VECTORS] = {};  // of the diagonal; 0 where the coordinates before determine one
    for (ptrdiff_t f = 0; f < width; ++f) {
        if (strength[f].l1 > 0) return false;
        for (ptrdiff_t g = f; g < width; ++g) row(f)[g] = G[f * width + g];
        row(f)[f] += strength[f].l2;
        inverse[f] = LEAST_SHARE * row(f)[f];
        step[f] = -r[f] - strength[f].l2 * phi[f];
    }
    for (ptrdiff_t f = 0; f < width; ++f) {  // eliminate f
        inverse[f] = row(f)[f] > inverse[f] ? 1 / row(f)[f] : 0;
        for (ptrdiff_t g = f + 1; g < width; ++g) {
            const double share = row(f)[g] * inverse[f];
            step[g] -= share * step[f];
            for (ptrdiff_t h = g / 4; 4 * h < width; ++h) rows[g][h] -= share * rows[f][h];
        }
    }
    for (ptrdiff_t f = width - 1; f >= 0; --f) {
        step[f] *= inverse[f];
        for (ptrdiff_t g = 0; g < f; ++g) step[g] -= row(g)[f] * step[f];
    }
    return true;
}

}  // namespace
