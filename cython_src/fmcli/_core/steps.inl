// What solvers do to the rows of a block.

#include "kernels.h"
#include "rules.h"

namespace {

typedef double Doubles __attribute__((vector_size(LANES * sizeof(double))));

inline double total(Doubles v) { return (v[0] + v[2]) + (v[1] + v[3]); }

void magnitudes(const Block* block, ptrdiff_t rows, double* out) {
    const Block b = *block;
    Doubles sums = {}, squares = {};
    double weights = 0, weight_squares = 0, norms = 0;
    for (ptrdiff_t r = 0; r < rows; ++r) {  // body and weight of a row in one go: they are neighbours in memory
        Doubles row = {};
        double w = 0;
        if (b.body)
            for (ptrdiff_t at = 0; at < b.lanes; at += LANES) {
                Doubles v = __builtin_convertvector(magnitude(load<Vec4>(b.body + r * b.body_stride + at)), Doubles);
                sums += v;
                row += v * v;
            }
        if (b.weight) w = b.weight[r * b.weight_stride];
        weights += w < 0 ? -w : w;
        weight_squares += w * w;
        squares += row;
        if (b.by_row) norms += __builtin_sqrt(total(row) + w * w);
    }
    out[0] = total(sums);
    out[1] = total(squares);
    out[2] = weights;
    out[3] = weight_squares;
    out[4] = norms;
}

// What is read inside these loops is copied into locals first: to the compiler, a store to a row could change anything
// that lies behind a pointer.

// on_body(phi, state, at) for every vector of the n rows' bodies, row(i) being the id of the i-th row, and `at` counting
// lanes as a slab does.
template <int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void each_body(const Block b, ptrdiff_t n, Row row, F on_body) {
    ptrdiff_t i = 0;
    if (b.lanes == width<Vec4>)  // two short rows fill a vector, and a root or a division costs as much for half of one
        for (; i + 2 <= n; i += 2) {
            real* const p = b.body + row(i) * b.body_stride;
            real* const q = b.body + row(i + 1) * b.body_stride;
            Vec8 phi = join(load<Vec4>(p), load<Vec4>(q)), state[SLOTS + 1];
            for (int j = 1; j <= SLOTS; ++j) state[j - 1] = join(load<Vec4>(p + j * LANES), load<Vec4>(q + j * LANES));
            on_body(phi, state, i * LANES);
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
            on_body(phi, state, i * b.lanes + at);
            store(p + at, phi);
            for (int j = 0; j < SLOTS; ++j) store(p + (j + 1) * b.lanes + at, state[j]);
        };
        ptrdiff_t at = 0;
        for (; at + 8 <= b.lanes; at += 8) visit(at, Vec8{});
        if (at < b.lanes) visit(at, Vec4{});
    }
}

// A vector of numbers from as many places.
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

// The weights of as many rows as V is wide, from the i-th on; where fewer are left the last is taken again, to the same
// result.
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

// on_weight(phi, state, at) for the n rows' weights, several rows at a time; at(r) is the r-th one's place in a slab.
template <int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void each_weight(const Block b, ptrdiff_t n, Row row, F on_weight) {
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) some_weights<Vec8, SLOTS>(b, i, i + 8, row, on_weight);
    for (; i < n; i += 4) some_weights<Vec4, SLOTS>(b, i, n, row, on_weight);
}

// A vector of a row's body, or its weight as a vector of which only the first entry exists.
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

// f(V, p, apart, at, whole) for each vector of one row: where it begins, how far apart its state slots are, its place in
// a slab's row, and whether it is one of the body's.
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

// Shrinks a row as a whole, after soft-thresholding, by its group penalty: what is left of 1 when the norm loses `loss`.
inline real left_of_norm(double squares, double loss) {
    const double norm = __builtin_sqrt(squares);
    return norm > loss ? (real)(1 - loss / norm) : 0;
}

// A step on rows that are groups: a row shares one h, whose state grows by the mean of g^2 over the row.
template <class Rule, class Row, class Target>
void step_by_row(const Block b, ptrdiff_t n, Row row, const Slab* s, const Rule body, const Rule weight, Target target) {
    const Strength strength = b.body ? body.strength : weight.strength;
    for (ptrdiff_t i = 0; i < n; ++i) {
        auto gradient = [&](auto v, ptrdiff_t at, bool whole) __attribute__((always_inline)) {
            using V = decltype(v);
            return !s ? V{} : take<V>(whole ? s->body + i * b.lanes + at : s->weight + i, whole);
        };
        double squares = 0, norm = 0;
        each_vector(b, row(i), [&](auto v, real*, ptrdiff_t, ptrdiff_t at, bool whole) __attribute__((always_inline)) {
            auto g = gradient(v, at, whole);
            squares += sum(g * g);
        });
        const real square = (real)(squares / b.columns);
        real h_row = 0;
        each_vector(b, row(i), [&](auto v, real* p, ptrdiff_t apart, ptrdiff_t at, bool whole) __attribute__((always_inline)) {
            using V = decltype(v);
            V state[slots<Rule> + 1], h;
            for (int j = 0; j < slots<Rule>; ++j) state[j] = take<V>(p + (j + 1) * apart, whole);
            const Rule& rule = whole ? body : weight;
            V hu = target(rule, take<V>(p, whole), state, gradient(v, at, whole), square - V{}, h);
            V c = soft(hu, rule.strength.l1);
            norm += sum(c * c);
            h_row = h[0];
            put(p, c, whole);
            for (int j = 0; j < slots<Rule>; ++j) put(p + (j + 1) * apart, state[j], whole);
        });
        const real scale = left_of_norm(norm, strength.group) / (h_row + strength.l2);
        each_vector(b, row(i), [&](auto v, real* p, ptrdiff_t, ptrdiff_t, bool whole) __attribute__((always_inline)) {
            using V = decltype(v);
            put(p, take<V>(p, whole) * scale, whole);
        });
    }
}

template <class Rule>
void step(const Block* block, const Slab* slab, const Rule* body, const Rule* weight) {
    const Block b = *block;
    const Slab s = *slab;
    const Rule on_body = *body, on_weight = *weight;
    auto row = [&](ptrdiff_t i) { return s.first + s.row[i]; };
    if (b.by_row) {
        step_by_row(b, s.n, row, &s, on_body, on_weight,
                    [](const auto& rule, auto phi, auto* state, auto g, auto square, auto& h)
                        __attribute__((always_inline)) { return target(rule, phi, state, g, square, h); });
        return;
    }
    if (b.body)
        each_body<slots<Rule>>(b, s.n, row, [&](auto& phi, auto* state, ptrdiff_t at) __attribute__((always_inline)) {
            update(on_body, phi, state, load_like(phi, s.body + at));
        });
    if (b.weight)
        each_weight<slots<Rule>>(b, s.n, row, [&](auto& phi, auto* state, auto at) __attribute__((always_inline)) {
            update(on_weight, phi, state, gather_like(phi, [&](int r) { return s.weight[at(r)]; }));
        });
}

void ftrl_revisit(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight) {
    const Block b = *block;
    if (b.by_row) {
        step_by_row(b, rows, [](ptrdiff_t i) { return i; }, nullptr, *body, *weight,
                    [](const Ftrl& rule, auto, auto* state, auto, auto, auto& h) { return revisit(rule, state, h); });
        return;
    }
    for (ptrdiff_t r = 0; r < rows; ++r)
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t apart, ptrdiff_t, bool whole) {
            using V = decltype(v);
            const Ftrl& rule = whole ? *body : *weight;
            const V state[2] = {take<V>(p + apart, whole), take<V>(p + 2 * apart, whole)};
            V h, hu = revisit(rule, state, h);
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

void fobos_refresh(const Block* block, const int32_t* ids, ptrdiff_t n, ptrdiff_t first, int32_t* visited,
                   const Fobos* body, const Fobos* weight) {
    const Block b = *block;
    const Fobos on_body = *body, on_weight = *weight;
    const bool adaptive = on_body.inverse_rate > 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        const ptrdiff_t r = ids ? first + ids[i] : i;
        const int32_t since = visited[r];
        if (since == on_body.now) continue;
        visited[r] = on_body.now;
        Missed<real> of_body = {}, of_weight = {};
        if (!adaptive) {
            of_body = missed(on_body, since);
            of_weight = on_weight.decay == on_body.decay ? of_body : missed(on_weight, since);
        }
        double norm = 0;
        real shrink_row = 0;
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t apart, ptrdiff_t, bool whole) __attribute__((always_inline)) {
            using V = decltype(v);
            const Fobos& rule = whole ? on_body : on_weight;
            const Missed<real>& of_row = whole ? of_body : of_weight;
            const Missed<V> m = adaptive ? missed(rule, since, take<V>(p + apart, whole))
                                         : Missed<V>{of_row.decay - V{}, of_row.shrink - V{}};
            const V phi = soft(take<V>(p, whole) * m.decay, m.shrink * rule.strength.l1);
            if (b.by_row) norm += sum(phi * phi);
            shrink_row = m.shrink[0];
            put(p, phi, whole);
        });
        if (!b.by_row) continue;
        const real scale = left_of_norm(norm, shrink_row * (b.body ? on_body : on_weight).strength.group);
        each_vector(b, r, [&](auto v, real* p, ptrdiff_t, ptrdiff_t, bool whole) __attribute__((always_inline)) {
            using V = decltype(v);
            put(p, take<V>(p, whole) * scale, whole);
        });
    }
}

}  // namespace
