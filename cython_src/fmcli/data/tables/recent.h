// What is known about the cells of a table that were read last: most cells have occurred before.
#ifndef FMCLI_RECENT_H
#define FMCLI_RECENT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fmcli/data/id.h"

namespace fmcli {

// A table that stays in the caches of a core. A cell takes the place of another one with the same hash.
class RecentCells {
  public:
    static constexpr int32_t UNKNOWN = -2;

    // Forgets all cells. bytes : of the text that has the cells to find.
    void start(ptrdiff_t bytes) {
        bits_ = FEWEST_BITS;
        while (bits_ < MOST_BITS && BYTES << bits_ < bytes) ++bits_;
        cells_.assign(size_t{1} << bits_, Cell{});
    }

    // What the caller has set for a cell; UNKNOWN at the first time. The text of the cell must stay where it is.
    // end : of the text that can be read.
    int32_t& find(size_t column, const char* begin, const char* cell_end, const char* end) {
        const size_t length = static_cast<size_t>(cell_end - begin);
        uint64_t low = 0, rest = 0;
        if (length > LONGEST) {
            low = search_hash(begin, length);
        } else if (static_cast<size_t>(end - begin) > LONGEST) {
            low = first_bytes(load8(begin), std::min<size_t>(length, 8));
            rest = first_bytes(load8(begin + 8), length > 8 ? length - 8 : 0);
        } else {
            char text[LONGEST + 1] = {};
            std::memcpy(text, begin, length);
            low = load8(text);
            rest = load8(text + 8);
        }
        const uint64_t high = length > LONGEST ? LONG | length : rest | static_cast<uint64_t>(length) << 56;
        const uint64_t hash = (low ^ (high + column) * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
        Cell& cell = cells_[hash >> (64 - bits_)];
        const bool same = cell.low == low && cell.high == high && cell.column == column &&
            (length <= LONGEST || same_bytes(cell.text, begin, length));
        if (!same) cell = {low, high, begin, static_cast<uint32_t>(column), UNKNOWN};
        return cell.value;
    }

  private:
    struct Cell {
        uint64_t low = 0, high = 0;  // the bytes of the cell, and their number; of a long one, their hash
        const char* text = nullptr;
        uint32_t column = 0;
        int32_t value = UNKNOWN;
    };

    static constexpr int FEWEST_BITS = 4, MOST_BITS = 14;
    static constexpr ptrdiff_t BYTES = 8;  // of text to a place
    static constexpr size_t LONGEST = 15;
    static constexpr uint64_t LONG = uint64_t{LONGEST + 1} << 56;  // cells are shorter than 2^56 bytes

    int bits_ = 0;
    std::vector<Cell> cells_;  // 2^bits_

    static uint64_t first_bytes(uint64_t bytes, size_t count) {
        return count == 8 ? bytes : bytes & ((uint64_t{1} << 8 * count) - 1);
    }
};

}  // namespace fmcli

#endif
