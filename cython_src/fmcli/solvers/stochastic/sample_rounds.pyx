"""Samples in rounds, with their entries in buckets by feature."""

import numpy as np

from fmcli.models.layout import REAL_TYPE, allocate

from fmcli.base.types cimport RowEntries, Sample, real
from fmcli.data.dataset cimport Dataset
from fmcli.solvers.stochastic.row_entries cimport bucket_by_row, without_first
from libc.math cimport fabs
from libc.stdint cimport INT32_MAX, UINT32_MAX, int32_t, uint32_t
from libc.stdlib cimport calloc, free


cdef class BucketRoom:
    """One thread's memory to put entries of data with this many features into buckets. It grows with the rounds."""

    def __init__(self, Py_ssize_t features):
        self.place = allocate(features, np.uint32)
        self.space.place, self.space.unused = &self.place[0], 1

    @staticmethod
    def bytes_needed(Py_ssize_t features, Py_ssize_t entries):
        """Return the bytes for rounds of this many entries."""
        return features * sizeof(uint32_t) + entries * (4 * sizeof(int32_t) + 2 * sizeof(real))

    # Make room for rounds of this many entries.
    cdef reserve(self, Py_ssize_t entries):
        cdef int32_t[:, ::1] numbers
        cdef real[:, ::1] weights
        if entries > self.entries:
            numbers, weights = np.empty((4, entries), dtype=np.int32), np.empty((2, entries), dtype=REAL_TYPE)
            self.memory, self.entries = [numbers.base, weights.base], entries
            self.space.local, self.space.id, self.space.count = &numbers[0, 0], &numbers[1, 0], &numbers[2, 0]
            self.sample, self.weight, self.space.weight = &numbers[3, 0], &weights[0, 0], &weights[1, 0]

    # Put the entries of a round into buckets. Returns false if there is not enough memory.
    cdef bint bucket(self, const RoundEntries* entries, RowEntries* rows) noexcept nogil:
        if entries.n > UINT32_MAX - self.space.unused:
            self.place[:] = 0
            self.space.unused = 1
        return bucket_by_row(entries, &self.space, rows)


cdef class SampleRounds:
    """Samples in the order of training, in rounds, with their entries in buckets by feature.

    Parameters
    ----------
    data : Dataset, the samples in this order.
    ends : int64 (rounds + 1), increasing from 0 to the number of samples; round i begins with sample ends[i].
    mean_weight : the divisor of weights in the solver: their mean, or 1.
    by_sample : whether entries have the numbers of their samples, and their values, for models whose gradients are
        formulas; otherwise they have their own numbers.
    room : BucketRoom for the features of the data; no other thread may use it meanwhile.
    """

    def __cinit__(self, *args, **keywords):
        self.rows = NULL

    def __init__(
        self, Dataset data, ends, *, double mean_weight=1, bint by_sample=False, BucketRoom room=None
    ):
        if data.value is not None and data.csr.constant:
            data = data.changed(value=data.value.copy())  # each entry of a round has its own value unless all are 1
        self.data, self.ends, self.end, self.mean_weight, self.by_sample = data, ends, ends, mean_weight, by_sample
        sizes, entries = np.diff(ends), np.diff(data.indptr[ends])
        if len(ends) < 2 or ends[0] != 0 or ends[len(ends) - 1] != data.rows or sizes.min() < 1:
            raise ValueError("the rounds do not cover all samples")
        if entries.max() > INT32_MAX:
            raise ValueError("a round has too many entries")
        self.longest, self.most_entries = sizes.max(), entries.max()
        room = BucketRoom(data.features) if room is None else room
        if room.place.shape[0] < data.features:
            raise ValueError("the room was made for fewer features")
        self.shared = np.zeros(len(sizes))
        self.rows = <RowEntries*>calloc(len(sizes), sizeof(RowEntries))
        if self.rows == NULL:
            raise MemoryError
        room.reserve(max(self.most_entries, 1))
        self.group(room)

    @staticmethod
    def bytes_needed(Dataset data):
        """Return the bytes of the buckets of these data's entries, if no round has a row twice."""
        value = sizeof(float) if data.value is not None else 0
        return data.nnz * (3 * sizeof(int32_t) + value + sizeof(real))

    def __len__(self):
        return self.end.shape[0] - 1

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.rows != NULL:
            for i in range(self.end.shape[0] - 1):
                free(self.rows[i].row)
            free(self.rows)

    cdef group(self, BucketRoom room):
        cdef RoundEntries entries = RoundEntries(0, NULL, NULL, NULL, room.weight)
        cdef Py_ssize_t i, s, j, begin, at
        cdef bint enough = True
        cdef double effect, total
        cdef Sample x
        if self.by_sample:
            entries.sample = room.sample
        with nogil:
            for i in range(self.end.shape[0] - 1):
                begin = self.data.csr.indptr[self.end[i]]
                entries.n = self.data.csr.indptr[self.end[i + 1]] - begin
                entries.row = self.data.csr.index + begin
                if self.by_sample and not self.data.csr.constant:
                    entries.value = self.data.csr.value + begin
                at = 0
                total = 0
                for s in range(self.end[i], self.end[i + 1]):
                    self.data.sample(s, &x)
                    effect = 1
                    for j in range(x.nnz):
                        effect += fabs(x.value[j])
                    effect *= self.data.share_of(s, self.mean_weight)
                    total += effect
                    for j in range(x.nnz):
                        room.sample[at] = <int32_t>(s - self.end[i])
                        room.weight[at] = <real>(effect * fabs(x.value[j]))
                        at += 1
                self.shared[i] = without_first(total, self.end[i + 1] - self.end[i])
                enough &= room.bucket(&entries, &self.rows[i])
        if not enough:
            raise MemoryError
