// The pairs of a field-aware factorization machine, computed from the sums S[p][q] of v_{j,q} x_j over the entries j of
// field p: the pairs between two fields sum to <S[p][q], S[q][p]>. So n entries of P fields cost O(n P), not O(n^2),
// and a field may have any number of entries in a sample. S[p][q] is stored at [p * P + q], padded.

#include "fmcli/base/columns.h"
#include "fmcli/base/fields.h"
#include "fmcli/models/arguments.h"
#include "fmcli/models/second_order/pairs.h"

namespace {

double field_pairs(const Factors* factors, ptrdiff_t apart, const Sample* x, const FieldEntries* entries, real* sums) {
    const Factors v = *factors;
    const FieldEntries here = *entries;
    const ptrdiff_t slots = here.slots, lanes = v.lanes, padded = pad(lanes);
    double total = 0;
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        auto sum_at = [&](ptrdiff_t p, ptrdiff_t q) { return sums + (p * slots + q) * padded + at; };
        auto dot = [&](ptrdiff_t p, ptrdiff_t q, V(&out)[N]) __attribute__((always_inline)) {
            for (int n = 0; n < N; ++n)
                out[n] += load<V>(sum_at(p, q) + n * width<V>) * load<V>(sum_at(q, p) + n * width<V>);
        };
        for (ptrdiff_t p = 0; p < slots; ++p)
            if (here.count[p] > 1)
                for (ptrdiff_t q = 0; q < slots; ++q)
                    for (int n = 0; n < N; ++n) store(sum_at(p, q) + n * width<V>, V{});
        V selves[N] = {};
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            const ptrdiff_t p = here.slot[i];
            if (p < 0) continue;
            const real xi = x->value[i];
            const real* row = v.at + x->index[i] * v.stride + at;
            real* to = sum_at(p, 0);
            if (here.count[p] == 1) {
                for (ptrdiff_t q = 0; q < slots; ++q, to += padded) {
                    V a[N];
                    load_row(row + here.field[q] * apart, lanes - at, a);
                    for (int n = 0; n < N; ++n) store(to + n * width<V>, a[n] * xi);
                }
                continue;
            }
            for (ptrdiff_t q = 0; q < slots; ++q, to += padded) {
                V a[N];
                load_row(row + here.field[q] * apart, lanes - at, a);
                for (int n = 0; n < N; ++n) {
                    a[n] *= xi;
                    if (q == p) selves[n] += a[n] * a[n];
                    store(to + n * width<V>, load<V>(to + n * width<V>) + a[n]);
                }
            }
        }
        for (ptrdiff_t p = 0; p < slots; ++p) {
            V products[2][N] = {}, squares[N] = {};
            for (ptrdiff_t q = 0; q < p; ++q) dot(p, q, products[q % 2]);  // in the order of pairs_by_field
            if (here.count[p] > 1) dot(p, p, squares);
            for (int n = 0; n < N; ++n) total += sum(products[0][n] + products[1][n] + real(0.5) * squares[n]);
        }
        for (int n = 0; n < N; ++n) total -= 0.5 * sum(selves[n]);
    });
    return total;
}

double single_field_pairs(const Factors* factors, ptrdiff_t apart, const Sample* x) {
    return pairs_by_field(FieldRows<const real>{factors->at, factors->stride, apart, *x}, factors->lanes, *x);
}

void single_field_pairs_gradient(const Factors* factors, ptrdiff_t apart, const Sample* x, double slope, real* out) {
    const Factors v = *factors;
    const ptrdiff_t padded = pad(v.lanes);
    by_run(v.lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        real* to = out + at;
        for (ptrdiff_t i = 0; i < x->nnz; ++i)
            for (ptrdiff_t j = 0; j < x->nnz; ++j) {
                if (j == i) continue;
                const ptrdiff_t later = i < j ? j : i, earlier = i < j ? i : j;  // in the order of step_of_field_pairs
                const real scale = (real)slope * (real)x->value[later] * (real)x->value[earlier];
                const real* const other = v.at + x->index[j] * v.stride + x->field[i] * apart + at;
                for (int n = 0; n < N; ++n) store(to + n * width<V>, load<V>(other + n * width<V>) * scale);
                to += padded;
            }
    });
}

void field_pairs_gradient(const Factors* factors, ptrdiff_t apart, const Sample* x, const FieldEntries* entries,
                          const real* sums, double slope, const int32_t* place, bool add, real* out) {
    const Factors v = *factors;
    const FieldEntries here = *entries;
    const ptrdiff_t slots = here.slots, padded = pad(v.lanes);
    by_run(v.lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        ptrdiff_t next = 0;
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            const ptrdiff_t p = here.slot[i];
            if (p < 0) continue;
            const bool alone = here.count[p] == 1;
            const real xi = x->value[i], scale = (real)slope * xi;
            const real* self = v.at + x->index[i] * v.stride + here.field[p] * apart + at;
            const real* others = sums + p * padded + at;
            for (ptrdiff_t q = 0; q < slots; ++q, others += slots * padded) {
                if (alone && q == p) continue;
                real* const to = out + (place ? place[i * slots + q] : next++) * padded + at;
                for (int n = 0; n < N; ++n) {
                    V g = load<V>(others + n * width<V>);
                    if (q == p) g -= load<V>(self + n * width<V>) * xi;
                    g *= scale;
                    store(to + n * width<V>, add ? load<V>(to + n * width<V>) + g : g);
                }
            }
        }
    });
}

// ---- Columns, for coordinate descent. ----
//
// The derivative of a score by v_{j,f} is x_j times the sum of x_i v_{i,field(j)} over the sample's other entries i of
// field f. The cache of a sample has the entry of each field, unless there are too many fields. Fields with several
// entries, and rows with the factors for all fields, need a search in the sample.

// A pair of the visited row with another entry of a sample.
typedef struct FieldPair {
    const real* other;  // the other feature's factors for the field of the visited feature
    real x;             // the product of the two values
    int32_t sample;     // the number of the sample in the view
    int32_t field;      // of the other entry
} FieldPair;

enum { MEETINGS = 256, NO_FIELD = -1 };

// The position of a feature among a sample's entries, by binary search.
inline ptrdiff_t place_of(const Sample& x, int32_t feature) {
    ptrdiff_t low = 0, high = x.nnz - 1;
    while (low < high) {
        const ptrdiff_t middle = (low + high) / 2;
        if (x.index[middle] < feature)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Call meet(FieldPair) for all pairs of the visited feature, sample by sample: pairs with entries of one field or, if
// the field is NO_FIELD, of all fields of the model. The factors of the pairs are prefetched before the calls.
template <class F>
inline void each_pair(const ColumnView& v, const FieldColumns& columns, F meet) {
    FieldPair found[MEETINGS];
    ptrdiff_t n = 0;
    auto meet_found = [&]() {
        for (ptrdiff_t m = 0; m < n; ++m) meet(found[m]);
        n = 0;
    };
    for (ptrdiff_t i = 0; i < v.n; ++i) __builtin_prefetch(columns.rows.indptr + v.sample[i]);
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const Sample x = sample_of(&columns.rows, v.sample[i]);
        const ptrdiff_t last = x.nnz - 1;  // together with the first entry, most of them
        for (ptrdiff_t e = 0; e <= last; e += last ? last : 1) {
            __builtin_prefetch(x.index + e);
            __builtin_prefetch(x.value + e);
            __builtin_prefetch(x.field + e);
        }
    }
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const Sample x = sample_of(&columns.rows, v.sample[i]);
        const ptrdiff_t visited = place_of(x, columns.feature);
        if (x.field[visited] >= columns.fields) continue;
        const real* factors = columns.v.at + x.field[visited] * columns.apart;
        for (ptrdiff_t e = 0; e < x.nnz; ++e) {
            if (columns.field == NO_FIELD ? x.field[e] >= columns.fields : x.field[e] != columns.field) continue;
            if (e == visited) continue;
            if (n == MEETINGS) meet_found();
            const real* other = factors + x.index[e] * columns.v.stride;
            prefetch_reals(other, columns.v.lanes);
            found[n++] = {other, (real)x.value[e] * x.value[visited], (int32_t)i, x.field[e]};
        }
    }
    meet_found();
}

// Call f(at, d) for the lanes of the view that the pair affects, LANES at a time: d are the derivatives of the score by
// the parameters from position `at` of the view: the other feature's factors times the product of the values.
template <class F>
inline void each_common(const ColumnView& v, const FieldColumns& columns, const FieldPair& m, F f) {
    const ptrdiff_t begins = columns.field == NO_FIELD ? m.field * columns.v.lanes : 0;
    const ptrdiff_t first = begins > v.at ? begins : v.at;
    const ptrdiff_t end = begins + columns.v.lanes < v.at + v.lanes ? begins + columns.v.lanes : v.at + v.lanes;
    for (ptrdiff_t at = first; at < end; at += LANES) f(at - v.at, load<Vec4>(m.other + at - begins) * m.x);
}

// A sample's entries by field, from its cache.
struct EntriesByField {
    EntriesByField(const ColumnView& v, const FieldColumns& columns, ptrdiff_t i)
        : id(reinterpret_cast<const int32_t*>(cache_of(v, i))),
          value(columns.rows.constant ? NULL : reinterpret_cast<const float*>(id + columns.fields)) {}

    const int32_t* id;
    const float* value;
};

void field_prefetch_states(const ColumnView* view, const FieldColumns* columns) {
    const ColumnView v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        __builtin_prefetch(v.sample_states + v.sample[i] * v.sample_state_size);
        const EntriesByField entries(v, *columns, i);
        __builtin_prefetch(entries.id + columns->field);
        if (entries.value) __builtin_prefetch(entries.value + columns->field);
    }
}

// The derivatives by factors for one field, if each sample has one entry of the field; otherwise returns false.
bool by_single_entries(const ColumnView& v, const FieldColumns& columns, real* q) {
    const real* other[MEETINGS];
    real x[MEETINGS];
    int32_t field = 0;  // of the visited feature, usually the same in all samples
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const EntriesByField entries(v, columns, i);
        const int32_t id = entries.id[columns.field];
        if (entries.id[field] != columns.feature)
            for (field = 0; entries.id[field] != columns.feature;)
                if (++field == columns.fields) return false;
        if (id < 0 || field == columns.field) return false;
        x[i] = v.value[i] * (real)(entries.value ? entries.value[columns.field] : columns.rows.value[0]);
        other[i] = columns.v.at + id * columns.v.stride + field * columns.apart + v.at;
        prefetch_reals(other[i], v.lanes);
    }
    for (ptrdiff_t i = 0; i < v.n; ++i)
        for (ptrdiff_t at = 0; at < v.lanes; at += LANES)
            store(q + i * v.apart + at, load<Vec4>(other[i] + at) * x[i]);
    return true;
}

void field_score_gradient(const ColumnView* view, const FieldColumns* columns, real* q) {
    const ColumnView v = *view;
    if (columns->by_field && v.n <= MEETINGS && by_single_entries(v, *columns, q)) return;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        for (ptrdiff_t at = 0; at < v.lanes; at += LANES) store(q + i * v.apart + at, Vec4{});
        weight_derivative(v, i, q);
    }
    if (!v.lanes) return;
    each_pair(v, *columns, [&](const FieldPair& m) {
        real* to = q + m.sample * v.apart;
        each_common(v, *columns, m, [&](ptrdiff_t at, Vec4 d) { store(to + at, load<Vec4>(to + at) + d); });
    });
}

void field_score_changes(const ColumnView* view, const FieldColumns* columns, const real* step, double* out) {
    const ColumnView v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i) out[i] = v.weight ? (double)step[v.lanes] * v.value[i] : 0;
    each_pair(v, *columns, [&](const FieldPair& m) {
        each_common(v, *columns, m, [&](ptrdiff_t at, Vec4 d) { out[m.sample] += sum(load<Vec4>(step + at) * d); });
    });
}

}  // namespace
