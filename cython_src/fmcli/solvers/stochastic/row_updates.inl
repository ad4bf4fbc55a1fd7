// The updates that row solvers apply to the rows of a block.

#include "fmcli/kernels/kernels.h"
#include "fmcli/base/pairs.h"
#include "fmcli/penalties/group_penalties.h"
#include "fmcli/solvers/stochastic/update_rules.h"

namespace {

// Values that these loops read are copied into local variables first: otherwise the compiler must assume that a store
// to a row can change any value behind a pointer.

// Calls on_body(phi, state, i, at) for every vector of the bodies of n rows. row(i) is the id of the i-th row, and `at`
// is the place of the vector in the row. If a row fills only half a vector, the next row fills the rest.
template <int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void each_body(const Block b, ptrdiff_t n, Row row, F on_body) {
    ptrdiff_t i = 0;
    if (b.lanes == width<Vec4>)  // two short rows share a vector: a root or a division of half a vector costs as much
        for (; i + 2 <= n; i += 2) {
            real* const p = b.body + row(i) * b.body_stride;
            real* const q = b.body + row(i + 1) * b.body_stride;
            Vec8 phi = join(load<Vec4>(p), load<Vec4>(q)), state[SLOTS + 1];
            for (int j = 1; j <= SLOTS; ++j) state[j - 1] = join(load<Vec4>(p + j * LANES), load<Vec4>(q + j * LANES));
            on_body(phi, state, i, (ptrdiff_t)0);
            split(phi, p, q);
            for (int j = 1; j <= SLOTS; ++j) split(state[j - 1], p + j * LANES, q + j * LANES);
        }
    for (; i < n; ++i) {
        real* const p = b.body + row(i) * b.body_stride;
        auto visit = [&](ptrdiff_t at, auto phi) __attribute__((always_inline)) {
            using V = decltype(phi);
            V state[SLOTS + 1];
            phi = load<V>(p + at);
            for (int j = 0; j < SLOTS; ++j) state[j] = load<V>(p + (j + 1) * b.lanes + at);
            on_body(phi, state, i, at);
            store(p + at, phi);
            for (int j = 0; j < SLOTS; ++j) store(p + (j + 1) * b.lanes + at, state[j]);
        };
        ptrdiff_t at = 0;
        for (; at + 8 <= b.lanes; at += 8) visit(at, Vec8{});
        if (at < b.lanes) visit(at, Vec4{});
    }
}

// The vector of f(0), f(1), ...
template <class V, class F>
inline __attribute__((always_inline)) V gather(F f) {
    if constexpr (width<V> == 4)
        return V{f(0), f(1), f(2), f(3)};
    else
        return V{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)};
}

template <class V, class F>
inline __attribute__((always_inline)) V gather_like(const V&, F f) {
    return gather<V>(f);
}

// Calls on_weight for the weights of as many rows as V is wide, from the i-th on. If fewer rows are left, the last one
// is repeated: all weights are read before any is written, so the result is the same.
template <class V, int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void some_weights(const Block& b, ptrdiff_t i, ptrdiff_t n, Row row, F on_weight) {
    constexpr int W = width<V>;
    auto at = [&](int r) __attribute__((always_inline)) { return i + r < n ? i + r : n - 1; };
    real* p[W];
#pragma GCC unroll 8
    for (int r = 0; r < W; ++r) p[r] = b.weight + row(at(r)) * b.weight_stride;
    V state[SLOTS + 1];
    V phi = gather<V>([&](int r) { return p[r][0]; });
    for (int j = 0; j < SLOTS; ++j) state[j] = gather<V>([&](int r) { return p[r][j + 1]; });
    on_weight(phi, state, at);
#pragma GCC unroll 8
    for (int r = 0; r < W; ++r) {
        p[r][0] = phi[r];
        for (int j = 0; j < SLOTS; ++j) p[r][j + 1] = state[j][r];
    }
}

// Calls on_weight(phi, state, at) for the weights of n rows, several rows at a time; at(r) is the index of the r-th of
// them in the sparse gradient.
template <int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void each_weight(const Block b, ptrdiff_t n, Row row, F on_weight) {
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) some_weights<Vec8, SLOTS>(b, i, i + 8, row, on_weight);
    for (; i < n; i += 4) some_weights<Vec4, SLOTS>(b, i, n, row, on_weight);
}

// Loads a vector of a row's body (`whole`), or the row's weight as the first entry of a vector of zeros.
template <class V>
inline __attribute__((always_inline)) V take(const real* p, bool whole) {
    if (whole) return load<V>(p);
    V v = {};
    v[0] = *p;
    return v;
}

template <class V>
inline __attribute__((always_inline)) void put(real* p, V v, bool whole) {
    if (whole)
        store(p, v);
    else
        *p = v[0];
}

// Calls f(V, p, apart, at, whole) for each vector of one row. p: its address; apart: the distance from the parameters
// to their first state slot, and from slot to slot; at: its offset in a row of a gradient; whole: true for vectors of
// the body, false for the weight.
template <class F>
inline __attribute__((always_inline)) void each_vector(const Block& b, ptrdiff_t row, F f) {
    if (b.body) {
        real* const p = b.body + row * b.body_stride;
        ptrdiff_t at = 0;
        for (; at + 8 <= b.lanes; at += 8) f(Vec8{}, p + at, b.lanes, at, true);
        if (at < b.lanes) f(Vec4{}, p + at, b.lanes, at, true);
    }
    if (b.weight) f(Vec4{}, b.weight + row * b.weight_stride, (ptrdiff_t)1, b.lanes, false);
}

// The same, but only for the vectors of the body that `touched` marks, and for the weight.
template <class F>
inline __attribute__((always_inline)) void each_touched(const Block& b, ptrdiff_t row, const uint8_t* touched, F f) {
    if (!touched) {
        each_vector(b, row, f);
        return;
    }
    real* const p = b.body + row * b.body_stride;
    for (ptrdiff_t at = 0; at < b.lanes; at += LANES)
        if (touched[at / LANES]) f(Vec4{}, p + at, b.lanes, at, true);
    if (b.weight) f(Vec4{}, b.weight + row * b.weight_stride, (ptrdiff_t)1, b.lanes, false);
}

// Calls f(v) for each vector of a row's body that `touched` does not mark.
template <class F>
inline __attribute__((always_inline)) void each_untouched(const Block& b, ptrdiff_t row, const uint8_t* touched, F f) {
    for (ptrdiff_t at = 0; touched && at < b.lanes; at += LANES)
        if (!touched[at / LANES]) f(load<Vec4>(b.body + row * b.body_stride + at));
}

// The prox of a row under a group penalty has two steps: l1 and l2, then the group penalty. Between them, the row's
// parameters are replaced by the coefficients c of elementwise.h, and the curvatures d are in the block's `room`.
inline real* curvatures_of(const Block& b) { return reinterpret_cast<real*>(b.room); }

// The input of Newton's method for the group norm: sums of c^2, of c^2 d, and of the squares of the row's parameters
// before the step; the smallest d.
struct RowSums {
    Vec4 squares = {}, weighted = {}, before = {}, lowest;
    bool begun = false;

    template <class V>
    inline __attribute__((always_inline)) void add(V phi, V c, V d) {
        squares += folded(c * c);
        weighted += folded(c * c * d);
        before += folded(phi * phi);
        lowest = begun ? smaller(lowest, smallest(d)) : smallest(d);
        begun = true;
    }
};

// Sets the row to f(c, d), vector by vector.
template <class F>
inline __attribute__((always_inline)) void finish_with(const Block& b, ptrdiff_t row, const uint8_t* touched, F f) {
    each_touched(b, row, touched, [&](auto v, real* p, ptrdiff_t, ptrdiff_t at, bool whole) __attribute__((always_inline)) {
        using V = decltype(v);
        put(p, f(take<V>(p, whole), load<V>(curvatures_of(b) + at)), whole);
    });
}

// Completes the prox of a row under the group norm: v = c / (d + l_g / |v|).
inline void finish_row(GroupNorm, const Block& b, ptrdiff_t row, const uint8_t* touched, const RowSums& sums, real group) {
    const double precision = sizeof(real) == sizeof(float) ? 1e-8 : 1e-16;
    Vec4 untouched = {};
    each_untouched(b, row, touched, [&](Vec4 v) { untouched += v * v; });
    const double fixed = sum(untouched), before = __builtin_sqrt(sum(sums.before) + fixed);
    double lowest = sums.lowest[0];
    for (int i = 1; i < width<Vec4>; i++) lowest = sums.lowest[i] < lowest ? sums.lowest[i] : lowest;
    const double norm = group_norm(sum(sums.squares), sum(sums.weighted), lowest, fixed, group, before, precision,
                                   [&](double nu, double& s2, double& s3) __attribute__((always_inline)) {
        Vec4 squares = {}, slopes = {};
        each_touched(b, row, touched, [&](auto v, real* p, ptrdiff_t, ptrdiff_t at, bool whole)
                         __attribute__((always_inline)) {
            using V = decltype(v);
            const V d = load<V>(curvatures_of(b) + at), inverse = 1 / (d * (real)nu + group), r = take<V>(p, whole) * inverse;
            squares += folded(r * r);
            slopes += folded(r * r * d * inverse);
        });
        s2 = sum(squares);
        s3 = sum(slopes);
    });
    finish_with(b, row, touched, [&](auto c, auto d) __attribute__((always_inline)) {
        return norm == 0 ? c - c : c * (real)norm / (d * (real)norm + group);
    });
}

// Completes the prox of a row under any other group penalty, with the penalty's prox for doubles.
template <class Penalty>
inline void finish_row(Penalty penalty, const Block& b, ptrdiff_t row, const uint8_t* touched, const RowSums&, real group) {
    double* const c = b.room + (b.lanes + LANES);
    double* const d = c + (b.lanes + LANES);
    ptrdiff_t n = 0;
    double rest = 0;
    each_untouched(b, row, touched, [&](Vec4 v) {
        for (int i = 0; i < LANES; ++i) rest = penalty.add(rest, v[i]);
    });
    each_touched(b, row, touched, [&](auto v, real* p, ptrdiff_t, ptrdiff_t at, bool whole) {
        for (int i = 0; i < (whole ? width<decltype(v)> : 1); ++i, ++n) {
            c[n] = p[i];
            d[n] = curvatures_of(b)[at + i];
        }
    });
    penalty.prox(c, d, n, rest, group, c);
    n = 0;
    each_touched(b, row, touched, [&](auto v, real* p, ptrdiff_t, ptrdiff_t, bool whole) {
        for (int i = 0; i < (whole ? width<decltype(v)> : 1); ++i, ++n) p[i] = (real)c[n];
    });
}

// Completes the prox of a row under the active group penalty, or without one.
inline __attribute__((always_inline)) void finish_row(const PenaltyStrength& s, const Block& b, ptrdiff_t row,
                                                      const uint8_t* touched, const RowSums& sums) {
    if (s.group > 0)
        GroupPenalties::with(s.group_penalty, [&](auto penalty) __attribute__((always_inline)) {
            finish_row(penalty, b, row, touched, sums, s.group);
        });
    else
        finish_with(b, row, touched, [](auto c, auto d) { return c / d; });
}

// The strength of the group penalty on the rows of a block, which is the same for bodies and weights.
template <class Rule>
inline PenaltyStrength on_rows(const Block& b, const Rule& body, const Rule& weight) {
    return (b.body ? body : weight).strength;
}

// A step on rows under a group penalty: the prox in the metric of their curvatures h. reduced(rule, phi, state, d, i, at,
// whole) makes a step of a vector of the i-th row up to the first step of the prox; `at` is its place in the row's
// gradient. touched(i) marks the groups of factors that have a gradient; NULL: all. strength(i) is that of the penalty.
template <class Rule, class Row, class Touched, class Strength, class Reduced>
void step_by_row(const Block b, ptrdiff_t n, Row row, Touched touched, Strength strength, const Rule body,
                 const Rule weight, Reduced reduced) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        RowSums sums;
        each_touched(b, row(i), touched(i), [&](auto v, real* p, ptrdiff_t apart, ptrdiff_t at, bool whole)
                         __attribute__((always_inline)) {
            using V = decltype(v);
            const V phi = take<V>(p, whole);
            V state[slots<Rule> + 1], d;
            for (int j = 0; j < slots<Rule>; ++j) state[j] = take<V>(p + (j + 1) * apart, whole);
            const V c = reduced(whole ? body : weight, phi, state, d, i, at, whole);
            sums.add(phi, c, d);
            store(curvatures_of(b) + at, d);
            put(p, c, whole);
            for (int j = 0; j < slots<Rule>; ++j) put(p + (j + 1) * apart, state[j], whole);
        });
        finish_row(strength(i), b, row(i), touched(i), sums);
    }
}

// The same for the gradient of one sample.
template <class Rule, class Row>
void step_by_row(const Block b, const SparseGradient s, Row row, const Rule body, const Rule weight) {
    const PenaltyStrength strength = on_rows(b, body, weight);
    auto touched = [&](ptrdiff_t i) { return s.touched ? s.touched + i * (b.lanes / LANES) : nullptr; };
    step_by_row(b, s.n, row, touched, [&](ptrdiff_t) { return strength; }, body, weight,
                [&](const Rule& rule, auto phi, auto* state, auto& d, ptrdiff_t i, ptrdiff_t at, bool whole)
                    __attribute__((always_inline)) {
        const auto g = take<decltype(phi)>(whole ? s.body + i * b.lanes + at : s.weight + i, whole);
        return reduced(rule, phi, state, of_one_sample(g), OneSample{}, d);
    });
}

// A step of a field-aware model by a formula, whose values are never stored in memory. Each pair of entries uses two
// rows, that of each feature for the field of the other. They occur in no other pair and are updated together.
template <class Rule>
void step_of_field_pairs(const Block b, const SparseGradient s, const Rule rule) {
    const GradientFormula g = s.formula;
    const real slope = (real)g.slope;
    auto row = [&](ptrdiff_t i, ptrdiff_t j) {
        return b.body + (s.first + s.row[i] * g.fields + g.field[j]) * b.body_stride;
    };
    for (ptrdiff_t i = 1; i < s.n; ++i)
        for (ptrdiff_t j = 0; j < i; ++j) {
            real *const p = row(i, j), *const q = row(j, i);
            const Vec4 x = (real)g.value[i] + Vec4{}, y = (real)g.value[j] + Vec4{};
            const Vec8 other = join(y, x), scale = slope * join(x, y);
            for (ptrdiff_t at = 0; at < b.lanes; at += LANES) {
                Vec8 phi = join(load<Vec4>(p + at), load<Vec4>(q + at)), state[slots<Rule> + 1];
                for (int k = 1; k <= slots<Rule>; ++k)
                    state[k - 1] = join(load<Vec4>(p + k * b.lanes + at), load<Vec4>(q + k * b.lanes + at));
                update(rule, phi, state, of_one_sample(join(high(phi), low(phi)) * other * scale), OneSample{});
                split(phi, p + at, q + at);
                for (int k = 1; k <= slots<Rule>; ++k) split(state[k - 1], p + k * b.lanes + at, q + k * b.lanes + at);
            }
        }
}

// The gradient of a sample as numbers. V is as wide as the vectors of each_body: it can contain two short rows.
struct Numbers {
    const real *body, *weight;
    ptrdiff_t lanes;

    template <class V>
    inline __attribute__((always_inline)) V of_body(ptrdiff_t i, ptrdiff_t at, const V&) const {
        return load<V>(body + i * lanes + at);
    }
    inline real of_weight(ptrdiff_t i) const { return weight[i]; }
};

// The gradient of a sample by a formula of second order, whose values are never stored in memory.
struct PairsFormula {
    const float* value;
    const real *sums, *beta;
    real slope;
    ptrdiff_t lanes;

    template <class V>
    inline __attribute__((always_inline)) V of_body(ptrdiff_t i, ptrdiff_t at, const V& phi) const {
        if constexpr (width<V> == 2 * LANES)
            if (lanes == LANES) {  // two rows
                const Vec4 x = (real)value[i] + Vec4{}, y = (real)value[i + 1] + Vec4{}, s = load<Vec4>(sums);
                const Vec8 both = join(x, y), g = pairs_derivative(join(s, s), phi, both, slope * both);
                return beta ? g * join(load<Vec4>(beta), load<Vec4>(beta)) : g;
            }
        const real x = value[i];
        const V g = pairs_derivative(load<V>(sums + at), phi, x, slope * x);
        return beta ? g * load<V>(beta + at) : g;
    }
    inline real of_weight(ptrdiff_t i) const { return slope * value[i]; }
};

// A step of n rows without a group penalty.
template <class Rule, class Row, class Gradient>
inline __attribute__((always_inline)) void update_rows(const Block& b, ptrdiff_t n, Row row, const Gradient gradient,
                                                       const Rule& body, const Rule& weight) {
    if (b.body)
        each_body<slots<Rule>>(b, n, row, [&](auto& phi, auto* state, ptrdiff_t i, ptrdiff_t at)
                                        __attribute__((always_inline)) {
            update(body, phi, state, of_one_sample(gradient.of_body(i, at, phi)), OneSample{});
        });
    if (b.weight)
        each_weight<slots<Rule>>(b, n, row, [&](auto& phi, auto* state, auto at) __attribute__((always_inline)) {
            const auto g = gather_like(phi, [&](int r) { return gradient.of_weight(at(r)); });
            update(weight, phi, state, of_one_sample(g), OneSample{});
        });
}

template <class Rule>
void step(const Block* block, const SparseGradient* gradient, const Rule* body, const Rule* weight) {
    const Block b = *block;
    const SparseGradient s = *gradient;
    const GradientFormula& f = s.formula;
    const Rule on_body = *body, on_weight = *weight;
    auto row = [&](ptrdiff_t i) { return s.first + s.row[i]; };
    if (s.touched || on_rows(b, on_body, on_weight).group > 0) {
        step_by_row(b, s, row, on_body, on_weight);
        return;
    }
    if (!f.value)
        update_rows(b, s.n, row, Numbers{s.body, s.weight, b.lanes}, on_body, on_weight);
    else if (f.sums)
        update_rows(b, s.n, row, PairsFormula{f.value, f.sums, f.beta, (real)f.slope, b.lanes}, on_body, on_weight);
    else
        step_of_field_pairs(b, s, on_body);
}

// The names in the list of kernels.
constexpr auto sgd = step<Sgd>;
constexpr auto adagrad = step<Adagrad>;
constexpr auto ftrl = step<Ftrl>;

void ftrl_recompute(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight) {
    const Block b = *block;
    const PenaltyStrength strength = on_rows(b, *body, *weight);
    if (strength.group > 0) {
        step_by_row(b, rows, [](ptrdiff_t i) { return i; }, [](ptrdiff_t) -> const uint8_t* { return nullptr; },
                    [&](ptrdiff_t) { return strength; }, *body, *weight,
                    [](const Ftrl& rule, auto, auto* state, auto& d, ptrdiff_t, ptrdiff_t, bool) {
            decltype(+d) h, hu = recompute(rule, state, h);
            return reduce(hu, h, rule.strength, d);
        });
        return;
    }
    for (ptrdiff_t r = 0; r < rows; ++r)
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t apart, ptrdiff_t, bool whole) {
            using V = decltype(v);
            const Ftrl& rule = whole ? *body : *weight;
            const V state[2] = {take<V>(p + apart, whole), take<V>(p + 2 * apart, whole)};
            V h, hu = recompute(rule, state, h);
            put(p, prox(hu, h, rule.strength), whole);
        });
}

void ftrl_start(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight) {
    const Block b = *block;
    for (ptrdiff_t r = 0; r < rows; ++r)
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t apart, ptrdiff_t, bool whole) {
            using V = decltype(v);
            V state[2];
            start(whole ? *body : *weight, take<V>(p, whole), state);
            for (int j = 0; j < 2; ++j) put(p + (j + 1) * apart, state[j], whole);
        });
}

enum { ROWS_AHEAD = 16 };  // whose combined steps FOBOS prefetches when it goes through all rows

// The deferred steps of some rows; the two conditions are constants, so that the usual case has no branches for them.
template <bool adaptive, bool grouped>
void catch_up(const Block b, const int32_t* ids, ptrdiff_t n, ptrdiff_t first, int32_t* visited, const Fobos on_body,
              const Fobos on_weight) {
    auto row = [&](ptrdiff_t i) { return ids ? first + ids[i] : i; };
    for (ptrdiff_t i = 0; i < n; ++i) {
        if (!ids && i + ROWS_AHEAD < n) prefetch_line(on_body.steps + visited[i + ROWS_AHEAD] * FOBOS_PARTS);
        const ptrdiff_t r = row(i);
        const int32_t since = visited[r];
        if (since == on_body.now) continue;
        visited[r] = on_body.now;
        DeferredProx<real> of_body = {}, of_weight = {};
        if (!adaptive) {
            of_body = deferred(on_body, since);
            of_weight = on_weight.steps == on_body.steps ? of_body : deferred(on_weight, since);
        }
        RowSums sums;
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t apart, ptrdiff_t at, bool whole) __attribute__((always_inline)) {
            using V = decltype(v);
            const Fobos& rule = whole ? on_body : on_weight;
            if (!acts(rule.strength)) return;
            const DeferredProx<real>& of_row = whole ? of_body : of_weight;
            const DeferredProx<V> m = adaptive ? deferred(rule, since, take<V>(p + apart, whole))
                                         : DeferredProx<V>{of_row.decay - V{}, of_row.rate - V{}};
            const V phi = prox(take<V>(p, whole), m, rule.strength);
            if (!grouped) {
                put(p, phi, whole);
                return;
            }
            const V d = 1 / m.rate, c = phi * d;
            sums.add(phi, c, d);
            store(curvatures_of(b) + at, d);
            put(p, c, whole);
        });
        if (grouped) finish_row(on_rows(b, on_body, on_weight), b, r, nullptr, sums);
    }
}

void fobos_catch_up(const Block* block, const int32_t* ids, ptrdiff_t n, ptrdiff_t first, int32_t* visited,
                   const Fobos* body, const Fobos* weight) {
    const bool adaptive = body->inverse_rate > 0, grouped = on_rows(*block, *body, *weight).group > 0;
    const auto run = adaptive ? grouped ? catch_up<true, true> : catch_up<true, false>
                              : grouped ? catch_up<false, true> : catch_up<false, false>;
    run(*block, ids, n, first, visited, *body, *weight);
}

}  // namespace
