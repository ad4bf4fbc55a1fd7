"""The normal priors of all parameters, as one sweep of the sampler has drawn them."""

import numpy as np

from fmcli.base.types cimport real
from fmcli.models.parameters cimport Parameters
from fmcli.solvers.coordinate.descent cimport Descent
from fmcli.solvers.gibbs.random cimport Stream, normals, stream_of
from libc.math cimport INFINITY, sqrt
from libc.stdint cimport int32_t, uint32_t


cdef class Priors:
    """Each parameter's prior N(mean, 1 / precision), and the other quantities of its conditional distribution.

    In a block by feature, each column of each row of a feature has a prior, shared by all features of a group. In other
    blocks, the table has one row, and the caller gives the columns of an array the same prior.

    Parameters
    ----------
    descent : Descent, with the squared loss.
    seed : below 2^63.
    group : int32 (features), the group of each feature, or None for a single group.

    Attributes
    ----------
    mean, precision : per block, float64 (rows of the table, lanes + 1); the last column is the weight's. A precision of
        0 is a flat prior; inf marks padding, which stays 0.
    weight : the total weight of the rows, to be spread over them.
    noise : the precision of a label with weight 1.
    flat : the precision of the bias when it is drawn jointly with other parameters.
    sweep : the number of the sweep; every sweep has its own random numbers.

    Raises ValueError for groups that do not fit the features.
    """

    def __init__(self, Descent descent, seed, group=None):
        cdef const int32_t[::1] groups
        cdef double[:, ::1] mean, precision
        self.descent, self.seed, self.sweep = descent, seed, 0
        self.noise, self.flat, self.weight = 1, 0, descent.data.total_weight()
        self.group, self.groups = group, 1
        self.group_ = NULL
        self.sample_key_ = NULL
        if group is not None:
            groups = group
            if groups.shape[0] != descent.model.features or group.min(initial=0) < 0:
                raise ValueError("the groups do not fit the features")
            self.groups = int(group.max(initial=0)) + 1
            if groups.shape[0]:
                self.group_ = &groups[0]
        self.mean, self.precision = [], []
        for b, layout in enumerate(descent.model.layout):
            self.block[b].key = NULL
            self.block[b].each = layout.rows_each if layout.by_feature else 0
            self.block[b].columns = layout.lanes + 1
            shape = max(1, self.block[b].each * self.groups), layout.lanes + 1
            mean, precision = np.zeros(shape), np.zeros(shape)
            self.block[b].mean, self.block[b].precision = &mean[0, 0], &precision[0, 0]
            self.mean.append(np.asarray(mean))
            self.precision.append(np.asarray(precision))

    def set_keys(self, list blocks not None, const uint32_t[::1] samples not None):
        """Let random numbers depend on these numbers instead of the numbers of rows and samples.

        blocks : list of uint32 (rows of each block). samples : uint32 (samples). Raises ValueError if they do not fit.
        """
        cdef const uint32_t[::1] one
        cdef Parameters model = self.descent.model
        if len(blocks) != model.n_blocks or samples.shape[0] != self.descent.data.rows:
            raise ValueError("the keys do not fit")
        self.keys = [*blocks, samples]
        for b, keys in enumerate(blocks):
            one = keys
            if one.shape[0] != model.block[b].rows:
                raise ValueError("the keys do not fit")
            self.block[b].key = &one[0] if one.shape[0] else NULL
        self.sample_key_ = &samples[0] if samples.shape[0] else NULL

    def draw(self, int b, const int32_t[::1] features):
        """Draw the rows of these features in block b, which must be by feature, from their prior, without regard to
        samples.

        The random numbers depend on the same numbers as in GibbsUpdater.
        """
        cdef Parameters model = self.descent.model
        cdef BlockPrior* prior = &self.block[b]
        cdef Py_ssize_t i, row, f, first, lanes = prior.columns - 1
        cdef double[::1] numbers = np.empty(prior.columns)
        cdef real* body
        cdef Stream stream
        self.descent.require()
        for i in range(features.shape[0]):
            if not 0 <= features[i] < model.features or prior.each == 0:
                raise IndexError("no such feature")
        with nogil:
            for i in range(features.shape[0]):
                for row in range(features[i] * prior.each, (features[i] + 1) * prior.each):
                    stream = stream_of(self.seed, self.sweep, b, self.key(b, row), 0)
                    normals(&stream, &numbers[0], prior.columns)
                    first = self.place(b, row) * prior.columns
                    body = model.block[b].body + row * model.block[b].body_stride
                    for f in range(lanes):
                        if prior.precision[first + f] != INFINITY:  # padding stays 0
                            body[f] = <real>(prior.mean[first + f] + numbers[f] / sqrt(prior.precision[first + f]))
                    if model.block[b].weight != NULL:
                        first += lanes
                        model.block[b].weight[row * model.block[b].weight_stride] = <real>(
                            prior.mean[first] + numbers[lanes] / sqrt(prior.precision[first]))

    def moments(self, int b, const int32_t[::1] order):
        """Return (count, sum, squares) of the parameters in these rows of block b, by rows of its table: float64 (rows
        of the table), and twice (rows of the table, lanes + 1)."""
        cdef Parameters model = self.descent.model
        cdef BlockPrior* prior = &self.block[b]
        cdef Py_ssize_t i, f, at, lanes = prior.columns - 1
        cdef const real* body
        cdef double value
        self.descent.require()
        shape = self.mean[b].shape
        counts, sums, squares = np.zeros(shape[0]), np.zeros(shape), np.zeros(shape)
        cdef double[::1] count = counts
        cdef double[:, ::1] total = sums, square = squares
        for i in range(order.shape[0]):
            if not 0 <= order[i] < model.block[b].rows:
                raise IndexError("no such row")
        with nogil:
            for i in range(order.shape[0]):
                at = self.place(b, order[i])
                count[at] += 1
                body = model.block[b].body + order[i] * model.block[b].body_stride
                for f in range(lanes):
                    value = body[f]
                    total[at, f] += value
                    square[at, f] += value * value
                if model.block[b].weight != NULL:
                    value = model.block[b].weight[order[i] * model.block[b].weight_stride]
                    total[at, lanes] += value
                    square[at, lanes] += value * value
        return counts, sums, squares
