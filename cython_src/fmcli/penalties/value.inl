// The value of the penalty of all rows of a block.

#include "fmcli/penalties/elementwise.h"
#include "fmcli/penalties/group_penalties.h"

namespace {

typedef double Doubles __attribute__((vector_size(LANES * sizeof(double))));

inline double total(Doubles v) { return (v[0] + v[2]) + (v[1] + v[3]); }

// The value of the group penalty of a row. `squares` is the sum of squares of its parameters, which l2 needs anyway.
inline double value_of_row(GroupNorm, const Block&, ptrdiff_t, double squares) { return GroupNorm::value(squares); }

template <class Penalty>
inline double value_of_row(Penalty penalty, const Block& b, ptrdiff_t row, double) {
    double sum = 0;
    for (ptrdiff_t at = 0; b.body && at < b.lanes; ++at) sum = penalty.add(sum, b.body[row * b.body_stride + at]);
    return penalty.value(b.weight ? penalty.add(sum, b.weight[row * b.weight_stride]) : sum);
}

void add_penalty(const Block* block, ptrdiff_t rows, const ExactStrength* body, const ExactStrength* weight, double* out) {
    const Block b = *block;
    const bool grouped = weight->group > 0;
    PenaltySums<Doubles> lanes;
    PenaltySums<double> bodies, weights;
    double groups = 0;
    for (ptrdiff_t r = 0; r < rows; ++r) {  // body and weight of a row together: they are adjacent in memory
        PenaltySums<Doubles> row;
        double w = 0;
        if (b.body)
            for (ptrdiff_t at = 0; at < b.lanes; at += LANES) {
                const Vec4 size = magnitude(load<Vec4>(b.body + r * b.body_stride + at));
                lanes.magnitudes += __builtin_convertvector(size, Doubles);
                row.add(__builtin_convertvector(size, Doubles));
            }
        if (b.weight) w = magnitude(b.weight[r * b.weight_stride]);
        weights.add(w);
        lanes.squares += row.squares;
        if (grouped)
            GroupPenalties::with(weight->group_penalty, [&](auto penalty) {
                groups += value_of_row(penalty, b, r, total(row.squares) + w * w);
            });
    }
    bodies.magnitudes = total(lanes.magnitudes);
    bodies.squares = total(lanes.squares);
    *out += l2_term(bodies, *body) + l2_term(weights, *weight);
    *out += l1_term(bodies, *body) + l1_term(weights, *weight) + weight->group * groups;
}

}  // namespace
