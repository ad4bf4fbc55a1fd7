// Rows joined with their rows of other tables.
#ifndef FMCLI_RELATED_JOIN_H
#define FMCLI_RELATED_JOIN_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fmcli/base/types.h"

namespace fmcli {

// A table, and its row for each row of the result.
struct JoinedRelation {
    const Csr* table;
    const int32_t* row;
};

// Stores in each row of the result the entries of its rows, ordered by column, with repeated columns summed and without
// zeros. There must be room for all entries. Returns the number of rows; if it is less than `count`, a sum in the next
// row is too large for a float. Throws std::bad_alloc.
inline int64_t join_rows(const std::vector<JoinedRelation>& parts, int64_t count, int64_t* indptr, int32_t* index,
                         float* value) {
    struct Entry {
        int32_t column;
        float value;
    };
    std::vector<Entry> entries;
    int64_t n = 0;
    indptr[0] = 0;
    for (int64_t row = 0; row < count; ++row) {
        entries.clear();
        for (const JoinedRelation& part : parts) {
            const auto before = static_cast<std::ptrdiff_t>(entries.size());
            const Sample x = sample_of(part.table, part.row[row]);
            for (ptrdiff_t i = 0; i < x.nnz; ++i) entries.push_back({x.index[i], x.value[i]});
            std::inplace_merge(entries.begin(), entries.begin() + before, entries.end(),
                               [](const Entry& a, const Entry& b) { return a.column < b.column; });
        }
        for (size_t i = 0; i < entries.size();) {
            const int32_t column = entries[i].column;
            double sum = entries[i].value;
            for (++i; i < entries.size() && entries[i].column == column; ++i) sum += entries[i].value;
            const float x = static_cast<float>(sum);
            if (std::isinf(x)) return row;
            if (x == 0) continue;
            index[n] = column;
            value[n++] = x;
        }
        indptr[row + 1] = n;
    }
    return count;
}

}  // namespace fmcli

#endif
