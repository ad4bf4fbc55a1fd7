"""CSC index: the samples that each row of parameters affects, for solvers that update one row at a time."""

import numpy as np

from fmcli.models.layout import REAL_TYPE, allocate

from fmcli.base.types cimport Sample, Scratch, SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport Model
from fmcli.models.workspace cimport Workspace, workspace_for
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class Columns:
    """The samples that each row of parameters affects, in increasing order, and the row's value in each of them.

    Parameters
    ----------
    indptr : int64 (rows + 1); the samples of row j are sample[indptr[j]] .. sample[indptr[j + 1] - 1].
    sample : int32 (entries), the indices of the samples; None: every row affects all samples, indptr[1] of them.
    value : array of the real type (entries); None: every value is 1.

    Raises ValueError if the arrays are inconsistent.
    """

    def __init__(self, indptr, sample, value):
        cdef const int64_t[::1] indptr_ = indptr
        cdef const int32_t[::1] sample_ = sample
        cdef const real[::1] value_
        cdef Py_ssize_t j, shortest = 0, longest = 0, entries
        self.indptr, self.sample, self.constant, self.same = indptr, sample, value is None, sample is None
        for j in range(indptr_.shape[0] - 1):
            shortest = min(shortest, indptr_[j + 1] - indptr_[j])
            longest = max(longest, indptr_[j + 1] - indptr_[j])
        self.value = np.ones(0 if self.same else longest, dtype=REAL_TYPE) if value is None else value
        value_ = self.value
        entries = longest if self.same else sample_.shape[0]
        if indptr_.shape[0] < 1 or indptr_[0] != 0 or shortest < 0 or indptr_[indptr_.shape[0] - 1] != entries or (
                value is not None and (self.same or value_.shape[0] != entries)):
            raise ValueError("indptr, sample and value of the columns are inconsistent")
        self.indptr_ = &indptr_[0]
        self.sample_ = &sample_[0] if not self.same and entries else NULL
        self.value_ = &value_[0] if value_.shape[0] else NULL

    def ends(self, const int32_t[::1] order not None):
        """int64 (n + 1): the number of entries of all these rows before each of them, and at last of all of them."""
        cdef Py_ssize_t i, at, n = order.shape[0]
        if n and not self.same and not 0 <= np.min(order) <= np.max(order) < len(self.indptr) - 1:
            raise IndexError("no such rows")
        before = allocate(n + 1, np.int64)
        cdef int64_t[::1] total = before
        for i in range(n):
            at = 0 if self.same else order[i]
            total[i + 1] = total[i] + self.indptr_[at + 1] - self.indptr_[at]
        return before

    def occupied(self, Py_ssize_t rows):
        """int32: the rows, out of 0 .. rows - 1, that affect any sample, in increasing order."""
        if self.same:
            return np.arange(rows if self.indptr[1] else 0, dtype=np.int32)
        cdef Py_ssize_t j, n = 0
        for j in range(self.indptr.shape[0] - 1):
            n += self.indptr_[j + 1] > self.indptr_[j]
        found = np.empty(n, dtype=np.int32)
        cdef int32_t[::1] row = found
        n = 0
        for j in range(self.indptr.shape[0] - 1):
            if self.indptr_[j + 1] > self.indptr_[j]:
                row[n] = <int32_t>j
                n += 1
        return found

    def conflict_free_sets(self, const int32_t[::1] order not None, Py_ssize_t samples, Py_ssize_t each=1):
        """int32: split the rows in this order into conflict-free sets; the position at which each set begins.

        No two rows of a set affect the same sample, unless both belong to one feature. The rows of a feature are the
        `each` rows from a multiple of `each` on. Each set has all rows of its features, and is as long as possible.
        """
        # `first`: where the set begins; rows i .. end - 1 are of one feature
        cdef Py_ssize_t i = 0, end, first = 0, sets = 1, n = order.shape[0]
        if self.same:
            return np.arange(n, dtype=np.int32)
        if each < 1:
            raise ValueError("a feature has at least one row")
        found = np.asarray(self.sample)
        if n and not 0 <= np.min(order) <= np.max(order) < len(self.indptr) - 1:
            raise IndexError("no such rows")
        if len(found) and not 0 <= found.min() <= found.max() < samples:
            raise IndexError("no such samples")
        cdef uint8_t[::1] taken = allocate(samples, np.uint8)  # by a row of the set
        starts = allocate(n + 1, np.int32)
        cdef int32_t[::1] start = starts
        while i < n:
            end = i + 1
            while end < n and order[end] // each == order[i] // each:
                end += 1
            if self.any_taken(order, i, end, taken):
                self.take(order, first, i, taken, False)
                first = i
                start[sets] = <int32_t>i
                sets += 1
            self.take(order, i, end, taken, True)
            i = end
        return starts[:sets].copy()

    # Whether rows order[begin:end] affect any sample marked as taken.
    cdef bint any_taken(
            self, const int32_t[::1] order, Py_ssize_t begin, Py_ssize_t end, const uint8_t[::1] taken) noexcept:
        cdef Py_ssize_t i, at
        for i in range(begin, end):
            for at in range(self.indptr_[order[i]], self.indptr_[order[i] + 1]):
                if taken[self.sample_[at]]:
                    return True
        return False

    # Mark the samples that these rows affect as taken, or as free.
    cdef void take(
            self, const int32_t[::1] order, Py_ssize_t begin, Py_ssize_t end, uint8_t[::1] taken, bint yes) noexcept:
        cdef Py_ssize_t i, at
        for i in range(begin, end):
            for at in range(self.indptr_[order[i]], self.indptr_[order[i] + 1]):
                taken[self.sample_[at]] = yes


def of_all(Py_ssize_t samples):
    """Columns of rows that all affect every sample, with value 1."""
    return Columns(np.array([0, samples], dtype=np.int64), None, None)


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

    A value is the feature's value if rows belong to features, else the derivative with respect to the row's weight.
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
    row = np.dtype(np.int64).itemsize  # per row: the position of its first entry
    needed = each * data.nnz + row * (data.features + 1)
    for layout, entries in zip(model.layout, most_entries(model, data), strict=True):
        if layout.touched == "selected":
            needed += each * entries + row * layout.rows(model.features) + Workspace.bytes_needed(model, data.longest)
    return needed
