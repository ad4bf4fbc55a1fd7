// Prefetching the rows of a block.
#ifndef FMCLI_PREFETCH_H
#define FMCLI_PREFETCH_H

#include "fmcli/base/types.h"

namespace {

enum { CACHE_LINE = 64 };

// Prefetches rows first + row[i], for writing if WRITE. Always inlined, like prefetch_line.
template <bool WRITE>
inline __attribute__((always_inline)) void prefetch_rows(const Block& block, const int32_t* row, ptrdiff_t n, ptrdiff_t first) {
    const real* const base = block.body ? block.body : block.weight;
    const ptrdiff_t stride = block.body ? block.body_stride : block.weight_stride;
    const ptrdiff_t bytes = stride * (ptrdiff_t)sizeof(real);
    const bool apart = block.body && block.weight && block.weight_stride != stride;
    auto each = [&](auto prefetch) __attribute__((always_inline)) {
        for (ptrdiff_t i = 0; i < n; ++i) prefetch(first + row[i]);
    };
    auto weight = [&](ptrdiff_t r) __attribute__((always_inline)) {
        __builtin_prefetch(block.weight + r * block.weight_stride, WRITE);
    };
    auto line = [&](ptrdiff_t r) __attribute__((always_inline)) { __builtin_prefetch(base + r * stride, WRITE); };
    auto lines = [&](ptrdiff_t r) __attribute__((always_inline)) {
        const char* const p = reinterpret_cast<const char*>(base + r * stride);
        for (ptrdiff_t at = 0; at < bytes; at += CACHE_LINE) __builtin_prefetch(p + at, WRITE);
    };
    if (bytes > CACHE_LINE) {
        each(lines);
        if (apart) each(weight);
    } else if (apart)
        each([&](ptrdiff_t r) __attribute__((always_inline)) { line(r), weight(r); });
    else
        each(line);
}

}  // namespace

#endif
