"""Coordinate descent on the mean loss plus penalty: what all threads share."""

import numpy as np

from fmcli.solvers.coordinate.columns import by_feature, by_row, columns_needed, of_all
from fmcli.models.layout import allocate

from fmcli.base.types cimport real
from fmcli.data.dataset cimport Dataset
from fmcli.kernels.simd cimport ExactStrength, PenaltyStrength, rounded
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport NONE, Model
from fmcli.penalties.penalty cimport Penalty
from libc.math cimport isfinite

cdef enum:
    LINE = 64  # bytes


cdef inline Py_ssize_t header_of(Model model) noexcept:
    return (SCORES + model.outputs) * sizeof(double)


# Bytes of a sample's sample state whose cache has so many reals in each class.
cdef inline Py_ssize_t sample_state_size(Model model, Py_ssize_t cache) noexcept:
    return (header_of(model) + model.outputs * cache * <Py_ssize_t>sizeof(real) + LINE - 1) // LINE * LINE


AFFINE = {"row": IN_ROW, "part": IN_PART, "one": IN_ONE}


cdef class Descent:
    """Cyclic descent: one row of parameters after the other, each through all samples that it enters.

    On some of a row's parameters, in which scores are affine, the mean loss is bounded by a quadratic with the loss's
    largest curvature (for the squared loss it is that quadratic), which is then minimised with the penalty coordinate
    by coordinate: the derivatives of the scores are looked at twice for all of these parameters, not for each. Fitted
    weights of kernels move jointly with the bias. A row under a group penalty moves as one, by a bound on that
    quadratic. Where no bound holds, steps are halved until the objective does not rise. A CoordinateUpdater does all
    this; here is what it works on.

    Each sample has a state: label, share of the weight, scores, and the model's cache, together in few cache lines.

    Parameters
    ----------
    model : Model, allocated without state and started.
    loss : Loss.
    penalty : Penalty.
    data : Dataset with labels and weights > 0.
    by_gradient : take derivatives from the model's `gradient` even where it has a faster way: the oracle of the latter.

    Attributes
    ----------
    columns : of each block, which samples its rows enter.
    fast : whether the model has a faster way than `gradient`.
    """

    def __init__(self, Model model, Loss loss, Penalty penalty, Dataset data, by_gradient=False):
        cdef Py_ssize_t i, b, size
        cdef real[::1] flat
        model.require(training=True)
        if data.label is None or data.features != model.features:
            raise ValueError("the data must have labels, and as many columns as the model")
        loss.check(data.label, model.outputs)
        self.placed = model.placed
        self.model, self.loss, self.penalty, self.data = model, loss, penalty, data
        self.bounded, self.curvature = isfinite(loss.smoothness), loss.smoothness
        everyone, features = of_all(data.rows), by_feature(data)
        known = {"features": features, "all": everyone}
        self.columns = [known.get(layout.touched) or by_row(model, data, b) for b, layout in enumerate(model.layout)]
        self.nuclear, self.beta = penalty.nuclear, 0
        for b, layout in enumerate(model.layout):
            self.rule[b].affine = AFFINE[layout.affine]
            self.rule[b].simplex = layout.constraint == "simplex"
            self.rule[b].of_kernels = layout.role == "kernel weights"
            if self.rule[b].of_kernels:
                self.beta = b
        self.weigh()
        size = NONE if by_gradient else model.cache_size(data)
        self.fast, self.cache = size != NONE, max(size, 0)
        self.header = header_of(model)
        self.sample_state_size = sample_state_size(model, self.cache)
        self.memory = allocate(data.rows * self.sample_state_size // sizeof(real) + 1)
        flat = self.memory
        self.sample_states = <char*>&flat[0]
        weights = np.ones(data.rows) if data.weight is None else data.weight
        cdef const double[::1] share = weights / weights.sum()
        for i in range(data.rows):
            self.sample_state(i)[LABEL], self.sample_state(i)[SHARE] = data.label_[i], share[i]

    def weigh(self):
        """Take over the penalty's strengths, which have changed."""
        cdef BlockRule* rule
        cdef ExactStrength weight
        self.require()
        for b, layout in enumerate(self.model.layout):
            rule, weight = &self.rule[b], self.penalty.strength(layout, False)
            rule.group, rule.group_penalty = weight.group, weight.group_penalty
            rule.whole = rule.group > 0 or rule.simplex
            rule.body = rounded(self.penalty.strength(layout, True))
            rule.weight = PenaltyStrength(0, 0, 0, 0) if rule.of_kernels else rounded(weight)

    @staticmethod
    def bytes_needed(Model model, Dataset data):
        """Bytes that samples' sample_states and the columns take."""
        return data.rows * sample_state_size(model, max(model.cache_size(data), 0)) + columns_needed(model, data)

    # ValueError where the model's rows do not lie as they did.
    cdef require(self):
        if self.model is None or self.placed != self.model.placed:
            raise ValueError("the descent was made before the model's rows were laid out anew")

    def look_again(self):
        """Find anew which samples enter which rows, where that may have changed."""
        self.require()
        for b, layout in enumerate(self.model.layout):
            if layout.touched == "own":
                self.columns[b] = by_row(self.model, self.data, b)

    def order(self, int b):
        """int64: block b's rows of one class that enter samples, in the order in which they are visited.

        Of rows that a feature has several of, the first of all features come first: two of one feature enter the same
        samples, those of two features often do not.
        """
        self.require()
        if not 0 <= b < self.model.n_blocks:
            raise IndexError("no such block")
        others = max(1, self.model.layout[b].others if self.model.layout[b].by_feature else 1)
        rows = self.columns[b].occupied(self.model.block[b].rows)
        return rows if others == 1 else rows[np.argsort(rows % others, kind="stable")]

    def weigh_kernels(self):
        """Look at the factors anew before the kernels' weights move, whose penalty may depend on them."""
        self.require()
        if self.nuclear > 0:
            self.norms = self.penalty.kernel_norms(self.model)

    def penalty_value(self):
        """The penalty of the parameters as they are."""
        self.require()
        return self.penalty.value(self.model)
