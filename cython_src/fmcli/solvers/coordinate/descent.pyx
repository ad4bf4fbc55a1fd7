"""Coordinate descent on the mean loss plus penalty: what all threads share."""

import numpy as np

from fmcli.solvers.coordinate.columns import by_feature, by_row, columns_needed, of_all
from fmcli.models.layout import allocate
from fmcli.solvers.coordinate.pieces import pieces

from fmcli.base.types cimport SampleStates, real
from fmcli.data.dataset cimport Dataset
from fmcli.penalties.arguments cimport ExactStrength, PenaltyStrength, rounded
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport NONE, ColumnModel, Model
from fmcli.models.parameters cimport Parameters
from fmcli.penalties.penalty cimport Penalty
from fmcli.solvers.coordinate.relation_rows cimport RelationRows
from libc.math cimport isfinite

cdef enum:
    LINE = 64  # bytes
    IN_CACHE = 1 << 13  # numbers whose copies in double precision stay in a core's cache


cdef inline Py_ssize_t header_of(Model model) noexcept:
    return (SCORES + model.outputs) * sizeof(double)


# Bytes of a sample state; its cache has `cache` reals in each class.
cdef inline Py_ssize_t sample_state_size(Model model, Py_ssize_t cache) noexcept:
    return (header_of(model) + model.outputs * cache * <Py_ssize_t>sizeof(real) + LINE - 1) // LINE * LINE


# The reals of a sample's cache in each class; NONE if derivatives come from the model's `gradient`.
cdef Py_ssize_t cache_of(Model model, Dataset data):
    return (<ColumnModel>model).cache_size(data) if isinstance(model, ColumnModel) else NONE


AFFINE = {"row": IN_ROW, "vector": IN_VECTOR, "one": IN_ONE}


cdef class Descent:
    """The state that the threads of cyclic coordinate descent share: the states of samples, and which samples a row
    enters.

    An update minimizes the objective over one row of parameters, slice by slice (CoordinateUpdater). The mean loss is
    bounded by a quadratic with the loss's largest curvature, which it equals if the loss is squared. The quadratic plus
    the penalty is minimized coordinate by coordinate: for a slice of up to 16 parameters, the derivatives of scores are
    computed twice, not twice for each. Weights of kernels move jointly with the bias. A row under a group penalty, or
    on the simplex, moves as a whole, by one bound on its curvatures.

    A sample's state is its label, its share of the weight, its scores, and the model's cache, in few cache lines.

    Parameters
    ----------
    model : Model, allocated without state and started.
    loss : Loss.
    penalty : Penalty.
    data : Dataset with labels and weights > 0. If its rows have relations, the model must join parts, and the loss must
        have a largest curvature.
    by_gradient : take derivatives from the model's `gradient` even if the model has functions for columns, whose oracle
        it is.
    summed : take the sum of the losses, not their mean.
    exact : take the second derivatives of the loss at the scores, not the largest ones, so that updates check the
        objective.
    holds, pulls : models with the same rows, allocated without state; None: nothing holds the parameters. Otherwise the
        penalty has a further term, the sum of hold / 2 parameter^2 - pull parameter over all parameters.

    Attributes
    ----------
    watched : after `watch`, of each block float64 (2, rows of a class): how far the parameters of each row have moved
        in one update at most, and how large they are.
    columns : of each block, which samples its rows enter.
    related : of each relation, its rows.
    fast : whether derivatives come from the functions of a ColumnModel.
    """

    def __init__(
        self, Model model, Loss loss, Penalty penalty, Dataset data, by_gradient=False, summed=False,
        Parameters holds=None, Parameters pulls=None, exact=False
    ):
        cdef Py_ssize_t b, size
        cdef RelationRows rows
        model.require(training=True)
        if data.label is None or data.features != model.features:
            raise ValueError("the data must have labels, and as many columns as the model")
        loss.check(data.label, model.outputs)
        if (pulls is None) != (holds is None):
            raise ValueError("holds need pulls, and pulls need holds")
        for other in (holds, pulls):
            if other is not None:
                other.require(training=True)
                if other.shapes() != model.shapes() or other.slots:
                    raise ValueError("holds and pulls must have the rows of the model, without state")
        self.holds, self.pulls = holds, pulls
        self.generation = model.generation
        self.model, self.loss, self.penalty, self.data = model, loss, penalty, data
        self.bounded, self.curvature = isfinite(loss.smoothness) and not exact, loss.smoothness
        everyone, features = of_all(data.rows), by_feature(data)
        known = {"features": features, "all": everyone}
        self.columns = [known.get(layout.touched) or by_row(model, data, b) for b, layout in enumerate(model.layout)]
        self.related = []
        for relation in data.relations:
            if by_gradient or not self.bounded:
                raise ValueError("relations need the model's functions for columns, and a loss of bounded curvature")
            rows = RelationRows(model, relation.data, relation.row)
            self.related.append(rows)
            self.tables.push_back(rows.table)
        self.nuclear, self.beta, self.watched = penalty.nuclear, 0, []
        for b, layout in enumerate(model.layout):
            self.rule[b].affine = AFFINE[layout.affine]
            self.rule[b].simplex = layout.constraint == "simplex"
            self.rule[b].of_kernels = layout.role == "kernel weights"
            self.rule[b].moved = self.rule[b].size = NULL
            if self.rule[b].of_kernels:
                self.beta = b
        self.load_strengths()
        size = NONE if by_gradient else cache_of(model, data)
        self.by_column = None if size == NONE else model
        self.states = SampleStates(
            NULL, sample_state_size(model, max(size, 0)), SCORES * sizeof(double), header_of(model), max(size, 0))
        self.memory, self.total_weight = None, 1 if summed else data.total_weight()

    @property
    def fast(self):
        return self.by_column is not None

    def allocate_states(self):
        """Allocate the states of samples, unless they exist. The first updater calls this, because temporary arrays of
        the preparation have been freed by then."""
        cdef Py_ssize_t i
        cdef real[::1] flat
        if self.memory is not None:
            return
        self.memory = flat = allocate(self.data.rows * self.states.size // sizeof(real) + 1)
        self.states.at = <char*>&flat[0]
        for i in range(self.data.rows):
            self.sample_state(i)[LABEL] = self.data.label_of(i)
            self.sample_state(i)[SHARE] = self.data.share_of(i, self.total_weight)

    def load_strengths(self):
        """Take over the strengths of the penalty, which change when l1 begins to act on factors."""
        cdef BlockRule* rule
        cdef ExactStrength weight
        self.require()
        for b, layout in enumerate(self.model.layout):
            rule, weight = &self.rule[b], self.penalty.strength(layout, False)
            rule.group, rule.group_penalty = weight.group, weight.group_penalty
            rule.together = rule.group > 0 or rule.simplex
            rule.body = rounded(self.penalty.strength(layout, True))
            rule.weight = PenaltyStrength(0, 0, 0, 0) if rule.of_kernels else rounded(weight)

    @staticmethod
    def bytes_needed(Model model, Dataset data):
        """Return bytes that the states of samples and of the rows of relations, and the columns take."""
        related = sum([RelationRows.bytes_needed(model, relation.data) for relation in data.relations])
        samples = len(data.relations) * np.dtype(np.int32).itemsize * data.rows
        states = data.rows * sample_state_size(model, max(cache_of(model, data), 0))
        return states + columns_needed(model, data) + related + samples

    # ValueError if the model has been allocated again in the meantime.
    cdef require(self):
        if self.model is None or self.generation != self.model.generation:
            raise ValueError("the descent was made before the model's rows were laid out anew")

    def recompute_columns(self):
        """Recompute which samples enter which rows, for blocks whose rows the model chooses."""
        self.require()
        for b, layout in enumerate(self.model.layout):
            if layout.touched == "selected":
                self.columns[b] = None  # its memory is freed before there is another one
                self.columns[b] = by_row(self.model, self.data, b)

    def watch(self):
        """Begin to record the steps of rows, in `watched`."""
        cdef double[:, ::1] numbers
        self.require()
        self.watched = [np.zeros((2, layout.rows(self.model.features))) for layout in self.model.layout]
        for b, found in enumerate(self.watched):
            numbers = found
            if found.size:
                self.rule[b].moved, self.rule[b].size = &numbers[0, 0], &numbers[1, 0]

    def order(self, int b, Columns columns=None):
        """int32: block b's rows of one class that enter samples, or entries of these columns, in the order of updates.

        If features have several rows, the rows of a feature follow each other. They enter the same samples, whose
        states are then in the cache.
        """
        self.require()
        if not 0 <= b < self.model.n_blocks:
            raise IndexError("no such block")
        return (self.columns[b] if columns is None else columns).occupied(self.model.block[b].rows)

    def recompute_kernel_norms(self):
        """Recompute the norms of the kernels' factors, which the nuclear norm weighs the kernels' weights by."""
        self.require()
        if self.nuclear > 0:
            self.norms = self.penalty.kernel_norms(self.model)

    def penalty_value(self):
        """Return the penalty of the parameters as they are."""
        self.require()
        return self.penalty.value(self.model) + self.value_of_holds()

    def value_of_holds(self):
        """Return the term of the penalty that holds parameters."""
        if self.holds is None:
            return 0.0
        arrays = self.model.parameters, self.holds.parameters, self.pulls.parameters
        total = 0.0
        for name in self.model.parameters:
            for each in zip(*[pieces(of[name], IN_CACHE) for of in arrays], strict=True):
                value, hold, pull = [one.astype(np.float64) for one in each]
                total += np.sum((hold / 2 * value - pull) * value)
        return float(total)
