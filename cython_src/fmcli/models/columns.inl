// Prefetching for all models, and columns of parameters that several kinds of models share, for coordinate descent.

#include "fmcli/base/columns.h"
#include "fmcli/base/prefetch.h"
#include "fmcli/base/vector.h"

namespace {

void prefetch(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first) {
    prefetch_rows<false>(*block, row, n, first);
}

void prefetch_sample_states(const ColumnView* view) {
    const ColumnView& v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const char* p = v.sample_states + v.sample[i] * v.sample_state_size;
        for (ptrdiff_t at = 0; at < v.sample_state_size; at += 64) __builtin_prefetch(p + at);
    }
}

void weight_score_gradient(const ColumnView* v, real* q) {
    for (ptrdiff_t i = 0; i < v->n; ++i) weight_derivative(*v, i, q);
}

void cached_score_gradient(const ColumnView* v, ptrdiff_t behind, real* q) {
    for (ptrdiff_t i = 0; i < v->n; ++i)
        for (ptrdiff_t at = 0; at < v->lanes; at += LANES)
            store(q + i * v->apart + at, load<Vec4>(cache_of(*v, i) + behind + v->at + at));
}

// Caches begin with the values of linear functions z, `functions` functions of `lanes` reals each. The derivative of
// their product by one z is the product of the others.
void product_score_gradient(const ColumnView* view, int functions, ptrdiff_t lanes, real* q) {
    const ColumnView v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const real x = v.value[i];
        const real* z = cache_of(v, i);
        for (ptrdiff_t at = 0; at < v.lanes; at += LANES) {
            const ptrdiff_t visited = (v.at + at) / lanes, f = (v.at + at) % lanes;
            Vec4 d = Vec4{} + x;
            for (ptrdiff_t t = 0; t < functions; ++t)
                if (t != visited) d *= load<Vec4>(z + t * lanes + f);
            store(q + i * v.apart + at, d);
        }
        weight_derivative(v, i, q);
    }
}

// Multiply the derivatives q by the parameters' share in the score, the cache's number at index `behind`.
void share_score_gradient(const ColumnView* view, ptrdiff_t behind, real* q) {
    const ColumnView v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i, q += v.apart) {
        const real share = cache_of(v, i)[behind];
        for (ptrdiff_t at = 0; at < v.lanes; at += LANES) store(q + at, load<Vec4>(q + at) * share);
        if (v.weight) q[v.lanes] *= share;
    }
}

}  // namespace
