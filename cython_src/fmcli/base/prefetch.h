// Prefetching the rows of a block.
#ifndef FMCLI_PREFETCH_H
#define FMCLI_PREFETCH_H

#include "fmcli/base/types.h"

namespace {

enum { CACHE_LINE = 64 };

// Prefetches the rows first + row[i], for writing if WRITE. Always inlined, as prefetch_line.
template <bool WRITE>
inline __attribute__((always_inline)) void prefetch_rows(const Block& block, const int32_t* row, ptrdiff_t n, ptrdiff_t first) {
    const bool together = block.body && block.weight_stride == block.body_stride;
    for (int part = 0; part < 2; ++part) {
        const real* base = part ? block.weight : block.body;
        if (!base || (part && together)) continue;
        const ptrdiff_t stride = part ? block.weight_stride : block.body_stride;
        const ptrdiff_t bytes = stride * (ptrdiff_t)sizeof(real);
        base += first * stride;
        if (bytes <= CACHE_LINE)
            for (ptrdiff_t i = 0; i < n; ++i) __builtin_prefetch(base + row[i] * stride, WRITE);
        else
            for (ptrdiff_t i = 0; i < n; ++i) {
                const char* p = reinterpret_cast<const char*>(base + row[i] * stride);
                for (ptrdiff_t at = 0; at < bytes; at += CACHE_LINE) __builtin_prefetch(p + at, WRITE);
            }
    }
}

}  // namespace

#endif
