// What is known about the cells of a table that were read last: most cells have occurred before.
#ifndef FMCLI_RECENT_H
#define FMCLI_RECENT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fmcli/data/id.h"

namespace fmcli {

// A table that stays in the caches of a core. A cell takes the place of another one with the same hash.
class RecentCells {
  public:
    struct Cell {
        uint64_t low = 0, high = 0;  // the bytes of the cell, and their number
        uint32_t column = 0;
        int32_t value = UNKNOWN;
    };

    static constexpr int32_t UNKNOWN = -2;

    // Forgets all cells. Those to find lie from `begin` to `end`.
    void start(const char* begin, const char* end) {
        bits_ = FEWEST_BITS;
        while (bits_ < MOST_BITS && BYTES << bits_ < end - begin) ++bits_;
        cells_.assign(size_t{1} << bits_, Cell{});
        end_ = end;
    }

    // The place of a cell, whose value is UNKNOWN at the first time, and then what the caller has set; nullptr for a cell
    // that is too long.
    Cell* find(size_t column, const char* begin, const char* end) {
        const size_t length = static_cast<size_t>(end - begin);
        if (length > LONGEST || static_cast<size_t>(end_ - begin) < LONGEST + 1) return nullptr;
        const uint64_t low = first_bytes(load8(begin), std::min<size_t>(length, 8));
        const uint64_t rest = first_bytes(load8(begin + 8), length > 8 ? length - 8 : 0);
        const uint64_t high = rest | static_cast<uint64_t>(length) << 56;
        const uint64_t hash = (low ^ (high + column) * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
        Cell& cell = cells_[hash >> (64 - bits_)];
        if (cell.low != low || cell.high != high || cell.column != column)
            cell = {low, high, static_cast<uint32_t>(column), UNKNOWN};
        return &cell;
    }

  private:
    static constexpr int FEWEST_BITS = 4, MOST_BITS = 14;
    static constexpr ptrdiff_t BYTES = 8;  // of text to a place
    static constexpr size_t LONGEST = 15;

    int bits_ = 0;
    std::vector<Cell> cells_;  // 2^bits_
    const char* end_ = nullptr;

    static uint64_t first_bytes(uint64_t bytes, size_t count) {
        return count == 8 ? bytes : bytes & ((uint64_t{1} << 8 * count) - 1);
    }
};

}  // namespace fmcli

#endif
