// Kernels of coordinate descent on observed pairs and all pairs of two parts (AllPairs). The state of a part has its own
// score t and, as its cache, its factors B. A feature of value x and factors v changes B by x dv, and t by x (B - x v) dv
// + x dw.

#include "fmcli/base/vector.h"
#include "fmcli/solvers/coordinate/descent.inl"
#include "fmcli/solvers/coordinate/kernels.h"
#include "fmcli/solvers/coordinate/relation_rows.inl"

namespace {

// How many pairs ahead the other part's state is prefetched.
constexpr ptrdiff_t PAIRS_AHEAD = 6;

// The scores of a part's pairs, by their places.
inline real* scores_of(const ObservedPairs& pairs, ptrdiff_t part) {
    return pairs.score - (pairs.begin[part] >= pairs.count ? pairs.count : 0);
}

inline void prefetch_part(const SampleStates& parts, ptrdiff_t i) {
    const char* const state = parts.at + i * parts.size;
    for (ptrdiff_t at = 0; at < parts.size; at += 64) __builtin_prefetch(state + at);
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
// slice of a row computes the scores of these pairs.
void observed_pairs_bound(const ColumnView* view, const ObservedPairs* pairs, const real* row, real* room, double* r,
                          double* G) {
    const ColumnView& v = *view;
    const SampleStates& parts = pairs->parts;
    const ptrdiff_t lanes = v.lanes, size = lanes + v.weight;
    real* const q = room + 2 * PAIRS_AT_ONCE;
    real *const slopes = room, *const shares = room + PAIRS_AT_ONCE;
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const ptrdiff_t part = v.sample[i], end = pairs->begin[part + 1];
        const real x = v.value[i];
        const real* const B = cache_in(&parts, part, 0);
        real* const score = scores_of(*pairs, part);
        const double t = scores_in(&parts, part)[0];
        real others[MOST_LANES];  // of the part: x (B - x v)
        for (ptrdiff_t f = 0; f < lanes; ++f) others[f] = x * (B[v.at + f] - x * row[v.at + f]);
        for (ptrdiff_t e = pairs->begin[part]; e < end; ++e) {
            const real* const factors = cache_in(&parts, pairs->other[e], 0);
            if (v.at == 0) {
                if (e + PAIRS_AHEAD < end) prefetch_part(parts, pairs->other[e + PAIRS_AHEAD]);
                score[e] = (real)(t + scores_in(&parts, pairs->other[e])[0]) + product(B, factors, parts.reals);
            }
            slopes[n] = pairs->share[e] * (score[e] - 1);
            shares[n] = pairs->share[e];
            real* const to = q + n * v.apart;
            for (ptrdiff_t f = 0; f < lanes; f += LANES)
                store(to + f, load<Vec4>(others + f) + x * load<Vec4>(factors + v.at + f));
            if (v.weight) to[lanes] = x;
            if (++n == PAIRS_AT_ONCE) {
                gram(q, v.apart, n, size, slopes, shares, r, G);
                n = 0;
            }
        }
    }
    if (n) gram(q, v.apart, n, size, slopes, shares, r, G);
}

// The scores of the pairs of a feature's parts take a step; change[i] is that of the i-th part's own score.
void observed_pairs_step(const ColumnView* view, const ObservedPairs* pairs, const real* step, const double* change) {
    const ColumnView& v = *view;
    real move[MOST_LANES];
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const ptrdiff_t part = v.sample[i];
        real* const score = scores_of(*pairs, part);
        const real own = (real)change[i];
        for (ptrdiff_t f = 0; f < v.lanes; ++f) move[f] = v.value[i] * step[f];
        for (ptrdiff_t e = pairs->begin[part]; e < pairs->begin[part + 1]; ++e) {
            const real* const factors = cache_in(&pairs->parts, pairs->other[e], 0) + v.at;
            score[e] += own + product(move, factors, v.lanes);
        }
    }
}

// The observed pairs' share of the mean loss, of the parts start .. stop - 1 of one side.
double observed_pairs_loss(const ObservedPairs* pairs, ptrdiff_t start, ptrdiff_t stop) {
    const SampleStates& parts = pairs->parts;
    double total = 0;
    for (ptrdiff_t i = start; i < stop; ++i)
        for (ptrdiff_t e = pairs->begin[i]; e < pairs->begin[i + 1]; ++e) {
            const ptrdiff_t other = pairs->other[e];
            if (e + PAIRS_AHEAD < pairs->begin[i + 1]) prefetch_part(parts, pairs->other[e + PAIRS_AHEAD]);
            const double score = scores_in(&parts, i)[0] + scores_in(&parts, other)[0] +
                                 product(cache_in(&parts, i, 0), cache_in(&parts, other, 0), parts.reals);
            total += pairs->share[e] / 2 * (1 - score) * (1 - score);
        }
    return total;
}

// The same for all pairs of a feature's parts: the parts of a side share the curvature K, and the slope of a part is
// K (B, t) + offset. `room` (2 width) is work space.
void all_pairs_bound(const ColumnView* view, const SampleStates* parts, const real* row, const double* K,
                     const double* offset, double* room, double* r, double* G) {
    const ColumnView& v = *view;
    const ptrdiff_t width = parts->reals + 1;
    double *const now = room, *const slope = room + width;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const real* const B = cache_in(parts, v.sample[i], 0);
        for (ptrdiff_t f = 0; f < width - 1; ++f) now[f] = B[f];
        now[width - 1] = scores_in(parts, v.sample[i])[0];
        const auto fill = [&](ptrdiff_t f) {
            const double* const of = K + f * width;
            double sums[4] = {};
            ptrdiff_t g = 0;
            for (; g + 4 <= width; g += 4)
                for (int lane = 0; lane < 4; ++lane) sums[lane] += of[g + lane] * now[g + lane];
            for (; g < width; ++g) sums[0] += of[g] * now[g];
            slope[f] = offset[f] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        };
        for (ptrdiff_t f = v.at; f < v.at + v.lanes; ++f) fill(f);
        fill(width - 1);
        add_row_bound(v, {now, slope, K}, v.value[i], row, width, r, G);
    }
}

}  // namespace
