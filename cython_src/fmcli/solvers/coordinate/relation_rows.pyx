"""The rows of a relation in coordinate descent."""

import numpy as np

from fmcli.solvers.coordinate.columns import by_feature

from fmcli.base.types cimport real
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport ColumnModel, Model
from fmcli.models.related.sums cimport RelatedSums
from fmcli.solvers.coordinate.columns cimport Columns
from libc.string cimport memset


cdef class RelationRows(RelatedSums):
    """The rows of a relation, while the parameters of its features are updated.

    For the samples that refer to it, a row of a relation is like a feature of value 1: its factors B are the sums of
    the row, its weight t is the row's own score. So the quadratic bound on the mean loss as a function of (B, t), with

        slope <- sum_i s_i l'(y_i, f_i) q_i        q_i = (S_i - B, 1), the derivative of f_i by (B, t)
        curvature <- sum_i s_i max l'' q_i q_i^T

    needs one pass over its samples. Updates of the row's features then need the row only, whatever the number of its
    samples (relation_rows.inl). In the end, a second pass over the samples applies the change of (B, t) to their scores
    and caches. For the squared loss, single samples would give the same steps. For other losses of bounded curvature,
    the bound holds for the whole relation, so the objective cannot rise either. (Rendle, Scaling
    Factorization Machines to Relational Data, 2013, for single coordinates.)

    Parameters
    ----------
    model, data, row : as in RelatedSums.

    Attributes
    ----------
    columns : for each feature, the rows of the relation that it enters and that samples refer to.
    samples : for each row of the relation, the samples that refer to it.

    The state of a row has (B, t) as they are now, the slope, and the curvature: 2 w + w^2 doubles, where w - 1 is the
    number of factors. It holds for one class at a time.
    """

    def __init__(self, Model model, Dataset data, row):
        cdef double[::1] states
        RelatedSums.__init__(self, model, data, row)
        if data.features != model.features:
            raise ValueError("the relation must have as many columns as the model")
        # Features of rows that no sample refers to do not occur.
        used = np.unique(row)
        found = by_feature(data.take(used))
        self.columns = Columns(found.indptr, used[found.sample], None if data.value is None else found.value)
        order = np.argsort(row, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=data.rows))]).astype(np.int64)
        self.samples = Columns(starts, order, None)
        self.width = self.table.lanes + 1
        self.state_size = (2 + self.width) * self.width * sizeof(double)
        states = np.zeros(data.rows * (2 + self.width) * self.width + 1)
        self.state_memory = states
        self.states = <char*>&states[0]

    @staticmethod
    def bytes_needed(ColumnModel model not None, Dataset data):
        """Return the bytes of the states of the rows, of their columns and of their samples, without the ids of the
        samples that refer to them."""
        width = model.cache_size(data) + 1
        states = data.rows * (2 + width) * width * np.dtype(np.float64).itemsize
        columns = (np.dtype(np.int32).itemsize + np.dtype(np.float32).itemsize) * data.nnz
        indptr = np.dtype(np.int64).itemsize * 2 * (data.features + data.rows + 2)
        return RelatedSums.bytes_needed(model, data) + states + columns + indptr

    # Begin with row i: (B, t) of a class as they are, and no slopes or curvatures yet.
    cdef void enter(self, Py_ssize_t i, int output) noexcept nogil:
        cdef Py_ssize_t f, lanes = self.table.lanes, at = output * self.table.rows + i
        cdef double* state = self.state(i)
        for f in range(lanes):
            state[f] = self.sums[at * lanes + f]
        state[lanes] = self.own[at]
        memset(state + self.width, 0, (1 + self.width) * self.width * sizeof(double))

    # The curvature of row i below the diagonal, copied from above it.
    cdef void complete(self, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t f, h
        cdef double* curvature = self.state(i) + 2 * self.width
        for f in range(self.width):
            for h in range(f):
                curvature[f * self.width + h] = curvature[h * self.width + f]

    # step (width) <- the change of (B, t) of row i since `enter`.
    cdef void change(self, Py_ssize_t i, int output, real* step) noexcept nogil:
        cdef Py_ssize_t f, lanes = self.table.lanes, at = output * self.table.rows + i
        cdef const double* now = self.state(i)
        for f in range(lanes):
            step[f] = <real>(now[f] - self.sums[at * lanes + f])
        step[lanes] = <real>(now[lanes] - self.own[at])

    # Take over (B, t) of row i.
    cdef void leave(self, Py_ssize_t i, int output) noexcept nogil:
        cdef Py_ssize_t f, lanes = self.table.lanes, at = output * self.table.rows + i
        cdef const double* now = self.state(i)
        for f in range(lanes):
            self.sums[at * lanes + f] = <real>now[f]
        self.own[at] = now[lanes]
