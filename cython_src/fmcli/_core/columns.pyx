"""The entries of rows by column (CSC), for solvers that visit a feature at a time."""

import numpy as np

from fmcli._core.data cimport Dataset
from libc.stdint cimport int32_t, int64_t


cdef class Columns:
    """For each feature the samples that have it, in their order, and its values in them.

    Attributes
    ----------
    indptr : int64 (features + 1); feature j's entries are indptr[j] .. indptr[j + 1] - 1.
    sample : int32 (nnz).
    value : float32 (nnz); where every value is 1, as many ones as the longest column has entries.
    """

    def __init__(self, Dataset data):
        counts = np.bincount(data.index, minlength=data.features) if data.nnz else np.zeros(data.features, dtype=np.int64)
        self.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.constant = data.constant
        self.sample = np.empty(data.nnz, dtype=np.int32)
        self.value = np.ones(int(counts.max(initial=0)) if self.constant else data.nnz, dtype=np.float32)
        free = self.indptr[:data.features].copy()
        cdef int64_t[::1] place = free
        cdef int32_t[::1] sample = self.sample
        cdef float[::1] value = self.value
        cdef const int64_t[::1] indptr = self.indptr
        cdef Py_ssize_t i, entry
        cdef int64_t at
        with nogil:
            for i in range(data.rows):
                for entry in range(data.indptr_[i], data.indptr_[i + 1]):
                    at = place[data.index_[entry]]
                    place[data.index_[entry]] = at + 1
                    sample[at] = <int32_t>i
                    if not self.constant:
                        value[at] = data.value_[entry]
        self.indptr_ = &indptr[0]
        self.sample_ = &sample[0] if data.nnz else NULL
        self.value_ = &value[0] if value.shape[0] else NULL
