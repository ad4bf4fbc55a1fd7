// Groups the entries of a block of samples by parameter row.
#ifndef FMCLI_ROW_ENTRIES_H
#define FMCLI_ROW_ENTRIES_H

#include <stdlib.h>
#include <string.h>

#include "fmcli/base/types.h"

enum { NO_PLACE = -1 };

// Work space to group up to n entries whose rows have ids below `rows`; it can be used again.
typedef struct GroupingSpace {
    int32_t* place;  // by row id: NO_PLACE
    int32_t* local;  // n: the place of each entry's row
    int32_t* id;     // n: the row at each place
    int32_t* count;  // n: its number of entries
    int32_t* order;  // n: its place in the result
} GroupingSpace;

// The entries of a block of samples.
typedef struct BlockEntries {
    ptrdiff_t n;
    const int32_t* row;     // row ids
    const int32_t* sample;  // numbers of their samples; NULL: the result has the numbers of the entries
    const float* value;     // NULL: the result has no values
    const real* weight;     // their weights in the curvature of the loss; NULL: all 1
} BlockEntries;

// Groups the entries of a block of samples by row. Returns false if there is not enough memory. The result's memory is
// result->row, to be freed with `free`.
static inline bool group_by_row(const BlockEntries* entries, GroupingSpace s, RowEntries* result) {
    const BlockEntries b = *entries;
    const ptrdiff_t n = b.n;
    const int32_t* const row = b.row;
    enum { AHEAD = 32 };
    // Rows are placed in the order of their first entries.
    ptrdiff_t rows = 0;
    for (ptrdiff_t e = 0; e < n; ++e) {
        if (e + AHEAD < n) __builtin_prefetch(s.place + row[e + AHEAD], 1);
        int32_t* const place = s.place + row[e];
        if (*place == NO_PLACE) {
            s.id[rows] = row[e];
            s.count[rows] = 0;
            *place = (int32_t)rows++;
        }
        ++s.count[*place];
        s.local[e] = *place;
    }
    // Then they are sorted by their number of entries; all larger numbers count as MANY_ENTRIES.
    RowEntries r = {};
    auto group_of = [&](ptrdiff_t at) { return (s.count[at] < MANY_ENTRIES ? s.count[at] : MANY_ENTRIES) - 1; };
    for (ptrdiff_t at = 0; at < rows; ++at) ++r.end[group_of(at)];
    ptrdiff_t next[MANY_ENTRIES];
    for (int g = 0; g < MANY_ENTRIES; ++g) {
        next[g] = g ? r.end[g - 1] : 0;
        r.end[g] += next[g];
    }
    const ptrdiff_t numbers = 2 * rows + 1 + n, values = b.value ? n : 0, curvatures = b.weight ? rows : 0;
    const ptrdiff_t padding = (numbers + values) % 2;  // to align doubles
    int32_t* memory = (int32_t*)malloc((numbers + values + padding) * sizeof(int32_t) + curvatures * sizeof(real));
    if (!memory) return false;
    r.row = memory;
    r.start = memory + rows;
    r.entry = r.start + rows + 1;
    r.value = values ? (float*)(memory + numbers) : NULL;
    r.curvature = curvatures ? (real*)(memory + numbers + values + padding) : NULL;
    for (ptrdiff_t at = 0; at < rows; ++at) {
        s.order[at] = (int32_t)next[group_of(at)]++;
        r.row[s.order[at]] = s.id[at];
        r.start[s.order[at]] = s.count[at];
        s.place[s.id[at]] = NO_PLACE;
    }
    for (ptrdiff_t at = 0, sum = 0; at <= rows; ++at) {
        const int32_t count = at < rows ? r.start[at] : 0;
        r.start[at] = (int32_t)sum;
        sum += count;
    }
    memcpy(s.count, r.start, rows * sizeof(int32_t));  // from here on, where the next entry of each row belongs
    for (ptrdiff_t at = 0; at < curvatures; ++at) r.curvature[at] = 0;
    for (ptrdiff_t e = 0; e < n; ++e) {
        const int32_t place = s.order[s.local[e]], at = s.count[place]++;
        r.entry[at] = b.sample ? b.sample[e] : (int32_t)e;
        if (b.value) r.value[at] = b.value[e];
        if (b.weight) r.curvature[place] += b.weight[e];
    }
    // The first sample of a row needs no bound, and which one is first must not matter: the bound is for the mean.
    for (ptrdiff_t at = 0; at < curvatures; ++at) {
        const real count = (real)(r.start[at + 1] - r.start[at]);
        r.curvature[at] *= (count - 1) / count;
    }
    *result = r;
    return true;
}

#endif
