"""AdaGrad: one adaptive learning rate per parameter."""

from fmcli.base.types cimport RoundGradient, SparseGradient, ThreadShare
from fmcli.models.arguments cimport SampleRun
from fmcli.penalties.arguments cimport rounded
from fmcli.solvers.stochastic.kernels cimport Adagrad as Rule, kernels
from fmcli.solvers.stochastic.solver cimport Solver, step_of, steps_of_both


cdef class AdaGrad(Solver):
    """G <- G + g^2, h = sqrt(G)/rate, phi <- prox(phi - g/h, h) on the touched rows; the state holds G - 1."""

    def __init__(self, *, double learning_rate, learning_rate_w=None, learning_rate_v=None):
        self.slots, self.takes_runs, self.takes_rounds, self.averages_weights = 1, True, True, True
        self.rates = steps_of_both(learning_rate, learning_rate_w, learning_rate_v)

    cdef set_rule(self, int block, object layout, bint body):
        cdef Rule* rule = &self.body[block] if body else &self.weight[block]
        rule.inverse_rate = 1 / step_of(self.rates, layout, body)
        rule.strength = rounded(self.penalty.strength(layout, body))

    cdef void apply(self, const SparseGradient* gradient) noexcept nogil:
        cdef int b = gradient.block
        kernels.adagrad(&self.model.block[b], gradient, &self.body[b], &self.weight[b])

    cdef double steps_of_run(self, const SampleRun* run, double total) noexcept nogil:
        return kernels.adagrad_samples(run, self.body, self.weight, total)

    cdef void round_step(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil:
        cdef int b = gradient.block
        kernels.adagrad_round(&self.model.block[b], gradient, &self.body[b], &self.weight[b], share)
