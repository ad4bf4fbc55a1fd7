// Kernels of coordinate descent over the rows of a relation that a feature enters. The state of a row has
// (B, t), its factors and its weight as they are now, and the slope and the curvature of the loss by them, `width`
// numbers or rows of numbers each. A feature of value x and factors v changes B by x dv, and t by x (B - x v) dv + x dw.

#ifndef FMCLI_RELATION_ROWS_INL
#define FMCLI_RELATION_ROWS_INL

#include "fmcli/base/types.h"

namespace {

constexpr ptrdiff_t MOST_LANES = 16;  // of a slice of parameters that have curvatures

struct RelationRow {
    double* now;
    double* slope;
    double* curvature;

    RelationRow(const ColumnView& v, ptrdiff_t i, ptrdiff_t width)
        : now(reinterpret_cast<double*>(v.sample_states + v.sample[i] * v.sample_state_size)),
          slope(now + width),
          curvature(now + 2 * width) {}
};

// The quadratic of a row of a table: the row as it is now; the slope by its factors, and by its weight; the curvature;
// and 1, or 0 if the features of the row do not interact.
template <class Number>
struct RowQuadratic {
    const Number* now;
    const Number* slope;
    Number of_weight;
    const Number* curvature;
    double within = 1;
};

// Add to r and, on and above the diagonal, to G of a slice (QuadraticBound), of at most MOST_LANES factors, what a table
// row contributes in which the feature has the value x.
template <class Number>
inline void add_row_bound(const ColumnView& v, const RowQuadratic<Number>& b, double x, const real* row, ptrdiff_t width,
                          double* r, double* G) {
    const ptrdiff_t last = width - 1, size = v.lanes + v.weight;
    double h[MOST_LANES], mixed[MOST_LANES];
    const double square = x * x, slope = b.of_weight;
    const double curvature = b.curvature[last * width + last];
    const Number* const of_weight = b.curvature + last * width + v.at;
    for (ptrdiff_t f = 0; f < v.lanes; ++f) {
        h[f] = b.within * (b.now[v.at + f] - x * row[v.at + f]);
        mixed[f] = of_weight[f] + h[f] * curvature;
        r[f] += x * (b.slope[v.at + f] + h[f] * slope);
    }
    for (ptrdiff_t f = 0; f < v.lanes; ++f) {
        const Number* const between = b.curvature + (v.at + f) * width + v.at;
        for (ptrdiff_t g = 0; g < v.lanes; ++g)
            G[f * size + g] += square * (between[g] + h[f] * of_weight[g] + mixed[f] * h[g]);
        if (v.weight) G[f * size + v.lanes] += square * mixed[f];
    }
    if (v.weight) {
        r[v.lanes] += x * slope;
        G[v.lanes * size + v.lanes] += square * curvature;
    }
}

// r and G of a slice over the rows of a relation.
void relation_row_bound(const ColumnView* view, const real* row, ptrdiff_t width, double* r, double* G) {
    const ColumnView& v = *view;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const RelationRow b(v, i, width);
        add_row_bound(v, RowQuadratic<double>{b.now, b.slope, b.slope[width - 1], b.curvature}, v.value[i], row, width, r, G);
    }
}

// r, and returns the trace of G, for any number of factors.
double relation_row_squares(const ColumnView* view, const real* row, ptrdiff_t width, double* r) {
    const ColumnView& v = *view;
    const ptrdiff_t last = width - 1;
    double total = 0;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const RelationRow b(v, i, width);
        const double x = v.value[i], slope = b.slope[last], curvature = b.curvature[last * width + last];
        double trace = v.weight ? curvature : 0;
        for (ptrdiff_t f = v.at; f < v.at + v.lanes; ++f) {
            const double h = b.now[f] - x * row[f];
            r[f - v.at] += x * (b.slope[f] + h * slope);
            trace += b.curvature[f * width + f] + h * (2 * b.curvature[last * width + f] + h * curvature);
        }
        if (v.weight) r[v.lanes] += x * slope;
        total += x * x * trace;
    }
    return total;
}

// Updates the states for a step of the parameters. `row` has the parameters before the step.
void relation_row_step(const ColumnView* view, const real* row, ptrdiff_t width, const real* step) {
    const ColumnView& v = *view;
    const ptrdiff_t last = width - 1;
    for (ptrdiff_t i = 0; i < v.n; ++i) {
        const RelationRow b(v, i, width);
        const double x = v.value[i];
        double weight = v.weight ? x * step[v.lanes] : 0;
        for (ptrdiff_t f = 0; f < v.lanes; ++f) {
            const double move = x * step[f];
            const double* const curvature = b.curvature + (v.at + f) * width;
            weight += (b.now[v.at + f] - x * row[v.at + f]) * move;
            b.now[v.at + f] += move;
            for (ptrdiff_t g = 0; g < width; ++g) b.slope[g] += curvature[g] * move;
        }
        const double* const curvature = b.curvature + last * width;
        b.now[last] += weight;
        for (ptrdiff_t g = 0; g < width; ++g) b.slope[g] += curvature[g] * weight;
    }
}

}  // namespace

#endif
