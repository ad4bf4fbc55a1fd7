"""The scores of a model, and the losses of scores."""

import numpy as np

from fmcli.models.layout import allocate

from fmcli.base.types cimport Sample, Scratch, real
from fmcli.data.dataset cimport Dataset
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport ColumnModel, Model
from fmcli.models.workspace cimport Workspace
from fmcli.models.related.sums cimport RelatedSums, RelatedTable, join
from libc.math cimport NAN
from libc.stdint cimport int32_t
from libcpp.vector cimport vector


def scores(
    Model model, Dataset data, Workspace workspace, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out, rows=None
):
    """Compute out (rows, C) [start:stop] <- the scores of these rows; with `rows` (int32), of the rows with the indices
    rows[start:stop]. The workspace must be large enough for the longest row.

    The data must not have columns that the model lacks.
    """
    cdef const int32_t[::1] chosen = rows
    cdef Py_ssize_t count = data.rows if chosen is None else chosen.shape[0]
    if not 0 <= start <= stop <= count or out.shape[0] < stop or out.shape[1] != model.outputs:
        raise ValueError("the rows to score do not fit the data or the array for their scores")
    if chosen is not None:
        data.check_rows(chosen[start:stop])
    workspace.fit(model, data)
    cdef const int32_t* row = NULL
    if chosen is not None and start < stop:
        row = &chosen[0]
    if start < stop:
        with nogil:
            model.score_samples(data, row, start, stop, &workspace.scratch, &out[0, 0])


def joined_scores(
    list parts not None, Dataset data, Workspace workspace, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out,
    rows=None
):
    """Compute the scores of samples with relations, like `scores`. data : the rows' own entries; parts : the
    RelatedSums of one model, measured."""
    cdef const int32_t[::1] chosen = np.arange(data.rows, dtype=np.int32) if rows is None else rows
    cdef vector[RelatedTable] tables
    cdef RelatedSums part
    cdef Py_ssize_t i, at
    cdef size_t table
    cdef int c
    cdef Sample x
    cdef Scratch* s = &workspace.scratch
    cdef ColumnModel model = (<RelatedSums?>parts[0]).model
    cdef real[::1] cache = allocate(model.cache_size(data) + 1)
    if not 0 <= start <= stop <= chosen.shape[0] or out.shape[0] < stop or out.shape[1] != model.outputs:
        raise ValueError("the rows to score do not fit the data or the array for their scores")
    data.check_rows(chosen[start:stop])
    workspace.fit(model, data)
    for part in parts:
        if part.model is not model or len(part.row) != data.rows:
            raise ValueError("the parts do not fit the model and the rows")
        tables.push_back(part.table)
    with nogil:
        for at in range(start, stop):
            i = chosen[at]
            data.sample(i, &x)
            model.score(&x, s)
            for c in range(model.outputs):
                model.fill_cache(&x, s, c, &cache[0])
                out[at, c] = s.score[c]
                for table in range(tables.size()):
                    out[at, c] += join(&tables[table], i, c, &cache[0])


def losses(Loss loss, const double[::1] label, const double[:, ::1] score, double[::1] out):
    """Compute out[i] <- l(label[i], score[i])."""
    cdef Py_ssize_t i
    loss.check(label, <int>score.shape[1])
    if score.shape[0] < label.shape[0] or out.shape[0] < label.shape[0]:
        raise ValueError("there are fewer scores than labels, or too little room for their losses")
    with nogil:
        for i in range(label.shape[0]):
            out[i] = loss.value(label[i], &score[i, 0])


def mean_loss(Loss loss, const double[::1] label, const double[:, ::1] score, weight=None):
    """Return the weighted mean of l(label[i], score[i])."""
    cdef const double[::1] weights = weight
    cdef double total = 0, sum_of_weights = 0, w
    cdef Py_ssize_t i
    loss.check(label, <int>score.shape[1])
    if score.shape[0] < label.shape[0] or (weight is not None and weights.shape[0] < label.shape[0]):
        raise ValueError("there are fewer scores or weights than labels")
    for i in range(label.shape[0]):
        w = 1 if weight is None else weights[i]
        total += w * loss.value(label[i], &score[i, 0])
        sum_of_weights += w
    return total / sum_of_weights


def partition(const double[::1] label, const double[::1] score, double[::1] out):
    """Write to out the scores of rows with positive labels and, after them, from the end on, the scores of all others.

    Returns the number of positive labels.
    """
    cdef Py_ssize_t i, low = 0, high = score.shape[0]
    if label.shape[0] != high or out.shape[0] != high:
        raise ValueError("the labels, the scores and the room for them have different lengths")
    with nogil:
        for i in range(score.shape[0]):
            # Write both ends, so there is no branch on a label.
            out[low] = out[high - 1] = score[i]
            low += label[i] > 0
            high -= not label[i] > 0
    return low


def merged_counts(
    const double[::1] a, const double[::1] b, double[::1] distinct, double[::1] of_a, double[::1] of_b
):
    """Count the distinct numbers of two increasing arrays: of_a[i], of_b[i] <- how often the i-th smallest number,
    distinct[i], occurs in each array. Both counts must be 0 before. Returns the number of distinct numbers."""
    cdef Py_ssize_t i = 0, j = 0, n = -1, size = a.shape[0] + b.shape[0]
    cdef double x, last = NAN
    cdef bint first
    if distinct.shape[0] < size or of_a.shape[0] < size or of_b.shape[0] < size:
        raise ValueError("there is too little room for the counts")
    with nogil:
        while i < a.shape[0] and j < b.shape[0]:
            # Which array is next is hard to predict, so there is no branch on it.
            first = a[i] <= b[j]
            x = a[i] if a[i] < b[j] else b[j]
            n += x != last
            last = x
            distinct[n] = x
            of_a[n] += first
            of_b[n] += not first
            i += first
            j += not first
        n = count_rest(a, i, last, n, distinct, of_a)
        n = count_rest(b, j, last, n, distinct, of_b)
    return n + 1


# Count the distinct numbers of an increasing array from position i on, after the n-th number, which is `last`.
cdef Py_ssize_t count_rest(
    const double[::1] numbers, Py_ssize_t i, double last, Py_ssize_t n, double[::1] distinct, double[::1] counts
) noexcept nogil:
    for i in range(i, numbers.shape[0]):
        n += numbers[i] != last
        last = numbers[i]
        distinct[n] = last
        counts[n] += 1
    return n
