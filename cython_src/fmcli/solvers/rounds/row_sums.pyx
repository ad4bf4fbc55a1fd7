"""Rounds in two halves: the sums of gradients of some samples by parameter row, and a step by such sums.

Sums of several shares of the samples can be added before the step. The step then equals the step of a round of all
samples, up to rounding (round_loop.pyx).
"""

from typing import NamedTuple

import numpy as np

from fmcli.models.layout import REAL_TYPE
from fmcli.solvers.rounds.distinct import distinct

from fmcli.base.types cimport (
    MANY_ENTRIES, Block, RoundGradient, Sample, Scratch, SparseGradient, ThreadShare, real)
from fmcli.data.dataset cimport Dataset
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport Model
from fmcli.models.parameters cimport Parameters
from fmcli.models.workspace cimport Workspace, workspace_for
from fmcli.solvers.stochastic.row_entries cimport without_first
from fmcli.solvers.stochastic.solver cimport Solver
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset


class BlockSums(NamedTuple):
    """Sums over samples by the rows of a block of the model, for all classes.

    rows : int32 (n), row ids in increasing order; the ids of class c begin at c times the rows of a class.
    body, body_squares : (n, lanes) of the real type, the sums of gradients, and of their squares.
    weight, weight_squares : (n) the same for the weights.
    samples : int32 (n), the number of samples with a gradient.
    curvature : float64 (n), a bound on the curvature by all samples, for a loss of curvature 1.
    """

    rows: object
    body: object
    body_squares: object
    weight: object
    weight_squares: object
    samples: object
    curvature: object


def row_sums(Model model not None, Loss loss not None, Dataset data not None, double mean_weight, shares):
    """Return the sums of the gradients of the samples of each share of the data, at the current parameters.

    mean_weight : the divisor of weights.
    shares : for each share, the end of its rows, increasing.

    Returns the weighted sum of the losses of each share, float64 (shares); and for each block of the model, BlockSums
    with the concatenated sums of the shares, and the number of their rows, int64 (shares). Raises ValueError if the
    model cannot be trained on the data.
    """
    model.require(training=True)
    if data.label is None:
        raise ValueError("the data have no labels")
    loss.check(data.label, model.outputs)
    cdef int64_t[::1] ends = np.array(shares, dtype=np.int64)
    cdef Py_ssize_t share, i = 0, j
    for share in range(ends.shape[0]):
        if ends[share] < (ends[share - 1] if share else 0) or ends[share] > data.rows:
            raise ValueError("the shares are not shares of the data")
    losses_ = np.zeros(ends.shape[0])
    cdef double[::1] losses = losses_, values = np.zeros(model.features + 1)
    cdef Workspace workspace = workspace_for(model, data)
    cdef Scratch* s = &workspace.scratch
    cdef list sums = [_RowAdder(model, b) for b in range(model.n_blocks)]
    cdef double effect, weight, scale = 1 / mean_weight
    cdef int b, c, g
    cdef Sample x
    cdef SparseGradient* gradient
    for share in range(ends.shape[0]):
        while i < ends[share]:
            data.sample(i, &x)
            effect = 1
            for j in range(x.nnz):
                effect += fabs(x.value[j])
                values[x.index[j]] = fabs(x.value[j])
            effect *= data.share_of(i, mean_weight)
            model.rows(&x, s)
            model.score(&x, s)
            weight = data.weight_of(i)
            losses[share] += weight * loss.slope(data.label_of(i), s.score, s.slope)
            for c in range(model.outputs):
                s.slope[c] *= weight * scale
            model.gradient(&x, s)
            for g in range(s.n_gradients):
                gradient = &s.gradients[g]
                b = gradient.block
                if model.trained[b]:
                    (<_RowAdder>sums[b]).add(gradient, effect, s.slope[g // model.n_blocks], &values[0])
            i += 1
        for b in range(model.n_blocks):
            (<_RowAdder>sums[b]).end_share()
    return losses_, [(<_RowAdder>adder).sums() for adder in sums]


cdef class _RowAdder:
    """Adds sparse gradients to the sums of a block of a model, share by share."""

    # By row, or by row and lane; all are zero before each share.
    cdef double[:, ::1] body, body_squares
    cdef double[::1] weight, weight_squares, curvature
    cdef int32_t[::1] count
    cdef Py_ssize_t lanes, rows_each
    cdef bint of_features, selected, weighted
    cdef list shares

    def __init__(self, Parameters model, int b):
        cdef Py_ssize_t rows = model.outputs * model.block[b].rows
        layout = model.layout[b]
        self.lanes, self.weighted = model.block[b].lanes, model.block[b].weight != NULL
        self.of_features, self.rows_each = layout.by_feature, layout.rows_each
        self.selected = not layout.by_feature and layout.touched == "selected"
        self.body, self.body_squares = np.zeros((rows, self.lanes)), np.zeros((rows, self.lanes))
        self.weight, self.weight_squares = np.zeros(rows), np.zeros(rows)
        self.curvature, self.count = np.zeros(rows), np.zeros(rows, dtype=np.int32)
        self.shares = []

    # effect : the bound on the curvature of the sample's loss by all parameters, for a parameter whose derivative is 1;
    # values : by feature, its value in the sample.
    cdef void add(
        self, const SparseGradient* gradient, double effect, double slope, const double* values
    ) noexcept nogil:
        cdef Py_ssize_t j, f, row
        cdef double g, derivative
        for j in range(gradient.n):
            row = gradient.first + gradient.row[j]
            for f in range(self.lanes):
                g = gradient.body[j * self.lanes + f]
                self.body[row, f] += g
                self.body_squares[row, f] += g * g
            derivative = 1
            if self.weighted:
                g = gradient.weight[j]
                self.weight[row] += g
                self.weight_squares[row] += g * g
                if self.selected:
                    derivative = fabs(g / slope) if slope != 0 else 0
            if self.of_features:
                derivative = values[gradient.row[j] // self.rows_each]
            self.curvature[row] += effect * derivative
            self.count[row] += 1

    # Store the sums of the rows that have a gradient, and begin the next share.
    cdef end_share(self):
        rows = np.flatnonzero(self.count).astype(np.int32)
        found = new_sums(rows, self.lanes)
        cdef const int32_t[::1] ids = rows
        cdef real[:, ::1] body = found.body, body_squares = found.body_squares
        cdef real[::1] weight = found.weight, weight_squares = found.weight_squares
        cdef int32_t[::1] count = found.samples
        cdef double[::1] curvature = found.curvature
        cdef Py_ssize_t i, f, row
        for i in range(ids.shape[0]):
            row = ids[i]
            for f in range(self.lanes):
                body[i, f], body_squares[i, f] = self.body[row, f], self.body_squares[row, f]
                self.body[row, f] = self.body_squares[row, f] = 0
            weight[i], weight_squares[i] = self.weight[row], self.weight_squares[row]
            count[i], curvature[i] = self.count[row], self.curvature[row]
            self.weight[row] = self.weight_squares[row] = self.curvature[row] = 0
            self.count[row] = 0
        self.shares.append(found)

    # The sums of all shares, and the number of rows of each share.
    cdef sums(self):
        together = BlockSums(*[np.concatenate(arrays) for arrays in zip(*self.shares)])
        return together, np.array([len(share.rows) for share in self.shares], dtype=np.int64)


def new_sums(rows, Py_ssize_t lanes):
    """Return BlockSums of zeros for these rows."""
    n = len(rows)
    bodies, weights = [[np.zeros(shape, dtype=REAL_TYPE) for _ in range(2)] for shape in ((n, lanes), n)]
    return BlockSums(rows, *bodies, *weights, np.zeros(n, dtype=np.int32), np.zeros(n))


def added_sums(shares):
    """Return the BlockSums of all samples, from the BlockSums (at least one) of shares of them, added in order."""
    cdef Py_ssize_t first = 0
    rows, places = distinct(np.concatenate([share.rows for share in shares]))
    total = new_sums(rows, shares[0].body.shape[1])
    for share in shares:
        _add(total, share, places[first : first + len(share.rows)])
        first += len(share.rows)
    return total


# Add to total the sums of share, whose rows have these positions in total.
cdef _add(total, share, const int32_t[::1] places):
    cdef const int32_t[::1] share_count = share.samples
    cdef const real[:, ::1] share_body = share.body, share_squares = share.body_squares
    cdef const real[::1] share_weight = share.weight, share_weight_squares = share.weight_squares
    cdef const double[::1] share_curvature = share.curvature
    cdef real[:, ::1] body = total.body, squares = total.body_squares
    cdef real[::1] weight = total.weight, weight_squares = total.weight_squares
    cdef int32_t[::1] count = total.samples
    cdef double[::1] curvature = total.curvature
    cdef Py_ssize_t i, f, at, lanes = body.shape[1]
    if not lanes == share_body.shape[1] == share_squares.shape[1] or any([len(a) != len(share.rows) for a in share]):
        raise ValueError("the sums belong to different blocks")
    for i in range(places.shape[0]):
        at = places[i]
        for f in range(lanes):
            body[at, f] += share_body[i, f]
            squares[at, f] += share_squares[i, f]
        weight[at] += share_weight[i]
        weight_squares[at] += share_weight_squares[i]
        count[at] += share_count[i]
        curvature[at] += share_curvature[i]


def step_by_sums(Parameters model not None, Solver solver not None, Loss loss not None, int block, sums):
    """Make one step in the rows of a block with sums.

    solver : bound to the model, with steps for rounds.
    sums : BlockSums of a round of samples.

    Raises ValueError for sums of another shape, or a solver without steps for rounds.
    """
    cdef RoundGradient gradient
    cdef const int32_t[::1] row = sums.rows
    cdef const real[:, ::1] body = sums.body, body_squares = sums.body_squares
    cdef const real[::1] weight = sums.weight, weight_squares = sums.weight_squares
    cdef const int32_t[::1] count = sums.samples
    cdef const double[::1] curvature = sums.curvature
    cdef Py_ssize_t i, n = row.shape[0]
    cdef Block* target
    model.require(training=True)
    solver.require(model)
    if not solver.takes_rounds or solver.defers_steps or not 0 <= block < model.n_blocks:
        raise ValueError("the solver has no step by sums, or the model no such block")
    target = &model.block[block]
    if any([array.shape[0] != n for array in sums]) or body.shape[1] != target.lanes:
        raise ValueError("the sums belong to another block")
    if body_squares.shape[1] != target.lanes:
        raise ValueError("the sums belong to another block")
    for i in range(n):
        if not 0 <= row[i] < model.outputs * target.rows or count[i] < 1:
            raise ValueError("the sums have rows that the model does not have, or no samples")
    if n == 0:
        return
    starts_ = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(sums.samples, out=starts_[1:])
    cdef int32_t[::1] starts = starts_, rows = np.array(row)
    cdef real[::1] bounds = np.empty(n, dtype=REAL_TYPE)
    for i in range(n):
        bounds[i] = <real>without_first(curvature[i], count[i])
    cdef double[::1] room = np.zeros(model.room_size())
    cdef ThreadShare share = ThreadShare(0, 1, &room[0])
    memset(&gradient, 0, sizeof(gradient))
    gradient.block, gradient.curvature = block, loss.smoothness
    gradient.rows.row, gradient.rows.start, gradient.rows.curvature = &rows[0], &starts[0], &bounds[0]
    gradient.rows.end[MANY_ENTRIES - 1] = n
    if target.lanes:
        gradient.body, gradient.body_squares = &body[0, 0], &body_squares[0, 0]
    if target.weight != NULL:
        gradient.weight, gradient.weight_squares = &weight[0], &weight_squares[0]
    with nogil:
        solver.round_step(&gradient, &share)
