// The prox steps of FOBOS that rows have missed.

#include "fmcli/solvers/stochastic/group_steps.h"
#include "fmcli/solvers/stochastic/row_vectors.h"
#include "fmcli/solvers/stochastic/update_rules.h"

namespace {

constexpr ptrdiff_t CAUGHT_UP = 32;  // rows to catch up together: bodies, then weights
enum { ROWS_AHEAD = 16 };            // rows whose combined steps are prefetched when all rows catch up

// The missed steps of the bodies, or of the weights, of some rows. h is adaptive, the same for all steps, or one per
// step.
enum Metric { ADAPTIVE, CONSTANT, SCHEDULED };

// Missed steps where each number of a row has its own h.
template <Metric METRIC>
struct MissedSteps {
    const Fobos rule;
    real steps[CAUGHT_UP];

    explicit MissedSteps(const Fobos& of) : rule(of) {}
    inline void set(ptrdiff_t i, int32_t since) { steps[i] = (real)(rule.now - since); }
    inline void combine(ptrdiff_t) {}

    // For the numbers of a vector, of row i or of two rows; g2 is their state.
    template <class V>
    inline __attribute__((always_inline)) DeferredProx<V> of_rows(V g2, ptrdiff_t i, ptrdiff_t next) const {
        const bool many = steps[i] > rule.few || steps[next] > rule.few;
        auto at = [&](int r) { return steps[r < LANES ? i : next]; };
        return missed_steps(rule, root(1 + g2) * rule.inverse_rate, gather<V>(at), many);
    }

    // For one number of each row; at(r) is the r-th row.
    template <class V, class At>
    inline __attribute__((always_inline)) DeferredProx<V> of_each(V g2, At at) const {
        const V of_each = gather<V>([&](int r) { return steps[at(r)]; });
        return missed_steps(rule, root(1 + g2) * rule.inverse_rate, of_each, any_negative((real)rule.few - of_each));
    }
};

// Missed steps that are the same for all numbers of a row.
struct MissedStepsOfRows {
    const Fobos rule;
    real decay[CAUGHT_UP], rate[CAUGHT_UP];

    explicit MissedStepsOfRows(const Fobos& of) : rule(of) {}

    template <class V>
    inline __attribute__((always_inline)) DeferredProx<V> of_rows(V, ptrdiff_t i, ptrdiff_t next) const {
        auto of = [&](const real* each) { return gather<V>([&](int r) { return each[r < LANES ? i : next]; }); };
        return {of(decay), of(rate)};
    }

    template <class V, class At>
    inline __attribute__((always_inline)) DeferredProx<V> of_each(V, At at) const {
        auto of = [&](const real* each) { return gather<V>([&](int r) { return each[at(r)]; }); };
        return {of(decay), of(rate)};
    }
};

template <>
struct MissedSteps<CONSTANT> : MissedStepsOfRows {
    using MissedStepsOfRows::MissedStepsOfRows;
    inline void set(ptrdiff_t i, int32_t since) { decay[i] = (real)(rule.now - since); }

    // Combines the steps of n rows, whose numbers of steps are in `decay` before. Not inlined: several loops call it.
    __attribute__((noinline)) void combine(ptrdiff_t n) {
        static_assert(CAUGHT_UP % width<Vec8> == 0, "the last vector ends within the arrays");
        for (ptrdiff_t i = n; i % width<Vec8> != 0; ++i) decay[i] = 0;
        for (ptrdiff_t i = 0; i < n; i += width<Vec8>) {
            const Vec8 steps = load<Vec8>(decay + i), h = rule.inverse_rate - Vec8{};
            const DeferredProx<Vec8> found = missed_steps(rule, h, steps, any_negative((real)rule.few - steps));
            store(decay + i, found.decay);
            store(rate + i, found.rate);
        }
    }
};

template <>
struct MissedSteps<SCHEDULED> : MissedStepsOfRows {
    using MissedStepsOfRows::MissedStepsOfRows;
    inline void set(ptrdiff_t i, int32_t since) {
        const auto missed = steps_between(rule.steps[since * FOBOS_RATES], rule.steps[rule.now * FOBOS_RATES]);
        decay[i] = missed.decay;
        rate[i] = missed.rate;
    }
    inline void combine(ptrdiff_t) {}
};

// The missed steps of bodies and of weights, computed once if both have the same rate and L2 strength.
template <Metric METRIC>
struct MissedStepsOfBoth {
    MissedSteps<METRIC> of_body, of_own_weight;
    const bool same;

    MissedStepsOfBoth(const Fobos& body, const Fobos& weight)
        : of_body(body),
          of_own_weight(weight),
          same(body.inverse_rate == weight.inverse_rate && body.strength.l2 == weight.strength.l2) {}
    inline void set(ptrdiff_t i, int32_t since) {
        of_body.set(i, since);
        if (!same) of_own_weight.set(i, since);
    }
    inline void combine(ptrdiff_t n) {
        of_body.combine(n);
        if (!same) of_own_weight.combine(n);
    }
    inline const MissedSteps<METRIC>& of_weight() const { return same ? of_body : of_own_weight; }
};

// Makes the missed steps of some rows. LANES_EACH: the lanes of their bodies, so loops over them are unrolled; -1: any
// number.
template <Metric METRIC, ptrdiff_t LANES_EACH>
void catch_up(Block b, const int32_t* ids, ptrdiff_t n, ptrdiff_t first, int32_t* visited, const Fobos on_body,
              const Fobos on_weight) {
    constexpr int SLOTS = METRIC == ADAPTIVE;
    if constexpr (LANES_EACH >= 0) b.lanes = LANES_EACH;
    MissedStepsOfBoth<METRIC> missed(on_body, on_weight);
    const MissedSteps<METRIC>&of_body = missed.of_body, &of_weight = missed.of_weight();
    const bool bodies = b.body && acts(on_body.strength), weights = b.weight && acts(on_weight.strength);
    for (ptrdiff_t begin = 0; begin < n; begin += CAUGHT_UP) {
        const ptrdiff_t some = n - begin < CAUGHT_UP ? n - begin : CAUGHT_UP;
        auto row = [&](ptrdiff_t i) { return ids ? first + ids[begin + i] : begin + i; };
        for (ptrdiff_t i = 0; i < some; ++i) {
            const ptrdiff_t ahead = begin + i + ROWS_AHEAD;
            if (METRIC == SCHEDULED && !ids && ahead < n) prefetch_line(on_body.steps + visited[ahead] * FOBOS_RATES);
            int32_t& last = visited[row(i)];
            missed.set(i, last);
            last = on_body.now;
        }
        missed.combine(some);
        if (bodies)
            each_body<SLOTS, false>(b, some, row, [&](auto& phi, auto* state, ptrdiff_t i, ptrdiff_t)
                                                      __attribute__((always_inline)) {
                const ptrdiff_t next = width<decltype(+phi)> > b.lanes ? i + 1 : i;  // a vector can hold two rows
                phi = prox(phi, of_body.of_rows(SLOTS ? state[0] : phi, i, next), on_body.strength);
            });
        if (weights)
            each_weight<SLOTS>(b, some, row, [&](auto& phi, auto* state, auto at) __attribute__((always_inline)) {
                phi = prox(phi, of_weight.of_each(SLOTS ? state[0] : phi, at), on_weight.strength);
            });
    }
}

// Makes the missed steps of rows under a group penalty.
template <Metric METRIC>
void catch_up_groups(const Block b, const int32_t* ids, ptrdiff_t n, ptrdiff_t first, int32_t* visited, const Fobos on_body,
                     const Fobos on_weight) {
    constexpr int SLOTS = METRIC == ADAPTIVE;
    MissedStepsOfBoth<METRIC> missed(on_body, on_weight);
    const MissedSteps<METRIC>&of_body = missed.of_body, &of_weight = missed.of_weight();
    const PenaltyStrength strength = on_rows(b, on_body, on_weight);
    ptrdiff_t behind[CAUGHT_UP];
    int found = 0;
    auto first_step = [](const Fobos& rule, auto& phi, const auto& combined, auto& d) __attribute__((always_inline)) {
        phi = prox(phi, combined, rule.strength);
        d = 1 / combined.rate;
        return phi * d;
    };
    auto finish = [&]() {
        missed.combine(found);
        step_by_row<SLOTS>(
            b, found, [&](ptrdiff_t i) { return behind[i]; }, AllTouched{}, strength,
            [&](ptrdiff_t) { return strength.group; },
            [&](auto& phi, auto* state, auto& d, ptrdiff_t i, ptrdiff_t) {
                return first_step(on_body, phi, of_body.of_rows(SLOTS ? state[0] : phi, i, i), d);
            },
            [&](auto& phi, auto* state, auto& d, auto at) {
                return first_step(on_weight, phi, of_weight.of_each(SLOTS ? state[0] : phi, at), d);
            });
        found = 0;
    };
    for (ptrdiff_t i = 0; i < n; ++i) {
        if (METRIC == SCHEDULED && !ids && i + ROWS_AHEAD < n)
            prefetch_line(on_body.steps + visited[i + ROWS_AHEAD] * FOBOS_RATES);
        const ptrdiff_t r = ids ? first + ids[i] : i;
        if (visited[r] == on_body.now) continue;  // the prox of no steps would divide by 0
        missed.set(found, visited[r]);
        behind[found++] = r;
        visited[r] = on_body.now;
        if (found == CAUGHT_UP) finish();
    }
    finish();
}

template <Metric METRIC>
void catch_up_by(const Block& b, const int32_t* ids, ptrdiff_t n, ptrdiff_t first, int32_t* visited, const Fobos& on_body,
                 const Fobos& on_weight) {
    const bool grouped = on_rows(b, on_body, on_weight).group > 0;
    const auto run = grouped ? catch_up_groups<METRIC> : b.lanes == 8 ? catch_up<METRIC, 8> : catch_up<METRIC, -1>;
    run(b, ids, n, first, visited, on_body, on_weight);
}

void fobos_catch_up(const Block* block, const int32_t* ids, ptrdiff_t n, ptrdiff_t first, int32_t* visited,
                    const Fobos* body, const Fobos* weight) {
    const Metric metric = body->adaptive ? ADAPTIVE : body->steps ? SCHEDULED : CONSTANT;
    const auto run = metric == ADAPTIVE ? catch_up_by<ADAPTIVE> : metric == CONSTANT ? catch_up_by<CONSTANT> : catch_up_by<SCHEDULED>;
    run(*block, ids, n, first, visited, *body, *weight);
}

}  // namespace
