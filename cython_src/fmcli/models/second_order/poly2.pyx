"""Polynomial regression of degree 2, with one weight for each pair of features."""

import numpy as np

from fmcli.models.layout import BlockLayout
from fmcli.models.second_order.linear import bias_block
from fmcli.models.split import TablePairs, split_of
from fmcli.errors import BadInputError, UsageError

from fmcli.base.types cimport ColumnView, Factors, Sample, Scratch, SparseGradient, prefetch_line, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport ColumnModel
from fmcli.models.parameters cimport MAX_BLOCKS
from libc.stdint cimport UINT32_MAX, int32_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

MOST_ENTRIES = 1 << 16  # in a sample: its pairs are numbered by int32

cdef enum:
    MOST_BITS = 30  # entries and positions of the table are numbered by int32
    # The largest number of entries of a sample whose places are kept and whose weights are prefetched: the weights of
    # more pairs, over 4095, would evict each other from the cache.
    MOST_KEPT = 91
    # The number of samples whose places are kept: more than are prefetched ahead. One more sample is kept if it was not
    # prefetched.
    KEPT = 4
    # The smallest number of slots of the hash table; pairs of short samples then hardly ever collide.
    FEWEST_SLOTS = 1 << 12


# The size of a hash table for n entries: a power of two, large enough that at most half of the table is used.
cdef inline Py_ssize_t table_size(Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t size = FEWEST_SLOTS
    while size < 2 * n:
        size *= 2
    return size


cdef inline Py_ssize_t pairs_of(Py_ssize_t n) noexcept nogil:
    return n * (n - 1) // 2


# The places of a kept sample follow the number of its entries and their features.
cdef inline Py_ssize_t kept_size(Py_ssize_t longest) noexcept nogil:
    cdef Py_ssize_t most = min(longest, MOST_KEPT)
    return 1 + most + pairs_of(most)


# Pointers into Scratch.ids.
cdef struct Room:
    Py_ssize_t longest
    int32_t* next_kept  # where the next prefetched sample is kept
    int32_t* waiting    # whether the weights of the last kept sample still have to be prefetched
    int32_t* kept
    Py_ssize_t kept_size
    int32_t* with_one   # the places of an entry's pairs with earlier entries
    int32_t* entries
    # A hash table of the positions of entries. A used slot contains `end` - 1 - the position; larger numbers are from
    # earlier samples, so the table need not be cleared for each sample.
    uint32_t* slots
    uint32_t* end


cdef inline Room room_of(const Scratch* s) noexcept nogil:
    cdef Room room
    room.longest, room.next_kept, room.end, room.waiting = s.longest, s.ids, <uint32_t*>s.ids + 1, s.ids + 2
    room.kept, room.kept_size = s.ids + 3, kept_size(s.longest)
    room.with_one = room.kept + (KEPT + 1) * room.kept_size
    room.entries = room.with_one + s.longest
    room.slots = <uint32_t*>room.entries + pairs_of(s.longest)
    return room


# List each of n hashed entries once in room.entries, which may be `place`; add up the products of equal entries; return
# the number of distinct entries.
cdef Py_ssize_t unite(const int32_t* place, real* product, Py_ssize_t n, const Room* room) noexcept nogil:
    cdef Py_ssize_t k, at, found = 0, mask = table_size(n) - 1
    cdef uint32_t end = room.end[0]
    cdef uint32_t* slots = room.slots
    cdef int32_t* entries = room.entries
    if <Py_ssize_t>end < n:  # `end` is 0 at first
        memset(slots, 255, table_size(pairs_of(room.longest)) * sizeof(uint32_t))
        end = UINT32_MAX
    for k in range(n):
        at = place[k] & mask
        while slots[at] < end and entries[end - 1 - slots[at]] != place[k]:
            at = (at + 1) & mask
        if slots[at] < end:
            product[end - 1 - slots[at]] += product[k]
            continue
        slots[at] = end - 1 - <uint32_t>found
        entries[found], product[found] = place[k], product[k]
        found += 1
    room.end[0] = end - <uint32_t>found
    return found


cdef class Poly2(ColumnModel):
    """b + <w, x> + sum over pairs i < j of W_ij x_i x_j ([SGL] SEC-REG).

    The weights of the pairs are a table. If all pairs fit into 2^pair_bits entries, pair i < j has the entry
    j(j - 1)/2 + i, which does not change when features are added. Otherwise, its entry is a hash with 2^pair_bits
    values, and pairs of a sample that share an entry are one coordinate.
    """

    cdef int table, bits
    cdef bint linear, exact

    def __init__(self, features, outputs, *, pair_bits, bias=True, linear=True):
        if not 1 <= pair_bits <= MOST_BITS:
            raise ValueError(f"pair_bits is {pair_bits}; it must be 1 to {MOST_BITS}")
        pairs = features * (features - 1) // 2
        self.linear, self.bits, self.exact = linear, pair_bits, pairs <= 1 << pair_bits
        entries = pairs if self.exact else 1 << pair_bits
        layout = [*bias_block(bias), *([BlockLayout(weight="w")] if linear else [])]
        self.table = len(layout)
        layout.append(BlockLayout(axes=(entries,), weight="W", touched="selected", penalized_as="v"))
        super().__init__(features, outputs, layout)

    def prepare(self, source, generator):
        if source.longest > MOST_ENTRIES:
            raise BadInputError(
                f"an example has {source.longest:,} entries; poly2 takes at most {MOST_ENTRIES:,}: leave out "
                "features, or choose another model")

    def owners(self, int b, features):
        if b != self.table or not self.exact:
            return super().owners(b, features)
        second, first = np.tril_indices(self.features, -1)
        return np.where(features[second], second, np.where(features[first], first, -1)).astype(np.int32)

    def split(self):
        return split_of(
            self.parameters, self.outputs, TablePairs(self.parameters["W"], 0 if self.exact else self.bits))

    def inherit(self, previous, seen):
        if self.exact != (<Poly2?>previous).exact:
            pairs = self.features * (self.features - 1) // 2
            raise UsageError(
                f"the earlier model has an entry for each pair, but with the new features there are {pairs:,} pairs, "
                f"more than 2^{self.bits}", pair_bits=(pairs - 1).bit_length())

    cdef Py_ssize_t most_rows(self, int b, Py_ssize_t longest):
        return pairs_of(longest) if b == self.table else ColumnModel.most_rows(self, b, longest)

    # The Room; in training with a hash table, unless all pairs have their own entries.
    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        cdef Py_ssize_t pairs = pairs_of(longest)
        return self.scoring_ids_size(longest) + pairs + (0 if self.exact else table_size(pairs))

    # The values of the coordinates, sums of x_i x_j.
    cdef Py_ssize_t work_size(self, Py_ssize_t longest):
        return pairs_of(longest)

    cdef Py_ssize_t scoring_ids_size(self, Py_ssize_t longest):
        return 3 + (KEPT + 1) * kept_size(longest) + longest

    cdef Py_ssize_t scoring_work_size(self, Py_ssize_t longest):
        return 0

    # out <- the entries of the table for the sample's pairs (i, j), i < j, for j = first .. last - 1, in this order.
    cdef inline void places(self, const Sample* x, Py_ssize_t first, Py_ssize_t last, int32_t* out) noexcept nogil:
        kernels.pair_places(x.index, first, last, 0 if self.exact else self.bits, out)

    cdef inline int32_t* keep(self, const Sample* x, int32_t* at) noexcept nogil:
        at[0] = <int32_t>x.nnz
        memcpy(at + 1, x.index, x.nnz * sizeof(int32_t))
        self.places(x, 0, x.nnz, at + 1 + x.nnz)
        return at + 1 + x.nnz

    # The places of all pairs of a sample; NULL if there are none, or too many to keep.
    cdef inline int32_t* kept(self, const Sample* x, const Room* room) noexcept nogil:
        cdef int32_t* at = room.kept
        cdef int _
        if not 0 < x.nnz <= MOST_KEPT:
            return NULL
        for _ in range(KEPT + 1):
            if at[0] == x.nnz and memcmp(at + 1, x.index, x.nnz * sizeof(int32_t)) == 0:
                return at + 1 + x.nnz
            at += room.kept_size
        return self.keep(x, at - room.kept_size)

    # The places of the pairs of entry j with earlier entries.
    cdef inline const int32_t* places_with(
        self, const Sample* x, Py_ssize_t j, const int32_t* kept, const Room* room
    ) noexcept nogil:
        if kept != NULL:
            return kept + pairs_of(j)
        self.places(x, j, j + 1, room.with_one)
        return room.with_one

    # The next call of `score` prefetches the weights of the pairs, one for each pair that it reads: the processor
    # stalls at a prefetch while many others are in flight.
    cdef void prefetch(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef Room room = room_of(s)
        ColumnModel.prefetch(self, x, s)
        if not 0 < x.nnz <= MOST_KEPT:
            return
        self.keep(x, room.kept + room.next_kept[0] * room.kept_size)
        room.next_kept[0] = (room.next_kept[0] + 1) % KEPT
        room.waiting[0] = True

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef const int32_t* row[MAX_BLOCKS]
        cdef Py_ssize_t n[MAX_BLOCKS]
        cdef Py_ssize_t i, j, pairs = pairs_of(x.nnz)
        cdef Room room = room_of(s)
        cdef int32_t* place = self.kept(x, &room)
        cdef real* product = s.work
        if place == NULL:
            place = room.entries
            self.places(x, 0, x.nnz, place)
        for j in range(x.nnz):
            for i in range(j):
                product[i] = <real>x.value[i] * x.value[j]
            product += j
        self.usual_rows(x, row, n)
        row[self.table], n[self.table] = place, pairs
        if not self.exact:
            row[self.table], n[self.table] = room.entries, unite(place, s.work, pairs, &room)
        self.cut(row, n, s)

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i, j, left = 0, waiting = 0, stride = self.weight_memory[self.table].row_stride
        cdef double total, with_j
        cdef Factors w, weight
        cdef Room room = room_of(s)
        cdef const int32_t* kept = self.kept(x, &room)
        cdef const int32_t* place
        cdef const int32_t* ahead = room.kept + (room.next_kept[0] + KEPT - 1) % KEPT * room.kept_size
        if room.waiting[0]:
            waiting = pairs_of(ahead[0])
            ahead += 1 + ahead[0]
            room.waiting[0] = False
        for c in range(self.outputs):
            weight = self.weights(self.table, c)
            total, left = 0, waiting
            for j in range(x.nnz):
                place = self.places_with(x, j, kept, &room)
                with_j = 0
                for i in range(j):
                    with_j += <double>weight.at[place[i] * stride] * x.value[i]
                    if left:
                        left -= 1
                        prefetch_line(weight.at + ahead[left] * stride)
                total += with_j * x.value[j]
            for i in range(left):
                prefetch_line(weight.at + ahead[i] * stride)
            s.score[c] = self.bias(c) + total
            if self.linear:
                w = self.weights(self.table - 1, c)
                s.score[c] += kernels.linear(&w, x)

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i
        cdef real slope
        cdef real* weight
        cdef SparseGradient* gradient
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            slope = <real>s.slope[c]
            if self.has_bias:
                gradient.weight[0] = slope
            if self.linear:
                kernels.linear_gradient(x, s.slope[c], gradient[self.table - 1].weight)
            weight = gradient[self.table].weight
            for i in range(gradient[self.table].n):
                weight[i] = slope * s.work[i]

    cdef void weight_derivatives(self, int b, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        for c in range(self.outputs):
            memcpy(s.gradients[c * self.n_blocks + b].weight, s.work, s.gradients[b].n * sizeof(real))

    # No cache: the derivatives are the values of the entries and of the coordinates.
    cdef Py_ssize_t cache_size(self, Dataset data):
        return 0

    cdef void score_gradient(self, const ColumnView* v, real* q) noexcept nogil:
        kernels.weight_score_gradient(v, q)
