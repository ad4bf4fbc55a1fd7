// The hot functions, compiled once for each instruction set by the .cpp files here, which define TABLE and NAME.
// The order of additions does not depend on the width of the machine's vectors, so results have the same bits for every
// instruction set.

#include "fmcli/base/prefetch.h"
#include "fmcli/kernels/kernels.h"
#include "fmcli/models/polynomial/anova.inl"
#include "fmcli/models/bilinear.inl"
#include "fmcli/models/ffm.inl"
#include "fmcli/models/polynomial/lifted.inl"
#include "fmcli/models/local/distances.inl"
#include "fmcli/models/poly2.inl"
#include "fmcli/models/polynomial/products.inl"
#include "fmcli/models/second_order.inl"
#include "fmcli/penalties/value.inl"
#include "fmcli/solvers/coordinate/block_rows.inl"
#include "fmcli/solvers/coordinate/descent.inl"
#include "fmcli/solvers/stochastic/catch_up.inl"
#include "fmcli/solvers/stochastic/row_updates.inl"

// These files need anova.inl, and second_order.inl and row_updates.inl.
#include "fmcli/models/polynomial/columns_anova.inl"
#include "fmcli/solvers/stochastic/block_updates.inl"
#include "fmcli/solvers/stochastic/sample_run.inl"

namespace {

void prefetch(const Block* block, const int32_t* row, ptrdiff_t n, ptrdiff_t first) {
    prefetch_rows<false>(*block, row, n, first);
}

}  // namespace

extern const Kernels TABLE;
const Kernels TABLE = {
    NAME,
#include "fmcli/kernels/table.inl"
};
