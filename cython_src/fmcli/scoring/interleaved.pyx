"""Several draws of a factorization machine's parameters, interleaved by feature in memory."""

import numpy as np

from fmcli.models.layout import REAL_TYPE

from fmcli.base.types cimport LANES, Factors, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.arguments cimport DRAWS_TOGETHER as MOST_DRAWS
from fmcli.models.arguments cimport KeptRows
from fmcli.models.kept cimport kept_rows
from fmcli.models.kernels cimport kernels
from libc.stdint cimport int32_t

DRAWS_TOGETHER = MOST_DRAWS  # for Python


cdef class InterleavedFM:
    """Scores of all draws in one pass over the rows, in a third of the time of separate passes: the parameters of an
    entry are found once, and lie in few cache lines. The scores have the same bits as by FM.

    The draws are not copied. `interleaved` returns copies for the features of the rows to score.

    Parameters
    ----------
    factors : for each draw, the factors (features, rank), in the real type or in 16 bits.
    weights : for each draw, the linear weights (features); or None.
    bias : (draws) the biases.
    """

    cdef object arrays
    cdef double[::1] bias
    cdef KeptRows factors[MOST_DRAWS]
    cdef KeptRows weights[MOST_DRAWS]
    cdef Py_ssize_t lanes, width
    cdef bint linear
    cdef readonly Py_ssize_t draws, features

    def __init__(self, factors, weights, bias):
        cdef Py_ssize_t draw
        self.draws, (self.features, rank) = len(factors), factors[0].shape
        if not 0 < self.draws <= MOST_DRAWS:
            raise ValueError(f"there are {self.draws} draws; at most {MOST_DRAWS} can be scored together")
        self.arrays, self.bias = (factors, weights), np.array(bias, dtype=np.float64)
        self.lanes, self.linear = (rank + LANES - 1) // LANES * LANES, weights is not None
        self.width = self.draws * self.lanes + (MOST_DRAWS if self.linear else 0)
        for draw in range(self.draws):
            self.factors[draw] = kept_rows(factors[draw])
            if self.linear:
                self.weights[draw] = kept_rows(weights[draw][:, None])

    @staticmethod
    def bytes_needed(features, rank, draws):
        """Return the bytes of the interleaved copies of this many draws."""
        return REAL_TYPE.itemsize * features * (draws * ((rank + LANES - 1) // LANES * LANES) + MOST_DRAWS)

    def interleaved(self, columns=None, used=None):
        """Return (columns, n) copies of the parameters of some features (int32), which increase, or of all,
        interleaved. used : copies of another group for these features, which are overwritten if they are as large."""
        cdef const int32_t[::1] chosen = columns
        cdef Py_ssize_t count = self.features if chosen is None else chosen.shape[0], draw
        cdef const int32_t* row = NULL
        shape = count, self.width
        copies = np.zeros(shape, dtype=REAL_TYPE) if used is None or used.shape != shape else used
        cdef real[:, ::1] out = copies
        if not count:
            return copies
        if chosen is not None:
            if not 0 <= chosen[0] <= chosen[count - 1] < self.features:
                raise ValueError("the draws do not have these features")
            row = &chosen[0]
        with nogil:
            for draw in range(self.draws):
                kernels.copy_rows(&self.factors[draw], row, count, &out[0, draw * self.lanes], self.width)
                if self.linear:
                    kernels.copy_rows(
                        &self.weights[draw], row, count, &out[0, self.draws * self.lanes + draw], self.width)
        return copies

    def scores(self, real[:, ::1] copies, Dataset data, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out,
               rows=None):
        """Compute out (draws, rows) [:, start:stop] <- the scores of these rows; with `rows` (int32), of the rows with
        the indices rows[start:stop]. copies : of the features of the data, from `interleaved`."""
        cdef const int32_t[::1] chosen = rows
        cdef Py_ssize_t count = data.rows if chosen is None else chosen.shape[0]
        if not 0 <= start <= stop <= count or out.shape[0] != self.draws or out.shape[1] < stop:
            raise ValueError("the rows to score do not fit the data or the array for their scores")
        if data.features > copies.shape[0] or copies.shape[1] != self.width:
            raise ValueError("the data have features that the copies do not have")
        cdef const int32_t* row = NULL
        cdef Factors factors = Factors(NULL, self.width, self.lanes), weights = Factors(NULL, self.width, 1)
        if start == stop:
            return
        if chosen is not None:
            data.check_rows(chosen[start:stop])
            row = &chosen[0]
        if copies.shape[0]:
            factors.at = &copies[0, 0]
            if self.linear:
                weights.at = &copies[0, 0] + self.draws * self.lanes
        with nogil:
            kernels.second_order_draws(
                &factors, &weights, &self.bias[0], self.draws, &data.csr, row, start, stop, &out[0, 0], out.shape[1])
