"""Stochastic gradient descent."""

from fmcli.base.types cimport Scratch, SparseGradient
from fmcli.models.arguments cimport SampleRun
from fmcli.penalties.arguments cimport rounded
from fmcli.solvers.stochastic.kernels cimport kernels
from fmcli.models.parameters cimport Parameters
from fmcli.penalties.penalty cimport Penalty
from fmcli.solvers.stochastic.solver cimport Solver, step_of, steps_of_both


cdef class SGD(Solver):
    """phi <- prox(phi - rate g, 1/rate) on the touched rows; the rates follow a schedule over updates."""

    def __init__(
        self, *, double learning_rate, learning_rate_w=None, learning_rate_v=None, schedule="constant",
        double power=0.5, double t0=1
    ):
        self.slots, self.averages_weights = 0, True
        self.rates = steps_of_both(learning_rate, learning_rate_w, learning_rate_v)
        self.schedule = make_schedule(schedule, power, t0)
        self.takes_runs = self.schedule.kind == CONSTANT

    def bind(self, Parameters model, Penalty penalty):
        self.share = share_at(&self.schedule, 1)
        Solver.bind(self, model, penalty)

    cdef set_rule(self, int block, object layout, bint body):
        cdef double rate = step_of(self.rates, layout, body)
        cdef Rule rule = rule_at(self.share * rate, rounded(self.penalty.strength(layout, body)))
        if body:
            self.body_rate[block], self.body[block] = rate, rule
        else:
            self.weight_rate[block], self.weight[block] = rate, rule

    def resume(self, updates):
        self.made = updates

    @property
    def updates(self):
        return self.made

    # The factor of the rates in update t, counted from 1.
    cdef double share_of(self, int64_t t) noexcept nogil:
        return share_at(&self.schedule, t)

    cdef void set_share(self, double share) noexcept nogil:
        cdef int i
        self.share = share
        for i in range(self.model.n_blocks):
            self.body[i] = rule_at(share * self.body_rate[i], self.body[i].strength)
            self.weight[i] = rule_at(share * self.weight_rate[i], self.weight[i].strength)

    cdef void step(self, Scratch* s) noexcept nogil:
        self.made += 1
        if self.schedule.kind != CONSTANT:
            self.set_share(share_at(&self.schedule, self.made))
        Solver.step(self, s)

    cdef void apply(self, const SparseGradient* gradient) noexcept nogil:
        cdef int b = gradient.block
        kernels.sgd(&self.model.block[b], gradient, &self.body[b], &self.weight[b])

    cdef double steps_of_run(self, const SampleRun* run, double total) noexcept nogil:
        self.made += run.stop - run.start
        return kernels.sgd_samples(run, self.body, self.weight, total)

    cdef double rate_share(self) noexcept nogil:
        return self.share
