// The hot functions, compiled once for each instruction set by kernels_*.cpp, which defines TABLE and NAME.
// No sum depends on the width of the machine's vectors, so every instruction set gives the same bits.

#include "kernels.h"
#include "rules.h"
#include "vector.h"

namespace {

enum { CACHE_LINE = 64 };

void prefetch(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first) {
    const bool joined = block->body && block->weight_stride == block->body_stride;
    for (int part = 0; part < 2; ++part) {
        const real* base = part ? block->weight : block->body;
        if (!base || (part && joined)) continue;
        const ptrdiff_t stride = part ? block->weight_stride : block->body_stride;
        const ptrdiff_t bytes = stride * (ptrdiff_t)sizeof(real);
        for (ptrdiff_t i = 0; i < n; ++i) {
            const char* p = reinterpret_cast<const char*>(base + (first + row[i]) * stride);
            for (ptrdiff_t at = 0; at < bytes; at += CACHE_LINE) __builtin_prefetch(p + at);
        }
    }
}

double linear(const Block* block, const Sample* x, ptrdiff_t first) {
    const real* w = block->weight + first * block->weight_stride;
    const ptrdiff_t stride = block->weight_stride, n = x->nnz;
    double sums[4] = {0, 0, 0, 0};  // four chains of additions instead of one
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; ++j) sums[j] += (double)w[x->index[i + j] * stride] * x->value[i + j];
    for (; i < n; ++i) sums[i & 3] += (double)w[x->index[i] * stride] * x->value[i];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

void linear_gradient(const Sample* x, double slope, real* out) {
    const real s = (real)slope;
    for (ptrdiff_t i = 0; i < x->nnz; ++i) out[i] = s * x->value[i];
}

// N vectors V side by side, as a type that a generic lambda can take apart.
template <class V, int N>
struct Run {
    using Vector = V;
    static constexpr int count = N;
};

// f(at, Run) for the runs that together cover `lanes`, padded to LANES: at most 16 lanes each, so that a run's
// accumulators stay in registers.
template <class F>
inline void by_run(ptrdiff_t lanes, F f) {
    const ptrdiff_t padded = (lanes + LANES - 1) / LANES * LANES;
    ptrdiff_t at = 0;
    for (; at + 16 <= padded; at += 16) f(at, Run<Vec8, 2>{});
    if (at + 8 <= padded) {
        f(at, Run<Vec8, 1>{});
        at += 8;
    }
    if (at < padded) f(at, Run<Vec4, 1>{});
}

// Rows mapped from a model file end where their factors end: what lies behind must neither be read nor counted.
template <class V, int N>
inline void load_row(const real* p, ptrdiff_t left, V (&v)[N]) {
    constexpr ptrdiff_t size = N * width<V>;
    if (left >= size) {
        for (int n = 0; n < N; ++n) v[n] = load<V>(p + n * width<V>);
        return;
    }
    real whole[size] = {};
    for (ptrdiff_t i = 0; i < left; ++i) whole[i] = p[i];
    for (int n = 0; n < N; ++n) v[n] = load<V>(whole + n * width<V>);
}

double second_order(const Block* block, const Sample* x, ptrdiff_t first, const real* constant, real* sums) {
    const real* rows = block->body + first * block->body_stride;
    const ptrdiff_t stride = block->body_stride, lanes = block->lanes;
    double total = 0;
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V s[N] = {}, q[N] = {}, t[N] = {}, r[N] = {};  // even and odd entries: two chains of additions instead of one
        if (constant) {
            load_row(constant + at, lanes - at, s);
            for (int n = 0; n < N; ++n) q[n] = s[n] * s[n];
        }
        auto add = [&](ptrdiff_t i, V(&sum)[N], V(&squares)[N]) __attribute__((always_inline)) {
            const real xi = x->value[i];
            V v[N];
            load_row(rows + x->index[i] * stride + at, lanes - at, v);
            for (int n = 0; n < N; ++n) {
                V a = v[n] * xi;
                sum[n] += a;
                squares[n] += a * a;
            }
        };
        ptrdiff_t i = 0;
        for (; i + 2 <= x->nnz; i += 2) {
            add(i, s, q);
            add(i + 1, t, r);
        }
        if (i < x->nnz) add(i, s, q);
        for (int n = 0; n < N; ++n) {
            V all = s[n] + t[n];
            store(sums + at + n * width<V>, all);
            total += sum(all * all - (q[n] + r[n]));
        }
    });
    return 0.5 * total;
}

void second_order_gradient(const Block* block, const Sample* x, ptrdiff_t first, const real* sums, double slope,
                           real* out) {
    const real* rows = block->body + first * block->body_stride;
    const ptrdiff_t stride = block->body_stride, lanes = block->lanes;
    by_run(lanes, [&](ptrdiff_t at, auto run) {
        using V = typename decltype(run)::Vector;
        constexpr int N = decltype(run)::count;
        V s[N];
        for (int n = 0; n < N; ++n) s[n] = load<V>(sums + at + n * width<V>);
        for (ptrdiff_t i = 0; i < x->nnz; ++i) {
            const real xi = x->value[i], scale = (real)slope * xi;
            const real* v = rows + x->index[i] * stride + at;
            for (int n = 0; n < N; ++n)
                store(out + i * lanes + at + n * width<V>, scale * (s[n] - load<V>(v + n * width<V>) * xi));
        }
    });
}

typedef double Doubles __attribute__((vector_size(LANES * sizeof(double))));

void magnitudes(const Block* block, ptrdiff_t rows, double* out) {
    const Block b = *block;
    Doubles sum = {}, squares = {};
    double weights = 0, weight_squares = 0;
    for (ptrdiff_t r = 0; r < rows; ++r) {  // body and weight of a row in one go: they are neighbours in memory
        if (b.body)
            for (ptrdiff_t at = 0; at < b.lanes; at += LANES) {
                Doubles v = __builtin_convertvector(magnitude(load<Vec4>(b.body + r * b.body_stride + at)), Doubles);
                sum += v;
                squares += v * v;
            }
        if (b.weight) {
            const double w = b.weight[r * b.weight_stride];
            weights += w < 0 ? -w : w;
            weight_squares += w * w;
        }
    }
    out[0] = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    out[1] = (squares[0] + squares[2]) + (squares[1] + squares[3]);
    out[2] = weights;
    out[3] = weight_squares;
}

// State slots beside each parameter.
template <class Rule>
constexpr int slots = 0;
template <>
constexpr int slots<Adagrad> = 1;
template <>
constexpr int slots<Ftrl> = 2;

// What is read inside these loops is copied into locals first: to the compiler, a store to a row could change anything
// that lies behind a pointer.

// on_body(phi, state, at) for every vector of the n rows' bodies, row(i) being the id of the i-th row, and `at` counting
// lanes as a slab does.
template <int SLOTS, class Row, class F>
inline __attribute__((always_inline)) void each_body(const Block b, ptrdiff_t n, Row row, F on_body) {
    for (ptrdiff_t i = 0; i < n; ++i) {
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

template <class Rule>
void step(const Block* block, const Slab* slab, const Rule* body, const Rule* weight) {
    const Block b = *block;
    const Slab s = *slab;
    const Rule on_body = *body, on_weight = *weight;
    auto row = [&](ptrdiff_t i) { return s.first + s.row[i]; };
    if (b.body)
        each_body<slots<Rule>>(b, s.n, row, [&](auto& phi, auto* state, ptrdiff_t at) __attribute__((always_inline)) {
            update(on_body, phi, state, load_like(phi, s.body + at));
        });
    if (b.weight)
        each_weight<slots<Rule>>(b, s.n, row, [&](auto& phi, auto* state, auto at) __attribute__((always_inline)) {
            update(on_weight, phi, state, gather_like(phi, [&](int r) { return s.weight[at(r)]; }));
        });
}

// f(rule, phi, state) for all rows of a block.
template <class Rule, class F>
void all_rows(const Block* block, ptrdiff_t rows, const Rule* body, const Rule* weight, F f) {
    const Block b = *block;
    auto row = [](ptrdiff_t i) { return i; };
    if (b.body)
        each_body<slots<Rule>>(b, rows, row, [&](auto& phi, auto* state, ptrdiff_t) { f(*body, phi, state); });
    if (b.weight)
        each_weight<slots<Rule>>(b, rows, row, [&](auto& phi, auto* state, auto) { f(*weight, phi, state); });
}

void ftrl_revisit(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight) {
    all_rows(block, rows, body, weight, [](const Ftrl& rule, auto& phi, auto* state) { revisit(rule, phi, state); });
}

void ftrl_start(const Block* block, ptrdiff_t rows, const Ftrl* body, const Ftrl* weight) {
    all_rows(block, rows, body, weight, [](const Ftrl& rule, auto& phi, auto* state) { start(rule, phi, state); });
}

}  // namespace

extern const Kernels TABLE;
const Kernels TABLE = {
    NAME,          prefetch,      linear,        linear_gradient, second_order, second_order_gradient, magnitudes,
    step<Sgd>,     step<Adagrad>, step<Ftrl>,    ftrl_revisit,    ftrl_start,
};
