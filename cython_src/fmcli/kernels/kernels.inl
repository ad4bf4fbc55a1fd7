// The hot functions, compiled once for each instruction set by kernels_*.cpp, which defines TABLE and NAME.
// The order of additions does not depend on the width of the machine's vectors, so results have the same bits for every
// instruction set.

#include "fmcli/kernels/kernels.h"
#include "fmcli/models/anova.inl"
#include "fmcli/models/bilinear.inl"
#include "fmcli/models/ffm.inl"
#include "fmcli/models/lifted.inl"
#include "fmcli/models/local/distances.inl"
#include "fmcli/models/products.inl"
#include "fmcli/models/second_order.inl"
#include "fmcli/penalties/value.inl"
#include "fmcli/solvers/coordinate/descent.inl"
#include "fmcli/solvers/stochastic/row_updates.inl"

// This file needs anova.inl.
#include "fmcli/models/columns_anova.inl"

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

}  // namespace

extern const Kernels TABLE;
const Kernels TABLE = {
    NAME,
#include "fmcli/kernels/table.inl"
};
