// Facts about the cells of a table that were read last: most cells have occurred before.
#ifndef FMCLI_RECENT_H
#define FMCLI_RECENT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fmcli/data/id.h"

namespace fmcli {

// A table that stays in the caches of a core. A cell replaces another cell with the same hash.
class RecentCells {
  public:
    static constexpr int32_t UNKNOWN = -2;

    // Forgets all cells. bytes : the size of the text with the cells to find.
    void start(ptrdiff_t bytes) {
        bits_ = FEWEST_BITS;
        while (bits_ < MOST_BITS && BYTES << bits_ < bytes) ++bits_;
        cells_.assign(size_t{1} << bits_, Cell{});
    }

    // The number that the caller has stored for a cell; UNKNOWN at first. The text of the cell must stay in place.
    // end : the end of the readable text.
    // Forcibly inlined: with calls, reading takes a tenth more time.
    __attribute__((always_inline)) int32_t& find(size_t column, const char* begin, const char* cell_end, const char* end) {
        const size_t length = static_cast<size_t>(cell_end - begin);
        if (length > LONGEST || static_cast<size_t>(end - begin) <= LONGEST) return find_slowly(column, begin, length);
        const uint64_t low = first_bytes(load8(begin), std::min<size_t>(length, 8));
        const uint64_t rest = length > 8 ? first_bytes(load8(begin + 8), length - 8) : 0;
        const uint64_t high = rest | static_cast<uint64_t>(length) << 56;
        Cell& cell = place_of(low, high, column);
        if (cell.low != low || cell.high != high || cell.column != column)
            cell = {low, high, static_cast<uint32_t>(column), UNKNOWN};
        return cell.value;
    }

  private:
    struct Cell {
        uint64_t low = 0, high = 0;  // the bytes of the cell, and their number; for a long cell, its place
        uint32_t column = 0;
        int32_t value = UNKNOWN;
    };

    static constexpr int FEWEST_BITS = 4, MOST_BITS = 15;
    static constexpr ptrdiff_t BYTES = 8;  // bytes of text per place
    static constexpr size_t LONGEST = 15;
    static constexpr uint64_t LONG = uint64_t{LONGEST + 1} << 56;  // cells are shorter than 2^56 bytes

    int bits_ = 0;
    std::vector<Cell> cells_;  // 2^bits_

    static uint64_t first_bytes(uint64_t bytes, size_t count) {
        return count == 8 ? bytes : bytes & ((uint64_t{1} << 8 * count) - 1);
    }

    Cell& place_of(uint64_t low, uint64_t high, size_t column) {
        const uint64_t hash = (low ^ (high + column) * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
        return cells_[hash >> (64 - bits_)];
    }

    // Finds a long cell, or a cell near the end of the text.
    int32_t& find_slowly(size_t column, const char* begin, size_t length) {
        if (length <= LONGEST) {
            char text[LONGEST + 1] = {};
            std::memcpy(text, begin, length);
            return find(column, text, text + length, text + sizeof text);
        }
        const uint64_t at = reinterpret_cast<uintptr_t>(begin), high = LONG | length;
        Cell& cell = place_of(search_hash(begin, length), high, column);
        if (cell.high != high || cell.column != column ||
            !same_bytes(reinterpret_cast<const char*>(static_cast<uintptr_t>(cell.low)), begin, length))
            cell = {at, high, static_cast<uint32_t>(column), UNKNOWN};
        return cell.value;
    }
};

}  // namespace fmcli

#endif
