"""Samples in blocks, whose entries are grouped by feature."""

import numpy as np

from fmcli.models.layout import REAL_TYPE, allocate

from fmcli.base.types cimport RowEntries, real
from fmcli.data.dataset cimport Dataset
from libc.stdint cimport INT32_MAX, UINT32_MAX, int32_t, uint32_t
from libc.stdlib cimport calloc, free


cdef class GroupingRoom:
    """Memory to group entries of data with this many features, for one thread. It grows with the blocks."""

    def __init__(self, Py_ssize_t features):
        self.place = allocate(features, np.uint32)
        self.space.place, self.space.unused = &self.place[0], 1

    @staticmethod
    def bytes_needed(Py_ssize_t features, Py_ssize_t entries):
        """Bytes to group blocks of this many entries."""
        return features * sizeof(uint32_t) + entries * (4 * sizeof(int32_t) + 2 * sizeof(real))

    # Have room for blocks of this many entries.
    cdef reserve(self, Py_ssize_t entries):
        cdef int32_t[:, ::1] numbers
        cdef real[:, ::1] weights
        if entries > self.entries:
            numbers, weights = np.empty((4, entries), dtype=np.int32), np.empty((2, entries), dtype=REAL_TYPE)
            self.memory, self.entries = [numbers.base, weights.base], entries
            self.space.local, self.space.id, self.space.count = &numbers[0, 0], &numbers[1, 0], &numbers[2, 0]
            self.sample, self.weight, self.space.weight = &numbers[3, 0], &weights[0, 0], &weights[1, 0]

    # Group the entries of a block. Returns false if there is not enough memory.
    cdef bint group(self, const BlockEntries* entries, RowEntries* rows) noexcept nogil:
        if entries.n > UINT32_MAX - self.space.unused:
            self.place[:] = 0
            self.space.unused = 1
        return group_by_row(entries, &self.space, rows)


cdef class SampleBlocks:
    """Samples in the order of training, in blocks, whose entries are grouped by feature.

    Parameters
    ----------
    data : Dataset, the samples in this order.
    ends : int64 (blocks + 1), increasing from 0 to the number of samples; block i begins with sample ends[i].
    mean_weight : what the solver divides weights by: their mean, or 1.
    by_sample : whether entries are grouped with the numbers of their samples, and their values, for models whose
        gradients are formulas; else with their own numbers.
    room : GroupingRoom for the features of the data, which no other thread uses in the meantime.
    """

    def __cinit__(self, *args, **keywords):
        self.rows = NULL

    def __init__(
        self, Dataset data, ends, *, double mean_weight=1, bint by_sample=False, GroupingRoom room=None
    ):
        self.data, self.ends, self.end, self.mean_weight, self.by_sample = data, ends, ends, mean_weight, by_sample
        sizes, entries = np.diff(ends), np.diff(data.indptr[ends])
        if len(ends) < 2 or ends[0] != 0 or ends[len(ends) - 1] != data.rows or sizes.min() < 1:
            raise ValueError("the blocks are not those of all samples")
        if entries.max() > INT32_MAX:
            raise ValueError("a block has too many entries")
        self.longest, self.most_entries = sizes.max(), entries.max()
        room = GroupingRoom(data.features) if room is None else room
        if room.place.shape[0] < data.features:
            raise ValueError("the room was made for fewer features")
        self.rows = <RowEntries*>calloc(len(sizes), sizeof(RowEntries))
        if self.rows == NULL:
            raise MemoryError
        room.reserve(max(self.most_entries, 1))
        self.group(room)

    @staticmethod
    def bytes_needed(Dataset data):
        """Bytes of the grouped entries of these data, if no block has a row twice."""
        value = sizeof(float) if data.value is not None else 0
        weight = sizeof(real) if has_weights(data) else 0
        return data.nnz * (3 * sizeof(int32_t) + value + weight)

    def __len__(self):
        return self.end.shape[0] - 1

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.rows != NULL:
            for i in range(self.end.shape[0] - 1):
                free(self.rows[i].row)
            free(self.rows)

    cdef group(self, GroupingRoom room):
        cdef BlockEntries entries = BlockEntries(0, NULL, NULL, NULL, NULL)
        cdef Py_ssize_t i, s, e, begin
        cdef bint enough = True
        cdef double share
        cdef float x
        cdef real* weight = NULL
        cdef int32_t* sample = room.sample
        if has_weights(self.data):
            entries.weight = weight = room.weight
        if self.by_sample:
            entries.sample = sample
        with nogil:
            for i in range(self.end.shape[0] - 1):
                begin = self.data.csr.indptr[self.end[i]]
                entries.n = self.data.csr.indptr[self.end[i + 1]] - begin
                entries.row = self.data.csr.index + begin
                if self.by_sample and not self.data.csr.constant:
                    entries.value = self.data.csr.value + begin
                for s in range(self.end[i], self.end[i + 1]):
                    share = self.data.share_of(s, self.mean_weight)
                    for e in range(self.data.csr.indptr[s], self.data.csr.indptr[s + 1]):
                        sample[e - begin] = <int32_t>(s - self.end[i])
                        if weight != NULL:
                            x = 1 if self.data.csr.constant else self.data.csr.value[e]
                            weight[e - begin] = <real>(share * x * x)
                enough &= room.group(&entries, &self.rows[i])
        if not enough:
            raise MemoryError


def has_weights(Dataset data):
    """Whether entries differ in their weight in the curvature: by their values or by the weights of samples."""
    return data.value is not None or data.weight is not None
