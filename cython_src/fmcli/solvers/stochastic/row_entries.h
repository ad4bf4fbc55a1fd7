// Puts the entries of a round of samples into buckets by parameter row.
#ifndef FMCLI_ROW_ENTRIES_H
#define FMCLI_ROW_ENTRIES_H

#include <stdlib.h>
#include <string.h>

#include "fmcli/base/types.h"

// Work space for buckets of up to n entries of rows with ids below some bound. It can be reused for later rounds.
typedef struct BucketSpace {
    uint32_t* place;  // by row id: below `unused` before the first round; later the place of a row plus an offset
    uint32_t unused;  // no number from here on has been written to `place`
    int32_t* local;   // n: the place of each entry's row
    int32_t* id;      // n: the row at each place
    int32_t* count;   // n: the number of its entries
    real* weight;     // n: the weights of the entries, grouped
} BucketSpace;

// The entries of a round of samples.
typedef struct RoundEntries {
    ptrdiff_t n;
    const int32_t* row;     // row ids
    const int32_t* sample;  // the numbers of their samples; NULL: the result has the numbers of the entries
    const float* value;     // NULL: the result has no values
    const real* weight;     // the entries' weights in the curvature of the loss
} RoundEntries;

// The sum of n samples' weights in the curvature, minus their mean: the first sample of a row needs no bound, and the
// choice of the first sample must not matter.
static inline double without_first(double sum, ptrdiff_t n) { return sum * ((double)(n - 1) / (double)n); }

// Puts the entries of a round of samples into buckets by row. Returns false if there is not enough memory. The memory
// of the result is result->row, to be freed with `free`. Before the call, space->unused + n must be at most UINT32_MAX.
static inline bool bucket_by_row(const RoundEntries* entries, BucketSpace* space, RowEntries* result) {
    const RoundEntries b = *entries;
    const BucketSpace s = *space;
    const ptrdiff_t n = b.n;
    enum { AHEAD = 128 };  // the places of rows are spread over more memory than caches hold
    // Rows are placed in the order of their first entries. There are no branches, because it is hard to predict whether
    // a row is new.
    uint32_t rows = 0;
    memset(s.count, 0, n * sizeof(int32_t));
    for (ptrdiff_t e = 0; e < n; ++e) {
        if (e + AHEAD < n) __builtin_prefetch(s.place + b.row[e + AHEAD], 1);
        const int32_t id = b.row[e];
        const uint32_t known = s.place[id] - s.unused;
        const bool fresh = known >= rows;
        const uint32_t at = fresh ? rows : known;
        rows += fresh;
        s.place[id] = s.unused + at;
        s.id[at] = id;
        s.local[e] = (int32_t)at;
        ++s.count[at];
    }
    space->unused += rows;
    // Then rows are sorted by their number of entries; larger numbers count as MANY_ENTRIES.
    auto group_of = [&](ptrdiff_t at) { return (s.count[at] < MANY_ENTRIES ? s.count[at] : MANY_ENTRIES) - 1; };
    ptrdiff_t next[MANY_ENTRIES] = {}, start[MANY_ENTRIES] = {};  // of each group, in rows and in entries
    for (ptrdiff_t at = 0; at < rows; ++at) ++next[group_of(at)];
    RowEntries r = {};
    for (ptrdiff_t g = 0, rows_before = 0, entries_before = 0; g < MANY_ENTRIES; ++g) {
        r.end[g] = rows_before + next[g];
        start[g] = entries_before;
        entries_before += next[g] * (g + 1);
        next[g] = rows_before;
        rows_before = r.end[g];
    }
    const ptrdiff_t numbers = 2 * (ptrdiff_t)rows + 1 + n, values = b.value ? n : 0;
    const ptrdiff_t padding = (numbers + values) % 2;  // to align doubles
    int32_t* memory = (int32_t*)malloc((numbers + values + padding) * sizeof(int32_t) + rows * sizeof(real));
    if (!memory) return false;
    r.row = memory;
    r.start = memory + rows;
    r.entry = r.start + rows + 1;
    r.value = values ? (float*)(memory + numbers) : NULL;
    r.curvature = (real*)(memory + numbers + values + padding);
    for (ptrdiff_t at = 0; at < rows; ++at) {
        const ptrdiff_t g = group_of(at), place = next[g]++;
        const int32_t count = s.count[at];
        r.row[place] = s.id[at];
        r.start[place] = s.count[at] = (int32_t)start[g];  // `count` is now where the row's next entry belongs
        start[g] += count;
    }
    r.start[rows] = (int32_t)n;
    for (ptrdiff_t e = 0; e < n; ++e) {
        const int32_t at = s.count[s.local[e]]++;
        r.entry[at] = b.sample ? b.sample[e] : (int32_t)e;
        if (b.value) r.value[at] = b.value[e];
        s.weight[at] = b.weight[e];
    }
    for (ptrdiff_t at = 0; at < rows; ++at) {
        double sum = 0;
        for (ptrdiff_t i = r.start[at]; i < r.start[at + 1]; ++i) sum += s.weight[i];
        r.curvature[at] = (real)without_first(sum, r.start[at + 1] - r.start[at]);
    }
    *result = r;
    return true;
}

#endif
