"""AdaGrad: a learning rate of its own for every parameter."""

from fmcli._core.model cimport MAX_BLOCKS, Model
from fmcli._core.penalty cimport Penalty
from fmcli._core.simd cimport Adagrad as Rule
from fmcli._core.simd cimport kernels
from fmcli._core.solver cimport Solver
from fmcli._core.types cimport Scratch, Slab


cdef class AdaGrad(Solver):
    """G <- G + g^2, h = sqrt(G)/rate, phi <- prox(phi - g/h, h) on the touched rows; the state is G - 1."""

    cdef double rate
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]

    def __init__(self, *, double learning_rate):
        self.slots, self.averages_weights = 1, True
        self.rate = learning_rate

    def bind(self, Model model, Penalty penalty):
        Solver.bind(self, model, penalty)
        for i, layout in enumerate(model.layout):
            self.body[i] = Rule(1 / self.rate, penalty.strength(layout, True))
            self.weight[i] = Rule(1 / self.rate, penalty.strength(layout, False))

    cdef void step(self, Scratch* s) noexcept nogil:
        cdef int i
        cdef const Slab* slab
        for i in range(s.n_slabs):
            slab = s.slab + i
            kernels.adagrad(&self.model.block[slab.block], slab, &self.body[slab.block], &self.weight[slab.block])
