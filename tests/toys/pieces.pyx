"""A toy model, loss, solver and group penalty, written by the steps of CONTRIBUTING.md. They use the interfaces of the
core, but no code of other components."""

import numpy as np

from fmcli.models.layout import BlockLayout
from fmcli.models.second_order.linear import bias_block

from fmcli.base.fields cimport summed
from fmcli.base.types cimport Block, Factors, Sample, Scratch, SparseGradient, real
from fmcli.losses.loss cimport Loss
from fmcli.models.kernels cimport kernels
from fmcli.models.model cimport Model
from fmcli.models.parameters cimport MAX_BLOCKS
from fmcli.penalties.arguments cimport PenaltyStrength, rounded
from fmcli.solvers.stochastic.solver cimport Solver, Steps, step_of, steps_of_both
from libc.math cimport exp, expm1, fabs, log, log1p, tanh
from libc.string cimport memset


cdef extern from "rmsprop.h" nogil:
    struct Rmsprop:
        real inverse_rate, decay
        PenaltyStrength strength

    void rmsprop(const Block* block, const SparseGradient* gradient, const Rmsprop* body, const Rmsprop* weight)


cdef class FwFM(Model):
    """Field-weighted FM: b + <w, x> + sum over pairs of r_{field i, field j} <v_i, v_j> x_i x_j (Pan et al. 2018).

    r has a weight for each unordered pair of fields, including the pairs of a field with itself. If an index occurs in
    several fields of a row, its entries do not form pairs with each other.
    """

    cdef int features_block, fields_block
    cdef bint linear
    cdef Py_ssize_t fields

    def __init__(self, features, outputs, *, rank, bias=True, linear=True, fields=0):
        layout = bias_block(bias)
        layout.append(BlockLayout(body=[("V", rank)], weight="w" if linear else None))
        layout.append(BlockLayout(axes=(), body=[("r", max(1, fields * (fields + 1) // 2))], start=1))
        super().__init__(features, outputs, layout)
        self.features_block, self.fields_block = self.n_blocks - 2, self.n_blocks - 1
        self.linear, self.fields = linear, fields

    cdef Py_ssize_t ids_size(self, Py_ssize_t longest):
        return 2 * longest

    # The sample with each index once: the entries of an index in several fields are added.
    cdef inline Sample by_index(self, const Sample* x, Scratch* s) noexcept nogil:
        return summed(x, s.ids, <float*>(s.ids + x.nnz))

    cdef void rows(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef Sample once = self.by_index(x, s)
        Model.rows(self, &once, s)

    # The position of a pair's weight in r; -1 if the entries form no pair, or if the model lacks one of the fields.
    cdef inline Py_ssize_t pair_of(self, const Sample* x, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        if x.field == NULL or x.index[i] == x.index[j]:
            return -1
        cdef Py_ssize_t low = min(x.field[i], x.field[j]), high = max(x.field[i], x.field[j])
        return high * (high + 1) // 2 + low if high < self.fields else -1

    cdef void score(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i, j, t, at
        cdef Factors v, r, w
        cdef double total, inner
        cdef Sample once = self.by_index(x, s)
        for c in range(self.outputs):
            v, r = self.factors(self.features_block, 0, c), self.factors(self.fields_block, 0, c)
            total = self.bias(c)
            if self.linear:
                w = self.weights(self.features_block, c)
                total += kernels.linear(&w, &once)
            for i in range(x.nnz):
                for j in range(i):
                    at = self.pair_of(x, i, j)
                    if at < 0:
                        continue
                    inner = 0
                    for t in range(v.lanes):
                        inner += v.at[x.index[i] * v.stride + t] * v.at[x.index[j] * v.stride + t]
                    total += r.at[at] * inner * x.value[i] * x.value[j]
            s.score[c] = total

    cdef void gradient(self, const Sample* x, Scratch* s) noexcept nogil:
        cdef int c
        cdef Py_ssize_t i, j, t, at, first, second, lanes = self.block[self.features_block].lanes
        cdef Factors v, r
        cdef real inner, scale
        cdef real* out
        cdef real* pairs
        cdef SparseGradient* gradient
        cdef Sample once = self.by_index(x, s)
        for c in range(self.outputs):
            gradient = s.gradients + c * self.n_blocks
            v, r = self.factors(self.features_block, 0, c), self.factors(self.fields_block, 0, c)
            if self.has_bias:
                gradient[0].weight[0] = s.slope[c]
            if self.linear:
                kernels.linear_gradient(&once, s.slope[c], gradient[self.features_block].weight)
            out, pairs = gradient[self.features_block].body, gradient[self.fields_block].body
            memset(out, 0, once.nnz * lanes * sizeof(real))
            memset(pairs, 0, self.block[self.fields_block].lanes * sizeof(real))
            first = -1
            for i in range(x.nnz):
                first += i == 0 or x.index[i] != x.index[i - 1]
                second = -1
                for j in range(i):
                    second += j == 0 or x.index[j] != x.index[j - 1]
                    at = self.pair_of(x, i, j)
                    if at < 0:
                        continue
                    inner, scale = 0, <real>s.slope[c] * x.value[i] * x.value[j]
                    for t in range(v.lanes):
                        inner += v.at[x.index[i] * v.stride + t] * v.at[x.index[j] * v.stride + t]
                        out[first * lanes + t] += scale * r.at[at] * v.at[x.index[j] * v.stride + t]
                        out[second * lanes + t] += scale * r.at[at] * v.at[x.index[i] * v.stride + t]
                    pairs[at] += scale * inner


cdef class LogCosh(Loss):
    """log cosh r, r = score - y: about r^2/2 near 0 and |r| - log 2 far away; for real labels."""

    def __init__(self):
        self.smoothness = 1

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double r = fabs(score[0] - y)
        return r + log1p(exp(-2 * r)) - log(2.0)

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        slope[0] = tanh(score[0] - y)
        return self.value(y, score)

    def best_constant(self, label, weight, rows=None):
        """The root of the mean slope, found by bisection between the extreme labels."""
        low, high = np.min(label), np.max(label)
        for _ in range(100):
            middle = (low + high) / 2
            if np.average(np.tanh(middle - label), weights=weight) > 0:
                high = middle
            else:
                low = middle
        return np.array([(low + high) / 2])


# Below this score, and above this intensity, the functions of CLogLog are their limits.
cdef double RARE_EVENT = -30, SURE_EVENT = 700


cdef class CLogLog(Loss):
    """-log P(y) for labels -1 and +1, where P(+1) = 1 - exp(-exp(score))."""

    def __init__(self):
        self.smoothness = np.inf

    cdef double value(self, double y, const double* score) noexcept nogil:
        cdef double intensity = exp(score[0])
        if y > 0 and score[0] < RARE_EVENT:
            return intensity / 2 - score[0]
        return intensity if y < 0 else -log(-expm1(-intensity))

    cdef double slope(self, double y, const double* score, double* slope) noexcept nogil:
        cdef double intensity = exp(score[0])
        slope[0] = intensity if y < 0 else 0 if intensity > SURE_EVENT else -intensity / expm1(intensity)
        if y > 0 and score[0] < RARE_EVENT:
            slope[0] = intensity / 2 - 1
        return self.value(y, score)

    cdef double curvature(self, double y, const double* score) noexcept nogil:
        cdef double intensity = exp(score[0])
        cdef double odds = 1 / expm1(intensity)  # of -1
        if y > 0 and (score[0] < RARE_EVENT or intensity > SURE_EVENT):
            return intensity / 2 if intensity < 1 else 0
        return intensity if y < 0 else intensity * odds * (intensity * (1 + odds) - 1)

    def best_constant(self, label, weight, rows=None):
        """The score of the share of +1."""
        share = np.average(label > 0, weights=weight)
        return np.array([np.log(-np.log1p(-share))])


cdef class RMSProp(Solver):
    """G <- 0.9 G + 0.1 g^2, h = (sqrt(G) + 1e-6)/rate, phi <- prox(phi - g/h, h) on the touched rows."""

    cdef Steps rates
    cdef Rmsprop body[MAX_BLOCKS]
    cdef Rmsprop weight[MAX_BLOCKS]

    def __init__(self, *, double learning_rate, learning_rate_w=None, learning_rate_v=None):
        self.slots, self.averages_weights = 1, True
        self.rates = steps_of_both(learning_rate, learning_rate_w, learning_rate_v)

    cdef set_rule(self, int block, object layout, bint body):
        cdef Rmsprop* rule = &self.body[block] if body else &self.weight[block]
        rule.inverse_rate, rule.decay = 1 / step_of(self.rates, layout, body), 0.9
        rule.strength = rounded(self.penalty.strength(layout, body))

    cdef void apply(self, const SparseGradient* gradient) noexcept nogil:
        rmsprop(&self.model.block[gradient.block], gradient, &self.body[gradient.block], &self.weight[gradient.block])


cdef class ByLargest(RMSProp):
    """RMSProp with the group penalty of the toys instead of the group lasso."""

    cdef set_rule(self, int block, object layout, bint body):
        cdef Rmsprop* rule = &self.body[block] if body else &self.weight[block]
        RMSProp.set_rule(self, block, layout, body)
        rule.strength.group_penalty = 1
