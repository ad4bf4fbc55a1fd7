"""Stochastic gradient descent."""

from fmcli._core.model cimport MAX_BLOCKS, Model
from fmcli._core.penalty cimport Penalty
from fmcli._core.simd cimport Sgd as Rule
from fmcli._core.simd cimport Strength, kernels
from fmcli._core.solver cimport Solver
from fmcli._core.types cimport Scratch, Slab


cdef class SGD(Solver):
    """phi <- prox(phi - rate g, 1/rate) on the touched rows, at a constant learning rate."""

    cdef double rate
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]

    def __init__(self, *, double learning_rate):
        self.slots, self.averages_weights = 0, True
        self.rate = learning_rate

    cdef Rule rule(self, Strength strength):
        return Rule(self.rate, self.rate * strength.l1, 1 / (1 + self.rate * strength.l2))

    def bind(self, Model model, Penalty penalty):
        Solver.bind(self, model, penalty)
        for i, layout in enumerate(model.layout):
            self.body[i] = self.rule(penalty.strength(layout, True))
            self.weight[i] = self.rule(penalty.strength(layout, False))

    cdef void step(self, Scratch* s) noexcept nogil:
        cdef int i
        cdef const Slab* slab
        for i in range(s.n_slabs):
            slab = s.slab + i
            kernels.sgd(&self.model.block[slab.block], slab, &self.body[slab.block], &self.weight[slab.block])
