// One step of row solvers for a round of samples: each touched row is updated once, by the sums of its gradients and of
// their squares. One thread updates a row, and sums over the samples in order, so results do not depend on the number
// of threads.

#include "fmcli/base/prefetch.h"
#include "fmcli/solvers/stochastic/row_updates.inl"

namespace {

// The gradients of entries as numbers. `at` is the position of an entry among the entries of the round's rows.
struct StoredGradients {
    const int32_t* entry;
    const real *body, *weight;
    ptrdiff_t lanes;

    template <class V>
    inline __attribute__((always_inline)) V of_body(ptrdiff_t at, ptrdiff_t lane, V) const {
        return load<V>(body + entry[at] * lanes + lane);
    }
    inline real of_weight(ptrdiff_t at) const { return weight[entry[at]]; }
};

// What is known at compile time about the values of entries. EITHER: nothing; values of 1 then have no array.
enum class Values { READ, ONES, EITHER };

// The gradients of a second-order model, which need the row's parameters.
template <Values VALUES>
struct PairGradients {
    const int32_t* sample;
    const float* value;
    const real *slope, *sums, *beta;
    ptrdiff_t lanes;

    inline real x(ptrdiff_t at) const {
        return VALUES == Values::ONES || (VALUES == Values::EITHER && !value) ? 1 : value[at];
    }

    template <class V>
    inline __attribute__((always_inline)) V of_body(ptrdiff_t at, ptrdiff_t lane, V phi) const {
        const int32_t s = sample[at];
        const V g = pairs_derivative(load<V>(sums + s * lanes + lane), phi, x(at), slope[s] * x(at));
        return beta ? g * load<V>(beta + lane) : g;
    }
    inline real of_weight(ptrdiff_t at) const { return slope[sample[at]] * x(at); }
};

// Sums over each row's entries, and of their squares.
struct SummedGradients {
    const real *body, *weight, *body_squares, *weight_squares;
    ptrdiff_t lanes;
};

// Whether rows with few entries have loops of their own. Sums have no loop over entries.
template <class Gradients>
constexpr bool by_entries = true;
template <>
constexpr bool by_entries<SummedGradients> = false;

// The gradients for steps under a group penalty, whose loops take long to compile: one type serves all kinds of values.
template <class Gradients>
inline const Gradients& for_groups(const Gradients& gradients) {
    return gradients;
}
template <Values VALUES>
inline PairGradients<Values::EITHER> for_groups(const PairGradients<VALUES>& g) {
    return {g.sample, g.value, g.slope, g.sums, g.beta, g.lanes};
}

// Calls f(at) for the N entries of a row; N = MANY_ENTRIES: for all of them.
template <int N, class F>
inline __attribute__((always_inline)) void each_entry(const RowEntries& rows, ptrdiff_t i, F f) {
    const ptrdiff_t start = rows.start[i];
    if constexpr (N < MANY_ENTRIES) {
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) f(start + j);
    } else {
        for (ptrdiff_t at = start; at < rows.start[i + 1]; ++at) f(at);
    }
}

template <int N>
inline Samples<real> samples_of(const RowEntries& rows, ptrdiff_t i, real curvature) {
    const real n = N < MANY_ENTRIES ? (real)N : (real)(rows.start[i + 1] - rows.start[i]);
    return {n, N == 1 ? 0 : curvature * rows.curvature[i]};
}

template <class V>
inline __attribute__((always_inline)) Samples<V> gather_samples(const V&, const Samples<real>* s) {
    return {gather<V>([&](int r) { return s[r].n; }), gather<V>([&](int r) { return s[r].least; })};
}

// The samples of a vector of one row, or of two rows in its halves, or of each row of a vector of weights. Rows with
// one entry have one sample.
template <int N, class V>
inline __attribute__((always_inline)) auto samples_for(const V&, const Samples<real>& one) {
    if constexpr (N == 1)
        return OneSample{};
    else
        return Samples<V>{one.n + V{}, one.least + V{}};
}
template <int N>
inline __attribute__((always_inline)) auto samples_for(const Samples<real>& one, const Samples<real>& two) {
    if constexpr (N == 1)
        return OneSample{};
    else
        return Samples<Vec8>{concat(one.n + Vec4{}, two.n + Vec4{}), concat(one.least + Vec4{}, two.least + Vec4{})};
}
template <int N, class V>
inline __attribute__((always_inline)) auto samples_for(const V& phi, const Samples<real>* each) {
    if constexpr (N == 1)
        return OneSample{};
    else
        return gather_samples(phi, each);
}

// The rule with which one sample applies the penalties as often as a round does.
template <class Rule>
inline Rule of_round(const Rule& rule) {
    return rule;
}
template <>
inline Adagrad of_round(const Adagrad& rule) {
    Adagrad of = rule;
    if (rule.penalty_steps > 0) of.strength.l1 *= rule.penalty_steps, of.strength.l2 *= rule.penalty_steps;
    return of;
}

template <int N, class V, class Gradients>
inline __attribute__((always_inline)) Gradient<V> body_gradient(const RowEntries& rows, ptrdiff_t i, ptrdiff_t lane, V phi,
                                                                const Gradients& gradients) {
    if constexpr (N == 1) return of_one_sample(gradients.of_body(rows.start[i], lane, phi));
    Gradient<V> g = {};
    each_entry<N>(rows, i, [&](ptrdiff_t at) __attribute__((always_inline)) { g.add(gradients.of_body(at, lane, phi)); });
    return g;
}

template <int N, class Gradients>
inline __attribute__((always_inline)) Gradient<real> weight_gradient(const RowEntries& rows, ptrdiff_t i,
                                                                     const Gradients& gradients) {
    if constexpr (N == 1) return of_one_sample(gradients.of_weight(rows.start[i]));
    Gradient<real> g = {};
    each_entry<N>(rows, i, [&](ptrdiff_t at) __attribute__((always_inline)) { g.add(gradients.of_weight(at)); });
    return g;
}

template <int N, class V>
inline __attribute__((always_inline)) Gradient<V> body_gradient(const RowEntries&, ptrdiff_t i, ptrdiff_t lane, V,
                                                                const SummedGradients& sums) {
    const ptrdiff_t at = i * sums.lanes + lane;
    return {load<V>(sums.body + at), load<V>(sums.body_squares + at)};
}

template <int N>
inline Gradient<real> weight_gradient(const RowEntries&, ptrdiff_t i, const SummedGradients& sums) {
    return {sums.weight[i], sums.weight_squares[i]};
}

template <class V>
inline __attribute__((always_inline)) Gradient<V> gather_gradient(const V&, const Gradient<real>* g) {
    return {gather<V>([&](int r) { return g[r].sum; }), gather<V>([&](int r) { return g[r].squares; })};
}

// A step of the rows begin .. end - 1 under a group penalty.
template <class Rule, class Gradients>
void step_of_groups(const Block b, const RowEntries rows, ptrdiff_t first, ptrdiff_t begin, ptrdiff_t end,
                    const Gradients gradients, const Rule on_body, const Rule on_weight, real curvature) {
    constexpr int N = MANY_ENTRIES;
    const PenaltyStrength strength = on_rows(b, on_body, on_weight);
    auto samples = [&](ptrdiff_t i) { return samples_of<N>(rows, begin + i, curvature); };
    step_by_row<slots<Rule>>(
        b, end - begin, [&](ptrdiff_t i) { return first + rows.row[begin + i]; }, AllTouched{}, strength,
        [&](ptrdiff_t i) { return times(strength, penalized(on_body, samples(i))).group; },
        [&](auto& phi, auto* state, auto& d, ptrdiff_t i, ptrdiff_t at) __attribute__((always_inline)) {
            using V = decltype(+phi);
            const Samples<real> one = samples(i);
            const Gradient<V> g = body_gradient<N>(rows, begin + i, at, phi, gradients);
            return reduced(on_body, phi, state, g, Samples<V>{one.n + V{}, one.least + V{}}, d);
        },
        [&](auto& phi, auto* state, auto& d, auto at) __attribute__((always_inline)) {
            constexpr int W = width<decltype(+phi)>;
            Gradient<real> g[W];
            Samples<real> s[W];
            for (int r = 0; r < W; ++r) {
                g[r] = weight_gradient<N>(rows, begin + at(r), gradients);
                s[r] = samples(at(r));
            }
            return reduced(on_weight, phi, state, gather_gradient(phi, g), gather_samples(phi, s), d);
        });
}

// A step of the rows begin .. end - 1, which have N entries each, without a group penalty.
template <int N, class Rule, class Gradients>
void step_of_rows(const Block b, const RowEntries rows, ptrdiff_t first, ptrdiff_t begin, ptrdiff_t end,
                  const Gradients gradients, const Rule body, const Rule weight, real curvature) {
    // Some bodies are updated, and then their weights; later rows are prefetched.
    constexpr ptrdiff_t ROWS = 8, AHEAD = 32;
    const Rule on_body = N == 1 ? of_round(body) : body, on_weight = N == 1 ? of_round(weight) : weight;
    prefetch_rows<true>(b, rows.row + begin, end - begin < AHEAD ? end - begin : AHEAD, first);
    for (; begin < end; begin += ROWS) {
        const ptrdiff_t n = end - begin < ROWS ? end - begin : ROWS, left = end - begin - AHEAD;
        auto row = [&](ptrdiff_t i) { return first + rows.row[begin + i]; };
        auto samples = [&](ptrdiff_t i) { return samples_of<N>(rows, begin + i, curvature); };
        if (left > 0) prefetch_rows<true>(b, rows.row + begin + AHEAD, left < ROWS ? left : ROWS, first);
        if (b.body)
            each_body<slots<Rule>>(b, n, row, [&](auto& phi, auto* state, ptrdiff_t i, ptrdiff_t at)
                                       __attribute__((always_inline)) {
                using V = decltype(+phi);
                if constexpr (width<V> == 2 * LANES) {
                    if (b.lanes == LANES) {  // two rows
                        const auto p = body_gradient<N>(rows, begin + i, 0, low(phi), gradients);
                        const auto q = body_gradient<N>(rows, begin + i + 1, 0, high(phi), gradients);
                        update(on_body, phi, state, Gradient<V>{concat(p.sum, q.sum), concat(p.squares, q.squares)},
                               samples_for<N>(samples(i), samples(i + 1)));
                        return;
                    }
                }
                update(on_body, phi, state, body_gradient<N>(rows, begin + i, at, phi, gradients),
                       samples_for<N>(phi, samples(i)));
            });
        if (b.weight)
            each_weight<slots<Rule>>(b, n, row, [&](auto& phi, auto* state, auto at) __attribute__((always_inline)) {
                using V = decltype(+phi);
                Gradient<real> g[width<V>];
                Samples<real> s[width<V>];
#pragma GCC unroll 8
                for (int r = 0; r < width<V>; ++r) {
                    g[r] = weight_gradient<N>(rows, begin + at(r), gradients);
                    s[r] = samples(at(r));
                }
                update(on_weight, phi, state, gather_gradient(phi, g), samples_for<N>(phi, s));
            });
    }
}

// One thread's share of the step.
template <class Rule, class Gradients>
void step_of_rows(const Block& b, const RoundGradient& g, const Gradients& gradients, const Rule& body, const Rule& weight,
                  const ThreadShare& share) {
    // Rows are divided by their entries: a few rows may have most of the entries.
    auto bound = [&](ptrdiff_t begin, ptrdiff_t end, int number) {
        const int32_t* const start = g.rows.start;
        const int64_t entry = start[begin] + (int64_t)(start[end] - start[begin]) * number / share.count;
        while (begin < end) {
            const ptrdiff_t middle = begin + (end - begin) / 2;
            if (start[middle] < entry) begin = middle + 1;
            else end = middle;
        }
        return begin;
    };
    auto take = [&](ptrdiff_t begin, ptrdiff_t end, auto step, const auto& of) {
        step(b, g.rows, g.first, bound(begin, end, share.number), bound(begin, end, share.number + 1), of, body, weight,
             (real)g.curvature);
    };
    const ptrdiff_t* const end = g.rows.end;
    if (on_rows(b, body, weight).group > 0) {
        take(0, end[MANY_ENTRIES - 1], [](const auto&... all) { step_of_groups<Rule>(all...); }, for_groups(gradients));
        return;
    }
    if constexpr (by_entries<Gradients>) {
        take(0, end[0], step_of_rows<1, Rule, Gradients>, gradients);
        take(end[0], end[1], step_of_rows<2, Rule, Gradients>, gradients);
    }
    take(by_entries<Gradients> ? end[1] : 0, end[2], step_of_rows<MANY_ENTRIES, Rule, Gradients>, gradients);
    static_assert(MANY_ENTRIES == 3, "each number of entries has its loop");
}

template <class Rule>
void round_step(const Block* block, const RoundGradient* gradient, const Rule* body, const Rule* weight,
                const ThreadShare* share) {
    const RoundGradient& g = *gradient;
    Block b = *block;
    b.room = share->room;
    auto step = [&](const auto& gradients) { step_of_rows(b, g, gradients, *body, *weight, *share); };
    if (g.body_squares || g.weight_squares)
        step(SummedGradients{g.body, g.weight, g.body_squares, g.weight_squares, b.lanes});
    else if (!g.sums)
        step(StoredGradients{g.rows.entry, g.body, g.weight, b.lanes});
    else if (g.rows.value)
        step(PairGradients<Values::READ>{g.rows.entry, g.rows.value, g.slope, g.sums, g.beta, b.lanes});
    else
        step(PairGradients<Values::ONES>{g.rows.entry, nullptr, g.slope, g.sums, g.beta, b.lanes});
}

// The names in the list of kernels.
constexpr auto adagrad_round = round_step<Adagrad>;
constexpr auto ftrl_round = round_step<Ftrl>;

}  // namespace
