// Row solvers on a run of samples, for linear, second-order and field-aware models with one output: the score, slope,
// gradient and step of one sample after another, by the same functions as in the loop for all models, but inlined. So
// the processor overlaps the steps of a sample with the score of the next sample, which calls would prevent.

#include "fmcli/base/prefetch.h"
#include "fmcli/losses/logistic.h"
#include "fmcli/solvers/stochastic/row_updates.inl"

namespace {

// How many samples ahead parameter rows are prefetched; a sample's entries are prefetched twice as early, and their
// addresses three times as early.
constexpr ptrdiff_t RUN_AHEAD = 4;

inline __attribute__((always_inline)) void prefetch_entries(const SampleRun& run, const Csr& data, ptrdiff_t i) {
    enum { IN_LINE = 16 };  // ids or values in a cache line
    if (i + 3 * RUN_AHEAD < run.end) {
        const int32_t row = run.order[i + 3 * RUN_AHEAD];
        __builtin_prefetch(data.indptr + row);
        prefetch_label(&run.label, row);
        if (run.weight) __builtin_prefetch(run.weight + row);
    }
    if (i + 2 * RUN_AHEAD < run.end) {
        // The first two cache lines are most of a row, or start the hardware's own prefetching.
        const Sample x = sample_of(&data, run.order[i + 2 * RUN_AHEAD]);
        __builtin_prefetch(x.index);
        __builtin_prefetch(x.index + IN_LINE);
        if (!data.constant) {
            __builtin_prefetch(x.value);
            __builtin_prefetch(x.value + IN_LINE);
        }
        if (run.fields) {
            __builtin_prefetch(x.field);
            __builtin_prefetch(x.field + IN_LINE);
        }
    }
}

// The parameter rows of a later sample, to be prefetched together or one by one.
struct RowsAhead {
    const Block& features;
    Sample x = {};
    ptrdiff_t i = 0;

    inline __attribute__((always_inline)) RowsAhead(const SampleRun& run, const Csr& data, const Block& features, ptrdiff_t of)
        : features(features) {
        if (of + RUN_AHEAD < run.end) x = sample_of(&data, run.order[of + RUN_AHEAD]);
    }
    inline __attribute__((always_inline)) void prefetch() {
        if (i < x.nnz) prefetch_rows<true>(features, x.index + i++, 1, 0);
    }
    inline __attribute__((always_inline)) void prefetch_rest() {
        if (i < x.nnz) prefetch_rows<true>(features, x.index + i, x.nnz - i, 0);
    }
};

// The rows of a field-aware model for the pairs of a later sample. Each pair of the current sample prefetches one of
// their cache lines, because the processor stalls at a prefetch while many others are in flight.
struct FieldRowsAhead {
    const Block& features;
    Sample x = {};
    ptrdiff_t of_feature, low = 0, high = -1;
    bool dense = true;  // whether the rows from the lowest to the highest field are few enough to prefetch all of them
    ptrdiff_t i = 0, j = 0;  // the next rows: all rows of entry i, or its row for the field of entry j
    const char *at = nullptr, *end = nullptr;  // what is left of the previous rows

    FieldRowsAhead(const SampleRun& run, const Block& features, const Csr& data, ptrdiff_t of) : features(features) {
        of_feature = run.fields * features.body_stride;
        if (of + 1 >= run.end) return;
        x = sample_of(&data, run.order[of + 1]);
        low = run.fields;
        for (ptrdiff_t j = 0; j < x.nnz; ++j) {
            low = x.field[j] < low ? x.field[j] : low;
            high = x.field[j] > high ? x.field[j] : high;
        }
        dense = (high + 1 - low) * features.body_stride * (ptrdiff_t)sizeof(real) <= CACHE_LINE * x.nnz;
    }

    inline __attribute__((always_inline)) void prefetch() {
        if (at >= end) {
            if (i == x.nnz) return;
            const real* const rows = features.body + x.index[i] * of_feature;
            const ptrdiff_t first = dense ? low : x.field[j], last = dense ? high : first;
            at = reinterpret_cast<const char*>((uintptr_t)(rows + first * features.body_stride) / CACHE_LINE * CACHE_LINE);
            end = reinterpret_cast<const char*>(rows + (last + 1) * features.body_stride);
            if (dense || ++j == x.nnz) j = 0, ++i;
        }
        __builtin_prefetch(at, 1);
        at += CACHE_LINE;
    }

    inline __attribute__((always_inline)) void prefetch_rest() {
        while (i < x.nnz || at < end) prefetch();
    }
};

// A step of a block with one row, and only a weight or only a body. The step of a body is not inlined, because few
// models have such blocks.
constexpr int32_t THE_ROW = 0;
template <class Rule>
inline void step_of_weight(Block b, real gradient, const Rule& rule) {
    b.body = nullptr;
    update_rows(b, 1, RowIds{&THE_ROW, 0}, Numbers{nullptr, &gradient, 0}, rule, rule);
}
template <class Rule>
__attribute__((noinline)) void step_of_body(Block b, const real* gradient, const Rule& rule) {
    b.weight = nullptr;
    update_rows(b, 1, RowIds{&THE_ROW, 0}, Numbers{gradient, nullptr, b.lanes}, rule, rule);
}

// The strides of rows with a body and a weight, as in row_strides of models/layout.pyx for few lanes.
struct Strides {
    ptrdiff_t body, weight;
};
constexpr Strides strides_of(ptrdiff_t lanes, int slots) {
    constexpr ptrdiff_t LINE = 64 / sizeof(real);
    const ptrdiff_t body = (1 + slots) * lanes, weight = slots == 2 ? 4 : 1 + slots, lines = (body + LINE - 1) / LINE * LINE;
    return body + 1 + slots <= lines ? Strides{lines, lines} : Strides{lines, weight};
}

// The stride of a field-aware model's rows, which have no weights.
constexpr ptrdiff_t field_stride(ptrdiff_t lanes, int slots) { return (1 + slots) * lanes; }

// The parameters of the model of a run. LANES_EACH: the lanes of the features' factors, so loops over them are
// unrolled; -1: any number. FIELDS: whether the model is field-aware.
template <ptrdiff_t LANES_EACH, bool FIELDS = false>
struct RunModel {
    Block features, weights;
    const real *bias, *constant, *beta;  // NULL: there are none

    explicit RunModel(const SampleRun& run) {
        auto block = [&](int number) { return number == NO_BLOCK ? Block{} : run.block[number]; };
        features = block(run.features);
        if constexpr (LANES_EACH >= 0) features.lanes = LANES_EACH;
        weights = run.fields ? block(run.weights) : features;
        bias = block(run.bias).weight;
        constant = block(run.constant).body;
        beta = block(run.beta).body;
    }

    // Returns the loss of a sample, like ScalarLoss, and sets the weighted slope and the sums over the entries; for a
    // field-aware model, the sums are its listed rows.
    template <class X>
    inline __attribute__((always_inline)) double loss(const SampleRun& run, ptrdiff_t row, const X& x, real* sums,
                                                      double* slope) const {
        double score = bias ? *bias : 0;
        if constexpr (FIELDS) {
            const ListedFieldRows rows(sums, x.nnz);
            rows.list({features.body, run.fields * features.body_stride, features.body_stride, x});
            score += pairs_by_field(rows, features.lanes, x);
        } else if (features.lanes)
            score += pairs({features.body, features.body_stride, features.lanes}, x, constant, beta, sums);
        if (weights.weight) score += linear_score({weights.weight, weights.weight_stride, 1}, x);
        const double value = run.loss.slope(run.loss.self, label_of(&run.label, row), &score, slope);
        *slope *= (run.weight ? run.weight[row] : 1) * run.weight_scale;
        return value;
    }
};

// Removes from a rule the penalties that threshold parameters or take whole rows; the compiler then knows this.
template <class Rule>
inline __attribute__((always_inline)) Rule smooth(Rule rule) {
    rule.strength.l1 = rule.strength.group = 0;
    return rule;
}
template <>
inline __attribute__((always_inline)) Sgd smooth(Sgd rule) {
    rule.prox.threshold = rule.strength.l1 = rule.strength.group = 0;
    return rule;
}

// The rows of a field-aware model, with what is known at compile time, as in each_sample.
template <ptrdiff_t LANES_EACH, bool PLAIN, class Rule>
inline __attribute__((always_inline)) Block rows_of_fields(const SampleRun& run) {
    Block rows = run.block[run.features];
    if constexpr (LANES_EACH >= 0) rows.lanes = LANES_EACH;
    if constexpr (PLAIN) rows.body_stride = field_stride(LANES_EACH, slots<Rule>);
    return rows;
}

// The step of these rows for the i-th sample of a run. Not inlined, because the loop over pairs needs all registers.
template <ptrdiff_t LANES_EACH, bool PLAIN, class Rule, class X>
__attribute__((noinline)) void step_of_fields(const SampleRun& run, const X x, ptrdiff_t i, real slope, const Rule& body) {
    const Block rows = rows_of_fields<LANES_EACH, PLAIN, Rule>(run);
    FieldRowsAhead ahead(run, rows, *run.data, i);
    step_of_field_pairs(rows.lanes, ListedFieldRows(run.sums, x.nnz), x, slope, PLAIN ? smooth(body) : body,
                        [&]() __attribute__((always_inline)) { ahead.prefetch(); });
    ahead.prefetch_rest();
}

// The last losses of a run, whose logarithms are added together.
struct RecentLosses {
    enum { SIZE = 64 };
    double value[SIZE], rest[SIZE];
    ptrdiff_t n = 0;

    // Takes the loss of the i-th sample, which is row(i). When SIZE losses have come together, or at the last sample,
    // calls f(j, weighted loss) for each of them.
    template <class Row, class F>
    inline __attribute__((always_inline)) void add(const SampleRun& run, ptrdiff_t i, double loss, double without, Row row, F f) {
        value[n] = loss;
        rest[n++] = without;
        if (n < SIZE && i + 1 < run.stop) return;
        if (run.loss.logs) add_logs(value, rest, n);
        const ptrdiff_t first = i + 1 - n;
        for (ptrdiff_t j = 0; j < n; ++j) f(first + j, (run.weight ? run.weight[row(first + j)] : 1) * value[j]);
        n = 0;
    }
};

// The default numbers of lanes, for which kernels are compiled.
constexpr ptrdiff_t USUAL = 8, USUAL_OF_FIELDS = 4;

inline bool has_ones(const Csr& data) { return data.constant && *data.value == 1; }

// The properties of a whole run are known at compile time. ONES: whether all values are 1; PLAIN: whether only features
// and a bias have rows, their rules are smooth, and a given number of lanes has the usual strides. Not inlined: one
// function of all loops takes longer to compile.
template <ptrdiff_t LANES_EACH, bool ONES, bool PLAIN, bool FIELDS, class Rule>
__attribute__((noinline)) double each_sample(const SampleRun run, const Rule* body, const Rule* weight, double total) {
    const Csr data = *run.data;
    const Rule on_body = PLAIN ? smooth(body[run.features]) : body[run.features];
    const Rule& of_weights = weight[FIELDS && run.weights != NO_BLOCK ? run.weights : run.features];
    const Rule on_weight = PLAIN ? smooth(of_weights) : of_weights;
    RunModel<LANES_EACH, FIELDS> model(run);
    if constexpr (PLAIN) model.constant = model.beta = nullptr;
    if constexpr (FIELDS) {
        model.features = rows_of_fields<LANES_EACH, PLAIN, Rule>(run);
    } else if constexpr (PLAIN && LANES_EACH >= 0) {
        constexpr Strides strides = strides_of(LANES_EACH, slots<Rule>);
        model.features.body_stride = strides.body, model.features.weight_stride = strides.weight;
    }
    const Block features = model.features;
    const real *const constant = model.constant, *const beta = model.beta;
    real *const of_constant = run.buffer, *const of_beta = run.buffer + (constant ? features.lanes : 0);
    RecentLosses losses;
    // Rows of several cache lines are prefetched with the steps of a sample's rows, because the processor stalls at a
    // prefetch while many others are in flight.
    constexpr bool APART = !FIELDS && LANES_EACH < 0;
    for (ptrdiff_t i = run.start; i < run.stop; ++i) {
        const ptrdiff_t row = run.order[i];
        const KnownSample<ONES> x = {sample_of(&data, row)};
        if (run.before) run.before(run.solver, i);
        double slope[2];
        const double loss = model.loss(run, row, x, run.sums, slope);
        prefetch_entries(run, data, i);  // here, the slope's chain of operations leaves time
        RowsAhead ahead(run, data, FIELDS ? model.weights : features, i);
        if constexpr (!APART) ahead.prefetch_rest();
        // One by one, so the sum does not depend on how an epoch is divided.
        losses.add(run, i, loss, slope[1], [&](ptrdiff_t j) { return run.order[j]; }, [&](ptrdiff_t, double one) { total += one; });
        if (constant || beta) structural_gradient(run.sums, constant, beta, features.lanes, *slope, of_constant, of_beta);
        if (run.bias != NO_BLOCK) step_of_weight(run.block[run.bias], (real)*slope, weight[run.bias]);
        const PairsFormula<ONES> gradient = {x.value, run.sums, beta, (real)*slope, features.lanes};
        if constexpr (FIELDS) {
            step_of_fields<LANES_EACH, PLAIN>(run, x, i, (real)*slope, body[run.features]);
            if (model.weights.weight) update_rows(model.weights, x.nnz, RowIds{x.index, 0}, gradient, on_body, on_weight);
            continue;
        }
        update_rows(features, x.nnz, RowIds{x.index, 0}, gradient, on_body, on_weight, [&]() __attribute__((always_inline)) {
            if constexpr (APART) ahead.prefetch();
        });
        if constexpr (APART) ahead.prefetch_rest();
        if (constant) step_of_body(run.block[run.constant], of_constant, body[run.constant]);
        if (run.trains_beta) step_of_body(run.block[run.beta], of_beta, body[run.beta]);
    }
    return total;
}

template <class Rule>
double samples(const SampleRun* run, const Rule* body, const Rule* weight, double total) {
    constexpr Strides strides = strides_of(USUAL, slots<Rule>);
    constexpr ptrdiff_t of_fields = field_stride(USUAL_OF_FIELDS, slots<Rule>);
    const int number = run->features, weights = run->fields && run->weights != NO_BLOCK ? run->weights : number;
    const Block& features = run->block[number];
    auto is_smooth = [](const Rule& rule) { return rule.strength.l1 == 0 && rule.strength.group == 0; };
    const bool plain = run->constant == NO_BLOCK && run->beta == NO_BLOCK && is_smooth(body[number]) &&
                       is_smooth(weight[weights]);
    if (run->fields) {
        if (plain && features.lanes == USUAL_OF_FIELDS && features.body_stride == of_fields)
            return each_sample<USUAL_OF_FIELDS, false, true, true>(*run, body, weight, total);  // values have norm 1
        return each_sample<-1, false, false, true>(*run, body, weight, total);
    }
    if (features.lanes == 0) return each_sample<0, false, false, false>(*run, body, weight, total);
    const bool ones = plain && has_ones(*run->data);
    if (features.lanes != USUAL) {
        if (ones) return each_sample<-1, true, true, false>(*run, body, weight, total);
        return each_sample<-1, false, false, false>(*run, body, weight, total);
    }
    if (ones && features.weight && features.body_stride == strides.body && features.weight_stride == strides.weight)
        return each_sample<USUAL, true, true, false>(*run, body, weight, total);
    return each_sample<USUAL, false, false, false>(*run, body, weight, total);
}

// The names in the list of kernels.
constexpr auto sgd_samples = samples<Sgd>;
constexpr auto adagrad_samples = samples<Adagrad>;
constexpr auto ftrl_samples = samples<Ftrl>;

// The first phase of a round: the scores of samples, and what their gradients depend on. `order` of the run is not
// used: the samples are consecutive rows.
template <ptrdiff_t LANES_EACH, bool ONES>
void each_gradient(const RoundSamples samples) {
    const SampleRun& run = samples.run;
    const Csr data = *run.data;
    const RunModel<LANES_EACH> model(run);
    const Block features = model.features;
    const real *const constant = model.constant, *const beta = model.beta;
    const ptrdiff_t lanes = features.lanes;
    auto prefetch = [&](ptrdiff_t i) __attribute__((always_inline)) {
        const Sample x = sample_of(&data, i);
        prefetch_rows<true>(features, x.index, x.nnz, 0);
    };
    RecentLosses losses;
    for (ptrdiff_t i = run.start; i < run.stop && i < run.start + RUN_AHEAD; ++i) prefetch(i);
    for (ptrdiff_t i = run.start; i < run.stop; ++i) {
        if (i + RUN_AHEAD < run.stop) prefetch(i + RUN_AHEAD);
        const ptrdiff_t at = i - samples.begin;
        double slope[2];
        const double loss = model.loss(run, i, KnownSample<ONES>{sample_of(&data, i)}, run.sums, slope);
        losses.add(run, i, loss, slope[1], [](ptrdiff_t j) { return j; },
                   [&](ptrdiff_t j, double one) { samples.loss[j - samples.begin] = one; });
        samples.slope[at] = (real)*slope;
        for (ptrdiff_t f = 0; f < lanes; f += LANES) store(samples.sums + at * lanes + f, load<Vec4>(run.sums + f));
        if (model.bias) samples.of_bias[at] = (real)*slope;
        if (constant || beta)
            structural_gradient(run.sums, constant, beta, lanes, *slope, samples.of_constant + at * lanes,
                                samples.of_beta + at * lanes);
    }
}

void round_gradients(const RoundSamples* samples) {
    const SampleRun& run = samples->run;
    const bool usual = run.block[run.features].lanes == USUAL;
    if (has_ones(*run.data))
        (usual ? each_gradient<USUAL, true> : each_gradient<-1, true>)(*samples);
    else
        (usual ? each_gradient<USUAL, false> : each_gradient<-1, false>)(*samples);
}

}  // namespace
