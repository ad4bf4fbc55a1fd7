"""Which samples a row of parameters enters, for solvers that visit a row at a time (CSC)."""

import numpy as np

from fmcli._core.data cimport Dataset
from fmcli._core.model cimport Model, Workspace
from fmcli._core.types cimport Sample
from libc.stdint cimport int32_t, int64_t


cdef class Columns:
    """The samples of each row, in their order, and the values of its entries.

    Parameters
    ----------
    indptr : int64 (rows + 1); row j's samples are sample[indptr[j]] .. sample[indptr[j + 1] - 1].
    sample : int32 array.
    value : float32 array of the same length; None: every value is 1.
    same : every row has the samples of row 0.
    """

    def __init__(self, indptr, sample, value, bint same=False):
        self.indptr, self.sample, self.constant, self.same = indptr, sample, value is None, same
        self.value = np.ones(int(np.diff(indptr).max(initial=0)), dtype=np.float32) if value is None else value
        cdef const int64_t[::1] indptr_ = indptr
        cdef const int32_t[::1] sample_ = sample
        cdef const float[::1] value_ = self.value
        self.indptr_ = &indptr_[0]
        self.sample_ = &sample_[0] if sample_.shape[0] else NULL
        self.value_ = &value_[0] if value_.shape[0] else NULL


def of_all(Py_ssize_t samples):
    """Every row enters every sample, with value 1."""
    return Columns(np.array([0, samples], dtype=np.int64), np.arange(samples, dtype=np.int32), None, same=True)


def by_feature(Dataset data):
    """One row a feature."""
    indptr = starts(data.index, data.features)
    samples = np.empty(data.nnz, dtype=np.int32)
    values = None if data.constant else np.empty(data.nnz, dtype=np.float32)
    cdef int64_t[::1] free = indptr.copy()
    cdef int32_t[::1] sample = samples
    cdef float[::1] value = values
    cdef Py_ssize_t i, entry
    cdef int64_t at
    with nogil:
        for i in range(data.rows):
            for entry in range(data.indptr_[i], data.indptr_[i + 1]):
                at = free[data.index_[entry]]
                free[data.index_[entry]] = at + 1
                sample[at] = <int32_t>i
                if not data.constant:
                    value[at] = data.value_[entry]
    return Columns(indptr, samples, values)


def by_row(Model model, Dataset data, int block):
    """The rows of a block whose touched rows the model names itself; values are not known and count as 1."""
    cdef Workspace workspace = Workspace(model, data.longest)
    cdef Sample x
    cdef Py_ssize_t i, j, size = 0
    cdef int32_t[::1] touched
    lengths = np.zeros(data.rows + 1, dtype=np.int64)
    cdef int64_t[::1] length = lengths
    for i in range(data.rows):
        data.sample(i, &x)
        model.rows(&x, &workspace.scratch)
        size += workspace.scratch.slab[block].n
        length[i + 1] = size
    rows = np.empty(size, dtype=np.int32)
    touched = rows
    for i in range(data.rows):
        data.sample(i, &x)
        model.rows(&x, &workspace.scratch)
        for j in range(workspace.scratch.slab[block].n):
            touched[length[i] + j] = workspace.scratch.slab[block].row[j]
    # A Dataset whose columns are the block's rows is turned as any other.
    return by_feature(Dataset(lengths, rows, None, None, model.block[block].rows))


def starts(ids, Py_ssize_t count):
    """Where each id's run begins once they are sorted, and where the last ends."""
    return np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=count))]).astype(np.int64)
