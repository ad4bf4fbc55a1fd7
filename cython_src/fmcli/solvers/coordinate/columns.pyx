"""CSC index: the samples that each row of parameters affects, for solvers that update one row at a time."""

import numpy as np

from fmcli.models.layout import REAL_TYPE

from fmcli.base.types cimport Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport Model
from fmcli.models.workspace cimport Workspace, workspace_for
from libc.stdint cimport int32_t, int64_t


cdef class Columns:
    """The samples that each row of parameters affects, in increasing order, and the row's value in each of them.

    Parameters
    ----------
    indptr : int64 (rows + 1); the samples of row j are sample[indptr[j]] .. sample[indptr[j + 1] - 1].
    sample : int32 (entries), the indices of the samples.
    value : array of the real type (entries); None: every value is 1.
    same : whether every row has the samples of row 0.

    Raises ValueError if the arrays are inconsistent.
    """

    def __init__(self, indptr, sample, value, bint same=False):
        self.indptr, self.sample, self.constant, self.same = indptr, sample, value is None, same
        lengths = np.diff(indptr)
        self.value = np.ones(int(lengths.max(initial=0)), dtype=REAL_TYPE) if value is None else value
        cdef const int64_t[::1] indptr_ = indptr
        cdef const int32_t[::1] sample_ = sample
        cdef const real[::1] value_ = self.value
        if indptr_.shape[0] < 1 or indptr_[0] != 0 or lengths.min(initial=0) < 0 or (
                indptr_[indptr_.shape[0] - 1] != sample_.shape[0]
                or (value is not None and value_.shape[0] != sample_.shape[0])):
            raise ValueError("indptr, sample and value of the columns are inconsistent")
        self.indptr_ = &indptr_[0]
        self.sample_ = &sample_[0] if sample_.shape[0] else NULL
        self.value_ = &value_[0] if value_.shape[0] else NULL

    def entries(self, order):
        """int64 (n): the number of samples that each of these rows affects."""
        lengths = np.diff(self.indptr)
        return np.broadcast_to(lengths, len(order)) if self.same else lengths[order]

    def occupied(self, Py_ssize_t rows):
        """int64: the rows, out of 0 .. rows - 1, that affect any sample, in increasing order."""
        lengths = np.diff(self.indptr)
        return np.arange(rows if lengths.any() else 0) if self.same else np.flatnonzero(lengths)

    def conflict_free_sets(self, const int64_t[::1] order, Py_ssize_t samples):
        """Split the rows in this order into conflict-free groups, and return the position at which each group begins.

        No two rows of a group affect the same sample. Each group is as long as possible.
        """
        cdef int32_t[::1] last = np.full(samples, -1, dtype=np.int32)  # per sample, the last group that affects it
        cdef Py_ssize_t i, at, begin, end
        cdef int32_t group = 0
        starts = [0]
        rows, found = np.asarray(order), np.asarray(self.sample)
        most = 1 if self.same else len(self.indptr) - 1
        if len(rows) and not 0 <= rows.min() <= rows.max() < most:
            raise IndexError("no such rows")
        if len(found) and not 0 <= found.min() <= found.max() < samples:
            raise IndexError("no such samples")
        for i in range(order.shape[0]):
            begin, end = self.indptr_[order[i]], self.indptr_[order[i] + 1]
            for at in range(begin, end):
                if last[self.sample_[at]] == group:
                    group += 1
                    starts.append(i)
                    break
            for at in range(begin, end):
                last[self.sample_[at]] = group
        return starts


def of_all(Py_ssize_t samples):
    """Columns of rows that all affect every sample, with value 1."""
    return Columns(np.array([0, samples], dtype=np.int64), np.arange(samples, dtype=np.int32), None, same=True)


def by_feature(Dataset data):
    """Columns of rows that belong to features, one per feature. Values of a feature in several fields are summed."""
    indptr = np.zeros(data.features + 1, dtype=np.int64)
    cdef int64_t[::1] free = indptr
    cdef Py_ssize_t i, entry
    cdef int64_t at
    cdef Sample x
    cdef bint keeps = data.value is not None or data.csr.field != NULL
    for i in range(data.rows):
        data.sample(i, &x)
        for entry in range(x.nnz):
            free[x.index[entry] + 1] += entry == 0 or x.index[entry] != x.index[entry - 1]
    add_up(free)
    samples = np.empty(indptr[data.features], dtype=np.int32)
    values = np.empty(len(samples) if keeps else 0, dtype=REAL_TYPE)
    cdef int32_t[::1] sample = samples
    cdef real[::1] value = values
    with nogil:
        for i in range(data.rows):
            data.sample(i, &x)
            for entry in range(x.nnz):
                at = free[x.index[entry]]
                if entry and x.index[entry] == x.index[entry - 1]:
                    value[at - 1] = <float>(value[at - 1] + x.value[entry])  # rounded to float, as in the models
                    continue
                free[x.index[entry]] = at + 1
                sample[at] = <int32_t>i
                if keeps:
                    value[at] = x.value[entry]
    give_back(free)
    return Columns(indptr, samples, values if keeps else None)


def by_row(Model model, Dataset data, int block):
    """Columns of a block for which the model selects the rows that a sample touches.

    A value is that of the feature if rows belong to features, else the derivative with respect to the row's weight.
    """
    model.require(training=True)
    if not 0 <= block < model.n_blocks:
        raise IndexError("no such block")
    cdef Workspace workspace = workspace_for(model, data)
    cdef Scratch* s = &workspace.scratch
    cdef const SparseGradient* gradient
    cdef bint features = model.layout[block].by_feature
    cdef Py_ssize_t i, j, entry, at
    cdef int32_t feature, each = model.layout[block].rows_each
    cdef Sample x
    indptr = np.zeros(model.block[block].rows + 1, dtype=np.int64)
    cdef int64_t[::1] free = indptr
    for i in range(data.rows):
        data.sample(i, &x)
        model.rows(&x, s)
        gradient = &s.gradients[block]
        for j in range(gradient.n):
            free[gradient.row[j] + 1] += 1
    add_up(free)
    samples = np.empty(indptr[model.block[block].rows], dtype=np.int32)
    values = np.empty(len(samples), dtype=REAL_TYPE)
    cdef int32_t[::1] sample = samples
    cdef real[::1] value = values
    for i in range(data.rows):
        data.sample(i, &x)
        model.rows(&x, s)
        if not features:
            model.weight_derivatives(block, &x, s)
        gradient = &s.gradients[block]
        entry = 0
        for j in range(gradient.n):
            at = free[gradient.row[j]]
            free[gradient.row[j]] = at + 1
            sample[at] = <int32_t>i
            if not features:
                value[at] = gradient.weight[j]
                continue
            feature = gradient.row[j] // each
            if x.index[entry] > feature:
                entry = 0
            while x.index[entry] != feature:
                entry += 1
            value[at] = x.value[entry]
    give_back(free)
    return Columns(indptr, samples, values)


# Turn the counts of entries per row (after a leading 0) into the positions at which the rows begin. While entries are
# stored, element j is the next free position of row j. In the end it is the position at which row j + 1 begins, so
# `give_back` shifts the array by one.
cdef void add_up(int64_t[::1] counts) noexcept:
    cdef Py_ssize_t j
    for j in range(1, counts.shape[0]):
        counts[j] += counts[j - 1]


cdef void give_back(int64_t[::1] free) noexcept:
    cdef Py_ssize_t j
    for j in range(free.shape[0] - 1, 0, -1):
        free[j] = free[j - 1]
    free[0] = 0


def most_entries(Model model, Dataset data):
    """For each block, an upper bound on the number of entries of its columns, for one class."""
    cdef Py_ssize_t b, i, total
    most = []
    for b in range(model.n_blocks):
        total = 0
        for i in range(data.rows):
            total += model.most_rows(b, data.csr.indptr[i + 1] - data.csr.indptr[i])
        most.append(total)
    return most


def columns_needed(Model model, Dataset data):
    """Return bytes that the columns of all blocks of a model take while they are built."""
    each = np.dtype(np.int32).itemsize + REAL_TYPE.itemsize  # per entry: the sample and the value
    row = 2 * np.dtype(np.int64).itemsize  # per row: the position of its first entry and, temporarily, its entry count
    needed = each * (data.nnz + data.rows) + row * (data.features + 1)
    for layout, entries in zip(model.layout, most_entries(model, data), strict=True):
        if layout.touched == "selected":
            needed += each * entries + row * layout.rows(model.features) + Workspace.bytes_needed(model, data.longest)
    return needed
