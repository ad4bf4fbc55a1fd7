// Lifted ANOVA kernels by columns: a row's share is taken out of a sample's sums a[T] over sets T of vectors.
//
// Without entry j, b[T] = a[T] - sum over t in T of c_t b[T without t], smaller sets first, and the derivative by c_t is b[all
// but t]. Digits go as they do in columns_anova.inl: b[T] is wrong by up to a number's rounding times A[T] = sum over t in T
// of |c_t| (A[T without t] + |b[T without t]|), and where that is much larger than what derivatives are made of, the b[T] are
// summed anew from the other entries.

#include "fmcli/kernels/kernels.h"
#include "fmcli/base/runs.h"

namespace {

// b[T] <- sums without products c, from all entries' sums, `apart` from each other, for all sets but that of all vectors;
// whether too many digits are lost.
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

// a[T] <- some lanes of the sums over all entries but the i-th, the constants counting first; -1 leaves out none.
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

// Where a feature's entry is among all, the constants counting first.
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

// f(i, place, a, c, b, anew) for samples i of the visit and runs of lanes of which some vector moves, as wide as V: vector
// t's are at place[t] of the visit's, or place[t] is -1; a are the cached sums, c the row's products, b the sums without
// them; where they are made `anew`, so is that of all vectors.
template <int M, class V, class F>
inline void without_row(const Visit& v, const Csr* data, const Lifted* l, bool constant, F f) {
    const Factors* const rows = constant ? l->gamma : l->u;
    const ptrdiff_t lanes = rows[0].lanes;
    for (ptrdiff_t at = 0; at < lanes; at += width<V>) {
        ptrdiff_t place[M];
        bool moves = false;
        V own[M], c[M], b[1 << M];
        for (int t = 0; t < M; ++t) {
            place[t] = t * lanes + at - v.at;
            if (place[t] >= v.lanes) place[t] = -1;
            moves |= place[t] >= 0;
            own[t] = load<V>(rows[t].at + v.row * rows[t].stride + at);
        }
        for (ptrdiff_t i = 0; moves && i < v.n; ++i) {
            real* const a = cache_of(v, i) + at;
            for (int t = 0; t < M; ++t) c[t] = own[t] * v.value[i];
            const bool anew = take_out<M>(a, lanes, c, b);
            if (__builtin_expect(anew, 0)) {
                const Sample x = sample_of(data, v.sample[i]);
                sum_up<M>(l, x, at, constant ? v.row : place_of(l, x, v.row), b);
            }
            f(i, place, a, c, b, anew);
        }
    }
}

// f(Order<m>, V) with the widest vectors that no slice of the row cuts.
template <class F>
inline void by_width(const Visit& v, const Lifted* l, F f) {
    by_order(l->order, [&](auto order) {
        if (l->u[0].lanes % width<Vec8> || v.at % width<Vec8> || v.lanes % width<Vec8>)
            f(order, Vec4{});
        else
            f(order, Vec8{});
    });
}

void lifted_partials(const Visit* visit, const Csr* data, const Lifted* l, int constant, real* q) {
    const Visit v = *visit;
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

void lifted_moved(const Visit* visit, const Csr* data, const Lifted* l, int constant, const real* step) {
    const Visit v = *visit;
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
