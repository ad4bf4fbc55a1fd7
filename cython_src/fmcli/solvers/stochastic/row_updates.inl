// The updates that row solvers apply to the rows of a block.
#ifndef FMCLI_ROW_UPDATES_INL
#define FMCLI_ROW_UPDATES_INL

#include "fmcli/models/second_order/pairs.h"
#include "fmcli/solvers/stochastic/group_steps.h"
#include "fmcli/solvers/stochastic/row_vectors.h"
#include "fmcli/solvers/stochastic/update_rules.h"

namespace {

// A step of a field-aware model by a formula, whose values are never stored in memory. Each pair of entries uses two
// rows: each feature's row for the field of the other. These rows are in no other pair, and are updated together.
// before() is called before each pair.
template <class Rule, class Rows, class X, class F>
inline __attribute__((always_inline)) void step_of_field_pairs(ptrdiff_t lanes, const Rows& rows, const X& x, real slope,
                                                               const Rule& rule, F before) {
    for (ptrdiff_t i = 0; i < x.nnz; ++i) {
        real* const of_entry = rows.row(i);
        const ptrdiff_t of_field = rows.of(i);
        const real of_xi = slope * (real)value_of(x, i);
        for (ptrdiff_t j = 0; j < i; ++j) {
            real *const p = of_entry + rows.of(j), *const q = rows.row(j) + of_field;
            const Vec8 scale = of_xi * (real)value_of(x, j) - Vec8{};
            before();
            for (ptrdiff_t at = 0; at < lanes; at += LANES) {
                const Vec4 one = load<Vec4>(p + at), other = load<Vec4>(q + at);
                Vec8 phi = concat(one, other), state[slots<Rule> + 1];
                for (int k = 1; k <= slots<Rule>; ++k)
                    state[k - 1] = concat(load<Vec4>(p + k * lanes + at), load<Vec4>(q + k * lanes + at));
                update(rule, phi, state, of_one_sample(concat(other, one) * scale), OneSample{});
                split(phi, p + at, q + at);
                for (int k = 1; k <= slots<Rule>; ++k) split(state[k - 1], p + k * lanes + at, q + k * lanes + at);
            }
        }
    }
}

// The gradient of a sample as numbers. V is as wide as the vectors of each_body: it can hold two short rows.
struct Numbers {
    const real *body, *weight;
    ptrdiff_t lanes;

    template <class V>
    inline __attribute__((always_inline)) V of_body(ptrdiff_t i, ptrdiff_t at, const V&) const {
        return load<V>(body + i * lanes + at);
    }
    template <class At, class V>
    inline __attribute__((always_inline)) V of_weights(const At& at, const V& phi) const {
        return numbers_at(phi, at, weight);
    }
};

// The gradient of a sample by a second-order formula, whose values are never stored in memory. ONES: all x are 1.
template <bool ONES>
struct PairsFormula {
    const float* value;
    const real *sums, *beta;
    real slope;
    ptrdiff_t lanes;

    inline real x_of(ptrdiff_t i) const { return ONES ? 1 : value[i]; }

    template <class V>
    inline __attribute__((always_inline)) V of_body(ptrdiff_t i, ptrdiff_t at, const V& phi) const {
        if constexpr (width<V> == 2 * LANES)
            if (lanes == LANES) {  // two rows
                const Vec4 x = x_of(i) + Vec4{}, y = x_of(i + 1) + Vec4{}, s = load<Vec4>(sums);
                const Vec8 both = concat(x, y), g = pairs_derivative(concat(s, s), phi, both, slope * both);
                return beta ? g * concat(load<Vec4>(beta), load<Vec4>(beta)) : g;
            }
        const real x = x_of(i);
        const V g = pairs_derivative(load<V>(sums + at), phi, x, slope * x);
        return beta ? g * load<V>(beta + at) : g;
    }
    template <class At, class V>
    inline __attribute__((always_inline)) V of_weights(const At& at, const V& phi) const {
        if constexpr (ONES) return slope + V{};
        return slope * numbers_at(phi, at, value);
    }
};

// The rows of a gradient.
struct RowIds {
    const int32_t* id;
    ptrdiff_t first;  // added to every id

    inline ptrdiff_t operator()(ptrdiff_t i) const { return first + id[i]; }
};

// A step of n rows whose prox needs whole rows. `touched` : as in step_by_row.
template <class Rule, class Touched, class Gradient>
void update_whole_rows(const Block b, ptrdiff_t n, const RowIds row, Touched touched, const Gradient gradient, const Rule on_body,
                       const Rule on_weight) {
    const PenaltyStrength strength = on_rows(b, on_body, on_weight);
    step_by_row<slots<Rule>>(
        b, n, row, touched, strength, [&](ptrdiff_t) { return strength.group; },
        [&](auto phi, auto* state, auto& d, ptrdiff_t i, ptrdiff_t at) __attribute__((always_inline)) {
            return reduced(on_body, phi, state, of_one_sample(gradient.of_body(i, at, phi)), OneSample{}, d);
        },
        [&](auto phi, auto* state, auto& d, auto at) __attribute__((always_inline)) {
            return reduced(on_weight, phi, state, of_one_sample(gradient.of_weights(at, phi)), OneSample{}, d);
        });
}

// Does nothing before the step of a row.
struct Nothing {
    inline void operator()() const {}
};

// A step of n rows. before() is called before the step of each body, or of two short bodies.
template <class Rule, class Gradient, class Before = Nothing>
inline __attribute__((always_inline)) void update_rows(const Block& b, ptrdiff_t n, const RowIds row, const Gradient gradient,
                                                       const Rule& body, const Rule& weight, Before before = {}) {
    if (on_rows(b, body, weight).group > 0) {
        update_whole_rows(b, n, row, AllTouched{}, gradient, body, weight);
        return;
    }
    if (b.body)
        each_body<slots<Rule>>(b, n, row, [&](auto& phi, auto* state, ptrdiff_t i, ptrdiff_t at)
                                        __attribute__((always_inline)) {
            if (at == 0) before();
            update(body, phi, state, of_one_sample(gradient.of_body(i, at, phi)), OneSample{});
        });
    if (b.weight)
        each_weight<slots<Rule>>(b, n, row, [&](auto& phi, auto* state, auto at) __attribute__((always_inline)) {
            update(weight, phi, state, of_one_sample(gradient.of_weights(at, phi)), OneSample{});
        });
}

template <class Rule>
void step(const Block* block, const SparseGradient* gradient, const Rule* body, const Rule* weight) {
    const Block b = *block;
    const SparseGradient s = *gradient;
    const GradientFormula& f = s.formula;
    const Rule on_body = *body, on_weight = *weight;
    const Numbers numbers = {s.body, s.weight, b.lanes};
    const RowIds row = {s.row, s.first};
    if (s.touched)
        update_whole_rows(b, s.n, row, [&](ptrdiff_t i) { return s.touched + i * (b.lanes / LANES); }, numbers, on_body,
                          on_weight);
    else if (!f.value)
        update_rows(b, s.n, row, numbers, on_body, on_weight);
    else if (f.sums)
        update_rows(b, s.n, row, PairsFormula<false>{f.value, f.sums, f.beta, (real)f.slope, b.lanes}, on_body, on_weight);
    else {
        const Sample x = {s.row, f.field, f.value, s.n, 0};
        const FieldRows<real> rows = {b.body + s.first * b.body_stride, f.fields * b.body_stride, b.body_stride, x};
        step_of_field_pairs(b.lanes, rows, x, (real)f.slope, on_body, []() {});
    }
}

// The names in the list of kernels.
constexpr auto sgd = step<Sgd>;
constexpr auto adagrad = step<Adagrad>;
constexpr auto ftrl = step<Ftrl>;

void ftrl_recompute(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight) {
    const Block b = *block;
    const PenaltyStrength strength = on_rows(b, *body, *weight);
    if (strength.group > 0) {
        auto first_step = [](const Ftrl& rule, auto* state, auto& d) {
            decltype(+d) h, hu = recompute(rule, state, h);
            return reduce(hu, h, rule.strength, d);
        };
        step_by_row<slots<Ftrl>>(
            b, rows, [](ptrdiff_t i) { return i; }, AllTouched{}, strength, [&](ptrdiff_t) { return strength.group; },
            [&](auto, auto* state, auto& d, ptrdiff_t, ptrdiff_t) { return first_step(*body, state, d); },
            [&](auto, auto* state, auto& d, auto) { return first_step(*weight, state, d); });
        return;
    }
    for (ptrdiff_t r = 0; r < rows; ++r)
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t apart, bool whole) {
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
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t apart, bool whole) {
            using V = decltype(v);
            V state[2];
            start(whole ? *body : *weight, take<V>(p, whole), state);
            for (int j = 0; j < 2; ++j) put(p + (j + 1) * apart, state[j], whole);
        });
}

}  // namespace

#endif
