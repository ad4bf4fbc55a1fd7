// Helpers for models that use the fields of a sample, or that sum entries with equal indices.
#ifndef FMCLI_FIELDS_H
#define FMCLI_FIELDS_H

#include "fmcli/base/types.h"

// The fields in a sample, in the order of its entries. Slots are the positions in this order, from 0.
typedef struct FieldEntries {
    ptrdiff_t slots;
    int32_t* slot;   // of each entry; -1 if the model lacks its field: then the entry is in no pair
    int32_t* field;  // of each slot
    int32_t* count;  // the number of entries of each slot
    int32_t* end;    // end of the arrays
} FieldEntries;

// Whether an entry forms a pair with an entry of another field, the field of slot q.
static inline int has_partner(const FieldEntries* p, ptrdiff_t entry, ptrdiff_t q) {
    const int32_t slot = p->slot[entry];
    return slot >= 0 && (q != slot || p->count[q] > 1);
}

// Whether all entries have different indices and different fields, and the model has all the fields.
static inline int all_single(const Sample* x, const FieldEntries* p) {
    int single = p->slots == x->nnz;  // every entry has a slot, and no two share one
    for (ptrdiff_t i = 1; i < x->nnz && single; ++i) single = x->index[i] != x->index[i - 1];
    return single;
}

// The result that `bucket_by_field` stored in `room` for this sample.
static inline FieldEntries buckets_in(const Sample* x, ptrdiff_t fields, int32_t* room) {
    const ptrdiff_t most = fields < x->nnz ? fields : x->nnz;
    int32_t* const slot = room + 1 + fields;
    const FieldEntries p = {room[0], slot, slot + x->nnz, slot + x->nnz + most, slot + x->nnz + 2 * most};
    return p;
}

// Finds the fields of a sample that are below `fields`. The room begins with the number of slots, followed by slot + 1
// of each field. These numbers must be 0 at the start, and are reset to 0 at the end.
static inline FieldEntries bucket_by_field(const Sample* x, ptrdiff_t fields, int32_t* room) {
    int32_t* const slot_of = room + 1;
    FieldEntries p = buckets_in(x, fields, room);
    p.slots = 0;
    for (ptrdiff_t i = 0; i < x->nnz; ++i) {
        const ptrdiff_t f = x->field ? x->field[i] : fields;
        if (f >= fields) {
            p.slot[i] = -1;
            continue;
        }
        if (!slot_of[f]) {
            p.field[p.slots] = (int32_t)f;
            p.count[p.slots] = 0;
            slot_of[f] = (int32_t)++p.slots;
        }
        p.slot[i] = slot_of[f] - 1;
        ++p.count[p.slot[i]];
    }
    for (ptrdiff_t q = 0; q < p.slots; ++q) slot_of[p.field[q]] = 0;
    room[0] = (int32_t)p.slots;
    return p;
}

// Stores a sample's entries by field: the id of the field's entry, NO_ENTRY without an entry, SEVERAL for several; and
// the entry's value.
enum { NO_ENTRY = -1, SEVERAL = -2 };

static inline void enter_by_field(const Sample* x, ptrdiff_t fields, int32_t* id, float* value) {
    for (ptrdiff_t f = 0; f < fields; ++f) id[f] = NO_ENTRY;
    for (ptrdiff_t i = 0; i < x->nnz; ++i) {
        const ptrdiff_t f = x->field[i];
        if (f >= fields) continue;
        id[f] = id[f] == NO_ENTRY ? x->index[i] : SEVERAL;
        if (value) value[f] = x->value[i];
    }
}

// The sample with each index once: x itself, or the summed entries, stored in the two arrays.
static inline Sample summed(const Sample* x, int32_t* index, float* value) {
    ptrdiff_t i = 1, n = 0;
    while (i < x->nnz && x->index[i] != x->index[i - 1]) ++i;
    if (i >= x->nnz) return *x;
    for (i = 0; i < x->nnz; ++i) {
        if (i == 0 || x->index[i] != x->index[i - 1]) {
            index[n] = x->index[i];
            value[n++] = 0;
        }
        value[n - 1] += x->value[i];
    }
    const Sample sums = {index, 0, value, n, x->number};
    return sums;
}

#endif
