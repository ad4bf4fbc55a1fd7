"""FTRL-Proximal with per-coordinate learning rates."""

from fmcli.base.types cimport RoundGradient, SparseGradient, ThreadShare
from fmcli.models.arguments cimport SampleRun
from fmcli.penalties.arguments cimport rounded
from fmcli.solvers.stochastic.kernels cimport Ftrl as Rule, kernels
from fmcli.models.parameters cimport MAX_BLOCKS
from fmcli.solvers.stochastic.solver cimport Solver, Steps, step_of, steps_of_both


cdef class FTRL(Solver):
    """FTRL-Proximal ([SH] Algorithm 1): state (z, n), H(n) = (beta + n)^power / alpha, phi = prox(-z/h, h).

    In the initial state, the closed form without l1 returns the start values. When l1 and the group penalty begin to
    act on factors, all rows are recomputed from their state.
    """

    cdef Steps alphas
    cdef double beta, power
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]

    def __init__(self, *, double alpha, alpha_w=None, alpha_v=None, double beta, double ftrl_power):
        self.slots, self.takes_runs, self.takes_rounds, self.averages_weights = 2, True, True, False
        self.alphas = steps_of_both(alpha, alpha_w, alpha_v)
        self.beta, self.power = beta, ftrl_power

    cdef set_rule(self, int block, object layout, bint body):
        cdef Rule* rule = &self.body[block] if body else &self.weight[block]
        rule.inverse_alpha, rule.beta, rule.power = 1 / step_of(self.alphas, layout, body), self.beta, self.power
        rule.strength = rounded(self.penalty.strength(layout, body))

    def start(self):
        cdef int i
        self.require()
        for i in range(self.model.n_blocks):
            kernels.ftrl_start(
                &self.model.block[i], self.model.outputs * self.model.block[i].rows, &self.body[i], &self.weight[i])

    def end_epoch(self):
        cdef int i
        self.require()
        if not Solver.end_epoch(self):
            return False
        for i in range(self.model.n_blocks):
            with nogil:
                kernels.ftrl_recompute(
                    &self.model.block[i], self.model.outputs * self.model.block[i].rows, &self.body[i], &self.weight[i])
        self.model.constrain()
        return True

    cdef void apply(self, const SparseGradient* gradient) noexcept nogil:
        cdef int b = gradient.block
        kernels.ftrl(&self.model.block[b], gradient, &self.body[b], &self.weight[b])

    cdef double steps_of_run(self, const SampleRun* run, double total) noexcept nogil:
        return kernels.ftrl_samples(run, self.body, self.weight, total)

    cdef void round_step(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil:
        cdef int b = gradient.block
        kernels.ftrl_round(&self.model.block[b], gradient, &self.body[b], &self.weight[b], share)
