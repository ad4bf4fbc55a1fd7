// Steps of rows under a group penalty: the prox in the metric of their curvatures h. It has two steps: l1 and l2, which
// give the coefficients c and curvatures d of elementwise.h, and then the group penalty. The second step has no closed
// form. It waits for roots and divisions, one after another, so four or eight rows are completed side by side. The bits
// of a row do not depend on the rows beside it.
#ifndef FMCLI_GROUP_STEPS_H
#define FMCLI_GROUP_STEPS_H

#include "fmcli/penalties/group_penalties.h"
#include "fmcli/solvers/stochastic/row_vectors.h"
#include "fmcli/solvers/stochastic/update_rules.h"

namespace {

// What the group norm needs of a body: the sums of c^2, of c^2 d and of the squares of the parameters before the step,
// each in four parts; and the smallest d.
struct BodySums {
    Vec4 squares = {}, weighted = {}, before = {}, lowest = real(1e30) - Vec4{};

    template <class V>
    inline __attribute__((always_inline)) void add(V phi, V c, V d) {
        squares += folded(c * c);
        weighted += folded(c * c * d);
        before += folded(phi * phi);
        lowest = smaller(lowest, smallest(d));
    }
};

constexpr int SIDE_BY_SIDE = width<Vec4>;

// Up to four rows (N) between the two steps. Bodies contain c, and their d is in the block's `room`. The c and d of the
// weights are here, with the weights before the step. With PARTIAL, only some groups of factors are updated.
template <int N, bool PARTIAL>
struct ReducedRows {
    const Block& b;
    ptrdiff_t row[N];
    const uint8_t* marks[N];  // with PARTIAL: marks of the updated groups of factors, or NULL for all
    Vec4 group;               // the strength of the penalty; 1 where there is no row
    Vec4 c = {}, d, before = {};
    BodySums sums[SIDE_BY_SIDE];

    inline explicit ReducedRows(const Block& block) : b(block), group(1 + Vec4{}), d(1 + Vec4{}) {}
    inline real* curvatures(int r) const { return reinterpret_cast<real*>(b.room) + r * b.lanes; }
    inline const uint8_t* touched(int r) const { return PARTIAL ? marks[r] : nullptr; }

    // Calls f(c, d) for each vector of the r-th row's body.
    template <class F>
    inline __attribute__((always_inline)) void each_reduced(int r, F f) const {
        each_touched(b, row[r], touched(r), [&](auto v, real* p, ptrdiff_t at) __attribute__((always_inline)) {
            using V = decltype(v);
            f(load<V>(p), load<V>(curvatures(r) + at));
        });
    }

    // Sets the rows to f(r, c, d); r is a vector of 0, 1, 2, 3 for weights.
    template <class OfBody, class OfWeights>
    inline __attribute__((always_inline)) void set(OfBody of_body, OfWeights of_weights) const {
        for (int r = 0; r < N; ++r)
            each_touched(b, row[r], touched(r), [&](auto v, real* p, ptrdiff_t at) __attribute__((always_inline)) {
                using V = decltype(v);
                store(p, of_body(r, load<V>(p), load<V>(curvatures(r) + at)));
            });
        if (b.weight) {
            const Vec4 w = of_weights(c, d);
            for (int r = 0; r < N; ++r) b.weight[row[r] * b.weight_stride] = w[r];
        }
    }
};

// Combines four parts of each row by f: f(f(0, 2), f(1, 3)).
template <class F>
inline __attribute__((always_inline)) Vec4 across(const Vec4 (&v)[4], F f) {
    const Vec4 first = f(alternating_low(v[0], v[1]), alternating_high(v[0], v[1]));
    const Vec4 second = f(alternating_low(v[2], v[3]), alternating_high(v[2], v[3]));
    return f(lows(first, second), highs(first, second));
}

inline __attribute__((always_inline)) Vec4 sums_across(const Vec4 (&v)[4]) {
    return across(v, [](Vec4 a, Vec4 b) { return a + b; });
}

// The relative error of parameters after a prox, for group_norm.
constexpr real PRECISION = sizeof(real) == sizeof(float) ? 1e-8 : 1e-16;

// Completes the prox of rows under the group norm: v = c / (d + l_g / |v|). Not inlined: it does not depend on the rule
// or on the type of the gradient, and would otherwise be compiled for each of them.
template <int N, bool PARTIAL>
__attribute__((noinline)) void finish_rows(GroupNorm, const ReducedRows<N, PARTIAL>& rows) {
    Vec4 sums[4][4], fixed = {};
    for (int r = 0; r < 4; ++r) {
        const BodySums& of = rows.sums[r];
        sums[0][r] = of.squares, sums[1][r] = of.weighted, sums[2][r] = of.before, sums[3][r] = of.lowest;
    }
    for (int r = 0; r < N; ++r) {
        Vec4 untouched = {};
        each_untouched(rows.b, rows.row[r], rows.touched(r), [&](Vec4 v) { untouched += v * v; });
        fixed[r] = (real)sum(untouched);
    }
    const bool weights = rows.b.weight;
    const Vec4 c = rows.c, d = rows.d, group = rows.group, squares = sums_across(sums[0]) + c * c;
    const Vec4 weighted = sums_across(sums[1]) + c * c * d, before = sums_across(sums[2]) + rows.before * rows.before;
    Vec4 lowest = across(sums[3], [](Vec4 a, Vec4 b) { return smaller(a, b); });
    if (weights) lowest = smaller(lowest, d);
    const Vec4 norm = group_norm(squares, weighted, lowest, fixed, group, root(before + fixed),
                                 PRECISION - Vec4{},
                                 [&](Vec4 nu, Vec4& s2, Vec4& s3) __attribute__((always_inline)) {
        Vec4 square[4] = {}, slope[4] = {};
        for (int r = 0; r < N; ++r) {
            const real nu_r = nu[r], group_r = group[r];
            rows.each_reduced(r, [&](auto c, auto d) __attribute__((always_inline)) {
                const auto inverse = 1 / (d * nu_r + group_r), ratio = c * inverse;
                square[r] += folded(ratio * ratio);
                slope[r] += folded(ratio * ratio * d * inverse);
            });
        }
        s2 = sums_across(square);
        s3 = sums_across(slope);
        if (weights) {
            const Vec4 inverse = 1 / (d * nu + group), ratio = c * inverse;
            s2 += ratio * ratio;
            s3 += ratio * ratio * d * inverse;
        }
    });
    // If the norm is 0, everything is 0; adding 0 turns -0 into 0.
    rows.set([&](int r, auto c, auto d) { return c * norm[r] / (d * norm[r] + group[r]) + 0; },
             [&](Vec4 c, Vec4 d) { return c * norm / (d * norm + group) + 0; });
}

// Completes the prox of rows under any other group penalty, with the penalty's prox for doubles.
template <class Penalty, int N, bool PARTIAL>
inline void finish_rows(Penalty penalty, const ReducedRows<N, PARTIAL>& rows) {
    double* const c = rows.b.room + SIDE_BY_SIDE * rows.b.lanes;
    double* const d = c + rows.b.lanes + 1;
    auto each = [&](int r, auto f) { each_touched(rows.b, rows.row[r], rows.touched(r), f); };
    for (int r = 0; r < N; ++r) {
        ptrdiff_t n = 0;
        double rest = 0;
        each_untouched(rows.b, rows.row[r], rows.touched(r), [&](Vec4 v) {
            for (int i = 0; i < LANES; ++i) rest = penalty.add(rest, v[i]);
        });
        each(r, [&](auto v, real* p, ptrdiff_t at) {
            for (int i = 0; i < width<decltype(v)>; ++i, ++n) {
                c[n] = p[i];
                d[n] = rows.curvatures(r)[at + i];
            }
        });
        if (rows.b.weight) {
            c[n] = rows.c[r];
            d[n++] = rows.d[r];
        }
        penalty.prox(c, d, n, rest, rows.group[r], c);
        if (rows.b.weight) rows.b.weight[rows.row[r] * rows.b.weight_stride] = (real)c[--n];
        n = 0;
        each(r, [&](auto v, real* p, ptrdiff_t) {
            for (int i = 0; i < width<decltype(v)>; ++i, ++n) p[i] = (real)c[n];
        });
    }
}

// Completes the prox of rows under the active group penalty, or without one.
template <int N, bool PARTIAL>
inline __attribute__((always_inline)) void finish_rows(const PenaltyStrength& s, const ReducedRows<N, PARTIAL>& rows) {
    if (s.group > 0)
        GroupPenalties::with(s.group_penalty, [&](auto penalty) __attribute__((always_inline)) {
            finish_rows(penalty, rows);
        });
    else
        rows.set([](int, auto c, auto d) { return c / d; }, [](Vec4 c, Vec4 d) { return c / d; });
}

// The strength of the group penalty on the rows of a block, the same for bodies and weights.
template <class Rule>
inline PenaltyStrength on_rows(const Block& b, const Rule& body, const Rule& weight) {
    return (b.body ? body : weight).strength;
}

// For `step_by_row`: all parameters of each row are updated.
struct AllTouched {
    inline const uint8_t* operator()(ptrdiff_t) const { return nullptr; }
};
template <class Touched>
constexpr bool partial = true;
template <>
constexpr bool partial<AllTouched> = false;

// Replaces a row's body by c = of_body(phi, state, d, i, at), which sets d and may change phi. Not inlined: the loops
// below would contain it once for each of several rows.
template <int SLOTS, class OfBody>
__attribute__((noinline)) void reduce_body(const Block& b, ptrdiff_t row, const uint8_t* touched, real* curvatures,
                                           BodySums& sums, ptrdiff_t i, OfBody of_body) {
    each_touched(b, row, touched, [&](auto v, real* p, ptrdiff_t at) __attribute__((always_inline)) {
        using V = decltype(v);
        V phi = load<V>(p), d, state[SLOTS + 1];
        for (int j = 0; j < SLOTS; ++j) state[j] = load<V>(p + (j + 1) * b.lanes);
        const V c = of_body(phi, state, d, i, at);
        for (int j = 0; j < SLOTS; ++j) store(p + (j + 1) * b.lanes, state[j]);
        sums.add(phi, c, d);
        store(curvatures + at, d);
        store(p, c);
    });
}

// A step of rows i .. i + N - 1 of the rows that `step_by_row` below describes.
template <int N, int SLOTS, class Row, class Touched, class Group, class OfBody, class OfWeights>
inline __attribute__((always_inline)) void step_by_row(const Block& b, ptrdiff_t i, Row row, Touched touched,
                                                       const PenaltyStrength& strength, Group group, OfBody of_body,
                                                       OfWeights of_weights) {
    ReducedRows<N, partial<Touched>> rows(b);
    for (int r = 0; r < N; ++r) {
        rows.row[r] = row(i + r), rows.group[r] = group(i + r);
        rows.marks[r] = touched(i + r);
        reduce_body<SLOTS>(b, rows.row[r], rows.touched(r), rows.curvatures(r), rows.sums[r], i + r, of_body);
    }
    if (b.weight)
        some_weights<Vec4, SLOTS>(b, i, i + N, row, [&](Vec4& phi, Vec4* state, auto at) __attribute__((always_inline)) {
            rows.c = of_weights(phi, state, rows.d, at);
            rows.before = phi;
        });
    if (N == 1) rows.c = Vec4{rows.c[0]};
    finish_rows(strength, rows);
}

// The numbers of eight rows with bodies of eight: a vector with a lane per row for each place in the body, and one for
// the weights.
struct EightRows {
    Vec8 number[9] = {};

    // f(k) over a row's places k, summed in the order of sums_across: the results are the same.
    template <class F>
    static inline __attribute__((always_inline)) Vec8 sum(F f) {
        return (((f(0) + f(4)) + (f(2) + f(6))) + ((f(1) + f(5)) + (f(3) + f(7)))) + f(8);
    }
};

// A step of rows i .. i + 7 of the rows that `step_by_row` below describes, under the group norm, with the same bits.
// With machine vectors of eight numbers, it takes two thirds of the time: there are no shuffles between roots and
// divisions.
template <int SLOTS, class Row, class Group, class OfBody, class OfWeights>
inline __attribute__((always_inline)) void step_of_eight(const Block& b, ptrdiff_t i, Row row, Group group, OfBody of_body,
                                                         OfWeights of_weights) {
    EightRows phi, c, d;
    for (Vec8& one : d.number) one += 1;
    Vec8 strength = 1 + Vec8{};
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) {
        real* const p = b.body + row(i + r) * b.body_stride;
        Vec8 state[SLOTS + 1];
        phi.number[r] = load<Vec8>(p);
        for (int j = 0; j < SLOTS; ++j) state[j] = load<Vec8>(p + (j + 1) * 8);
        c.number[r] = of_body(phi.number[r], state, d.number[r], i + r, (ptrdiff_t)0);
        for (int j = 0; j < SLOTS; ++j) store(p + (j + 1) * 8, state[j]);
        strength[r] = group(i + r);
    }
    transpose(phi.number), transpose(c.number), transpose(d.number);
    if (b.weight)
        some_weights<Vec8, SLOTS>(b, i, i + 8, row, [&](Vec8& weight, Vec8* state, auto at) __attribute__((always_inline)) {
            c.number[8] = of_weights(weight, state, d.number[8], at);
            phi.number[8] = weight;
        });
    auto sum_of = [&](auto f) __attribute__((always_inline)) {
        return EightRows::sum([&](int k) __attribute__((always_inline)) { return f(phi.number[k], c.number[k], d.number[k]); });
    };
    Vec8 lowest = d.number[0];
#pragma GCC unroll 8
    for (int k = 1; k < 8; ++k) lowest = smaller(lowest, d.number[k]);
    if (b.weight) lowest = smaller(lowest, d.number[8]);
    const Vec8 before = root(sum_of([](Vec8 phi, Vec8, Vec8) { return phi * phi; }));
    const Vec8 squares = sum_of([](Vec8, Vec8 c, Vec8) { return c * c; });
    const Vec8 weighted = sum_of([](Vec8, Vec8 c, Vec8 d) { return c * c * d; });
    const Vec8 norm = group_norm(squares, weighted, lowest, Vec8{}, strength, before, PRECISION - Vec8{},
                                 [&](Vec8 nu, Vec8& s2, Vec8& s3) __attribute__((always_inline)) {
        EightRows slope;
        s2 = EightRows::sum([&](int k) __attribute__((always_inline)) {
            const Vec8 inverse = 1 / (d.number[k] * nu + strength), ratio = c.number[k] * inverse;
            slope.number[k] = ratio * ratio * d.number[k] * inverse;
            return ratio * ratio;
        });
        s3 = EightRows::sum([&](int k) { return slope.number[k]; });
    });
#pragma GCC unroll 9
    for (int k = 0; k < 9; ++k) c.number[k] = c.number[k] * norm / (d.number[k] * norm + strength) + 0;
    transpose(c.number);
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) {
        store(b.body + row(i + r) * b.body_stride, c.number[r]);
        if (b.weight) b.weight[row(i + r) * b.weight_stride] = c.number[8][r];
    }
}

// A step of n rows under the group penalty `strength`, or without one. touched(i) marks the groups of factors of the
// i-th row that are updated; NULL: all. group(i) is the penalty's strength on the row. of_body(phi, state, d, i, at)
// and of_weights(phi, state, d, at) make the first step of the prox: they return c and set d and the state; their other
// arguments are as in each_body and each_weight.
template <int SLOTS, class Row, class Touched, class Group, class OfBody, class OfWeights>
void step_by_row(const Block b, ptrdiff_t n, Row row, Touched touched, const PenaltyStrength strength, Group group,
                 OfBody of_body, OfWeights of_weights) {
    ptrdiff_t i = 0;
    if constexpr (!partial<Touched> && sizeof(Vec8) <= VECTOR_BYTES)
        if (b.body && b.lanes == 8 && strength.group > 0 && GroupPenalties::is<GroupNorm>(strength.group_penalty))
            for (; i + 8 <= n; i += 8) step_of_eight<SLOTS>(b, i, row, group, of_body, of_weights);
    for (; i + SIDE_BY_SIDE <= n; i += SIDE_BY_SIDE)
        step_by_row<SIDE_BY_SIDE, SLOTS>(b, i, row, touched, strength, group, of_body, of_weights);
    for (; i < n; ++i) step_by_row<1, SLOTS>(b, i, row, touched, strength, group, of_body, of_weights);
}

}  // namespace

#endif
