"""Parts of samples that are stored once: rows of a table that many samples share."""

import numpy as np

from fmcli.models.layout import REAL_TYPE, allocate

from fmcli.base.types cimport ColumnView, Sample, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport ColumnModel, Model
from libc.stdint cimport int32_t


# By the contract of Joined, the scores of samples are second-order in the sums of a part, or linear without sums, so
# the kernels of pairs have the derivatives and the caches for every model.

# q <- the derivatives of the samples' scores by the sums of a part, and by its own score.
cdef void part_gradient(const ColumnView* v, const real* sums, real* q) noexcept nogil:
    kernels.pairs_score_gradient(v, sums, NULL, q)


# Update the caches for a step of a part's sums, given their values before it, and of its own score.
cdef void update_part(const ColumnView* v, const real* sums, const real* step) noexcept nogil:
    kernels.pairs_update_cache(v, sums, step, 0)


cdef class RelatedSums:
    """The rows of a table, each a part of all samples that refer to it, with its sums and its own score.

    The score of a sample is the sum of the scores of its parts and, for each pair of parts, the inner product of their
    sums.

    Parameters
    ----------
    model : Model with `joined`.
    data : Dataset, the table.
    row : int32 (samples), the table row of each sample.

    Raises ValueError for a model without `joined`, and IndexError for rows that the table lacks.
    """

    def __init__(self, Model model, Dataset data, row):
        cdef const int32_t[::1] rows = data.checked(row)
        cdef real[::1] sums
        cdef double[::1] own
        self.joined = model.joined
        if self.joined is None or data.features > model.features:
            raise ValueError("the model has no sums over parts of a sample, or fewer columns than the table")
        self.model, self.data, self.row = self.joined.model, data, row
        self.table.rows, self.table.lanes = data.rows, self.model.cache_size(data)
        self.table.row = &rows[0] if rows.shape[0] else NULL
        sums = allocate(model.outputs * data.rows * self.table.lanes + 1)
        own = np.zeros(model.outputs * data.rows + 1)
        self.memory = sums, own
        self.table.sums = self.sums = &sums[0]
        self.table.own = self.own = &own[0]

    @staticmethod
    def bytes_needed(ColumnModel model not None, Dataset data):
        """Return the bytes of the sums and scores."""
        each = model.cache_size(data) * REAL_TYPE.itemsize + np.dtype(np.float64).itemsize
        return model.outputs * (data.rows + 1) * each

    def measure(self, Py_ssize_t start, Py_ssize_t stop):
        """Compute the sums and scores of rows start:stop of the table from the parameters."""
        cdef Py_ssize_t i, at
        cdef int c
        cdef Sample x
        if self.sums == NULL:
            raise ValueError("the sums were not initialized")
        self.model.require()
        if not 0 <= start <= stop <= self.data.rows:
            raise IndexError("no such rows")
        with nogil:
            for i in range(start, stop):
                self.data.sample(i, &x)
                for c in range(self.model.outputs):
                    at = c * self.table.rows + i
                    self.own[at] = self.joined.part(&x, c, False, self.sums + at * self.table.lanes)
