"""Stochastic gradient descent."""

from fmcli._core.model cimport Model
from fmcli._core.penalty cimport Penalty
from fmcli._core.schedule cimport CONSTANT, make_schedule, rate_at
from fmcli._core.simd cimport kernels
from fmcli._core.solver cimport Solver
from fmcli._core.types cimport Scratch, Slab


cdef class SGD(Solver):
    """phi <- prox(phi - rate g, 1/rate) on the touched rows; the rate goes by a schedule over updates."""

    def __init__(self, *, double learning_rate, schedule="constant", double power=0.5, double t0=1):
        self.slots, self.averages_weights = 0, True
        self.schedule = make_schedule(schedule, learning_rate, power, t0)

    def bind(self, Model model, Penalty penalty):
        Solver.bind(self, model, penalty)
        for i, layout in enumerate(model.layout):
            self.body[i].strength = penalty.strength(layout, True)
            self.weight[i].strength = penalty.strength(layout, False)
        self.set_rate(rate_at(&self.schedule, 1))

    def resume(self, updates):
        self.made = updates

    @property
    def updates(self):
        return self.made

    cdef void set_rate(self, double rate) noexcept nogil:
        cdef int i
        self.rate = rate
        for i in range(self.model.n_blocks):
            self.body[i] = rule_at(rate, self.body[i].strength)
            self.weight[i] = rule_at(rate, self.weight[i].strength)

    cdef void step(self, Scratch* s) noexcept nogil:
        self.made += 1
        if self.schedule.kind != CONSTANT:
            self.set_rate(rate_at(&self.schedule, self.made))
        Solver.step(self, s)

    cdef void apply(self, const Slab* slab) noexcept nogil:
        kernels.sgd(&self.model.block[slab.block], slab, &self.body[slab.block], &self.weight[slab.block])

    cdef double rate_share(self) noexcept nogil:
        return self.rate / self.schedule.rate
