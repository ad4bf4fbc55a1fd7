// The distinct ids among some ids, in increasing order.
#ifndef FMCLI_DISTINCT_H
#define FMCLI_DISTINCT_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace fmcli {

// Writes the distinct ids, which must not be negative, to `found` (n), and the position in `found` of each id to
// `place` (n). Returns the number of distinct ids. A radix sort: comparison sorts of ten thousand ids take several
// times as long.
inline ptrdiff_t distinct(const int32_t* ids, ptrdiff_t n, int32_t* found, int32_t* place) {
    constexpr int BITS = 11, WAYS = 1 << BITS, ID = 32;  // an entry has the id above ID bits for its number
    std::vector<uint64_t> entries(static_cast<size_t>(n)), sorted(static_cast<size_t>(n));
    uint32_t every = 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        every |= static_cast<uint32_t>(ids[i]);
        entries[static_cast<size_t>(i)] = static_cast<uint64_t>(ids[i]) << ID | static_cast<uint64_t>(i);
    }
    std::vector<ptrdiff_t> next(WAYS);
    for (int shift = 0; shift < ID && every >> shift; shift += BITS) {
        auto digit = [&](uint64_t entry) { return static_cast<size_t>(entry >> (ID + shift) & (WAYS - 1)); };
        next.assign(WAYS, 0);
        for (const uint64_t entry : entries) ++next[digit(entry)];
        ptrdiff_t before = 0;
        for (ptrdiff_t& count : next) before += std::exchange(count, before);
        for (const uint64_t entry : entries) sorted[static_cast<size_t>(next[digit(entry)]++)] = entry;
        entries.swap(sorted);
    }
    ptrdiff_t count = 0;
    for (const uint64_t entry : entries) {
        const int32_t id = static_cast<int32_t>(entry >> ID);
        if (!count || found[count - 1] != id) found[count++] = id;
        place[static_cast<uint32_t>(entry)] = static_cast<int32_t>(count - 1);
    }
    return count;
}

}  // namespace fmcli

#endif
