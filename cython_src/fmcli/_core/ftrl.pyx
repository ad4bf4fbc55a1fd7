"""FTRL-Proximal, by coordinate."""

from fmcli._core.model cimport MAX_BLOCKS, Model
from fmcli._core.penalty cimport Penalty
from fmcli._core.simd cimport Ftrl as Rule
from fmcli._core.simd cimport Strength, kernels
from fmcli._core.solver cimport Solver, Steps, step_of, steps_by_part
from fmcli._core.types cimport Slab


cdef class FTRL(Solver):
    """FTRL-Proximal ([SH] Algorithm 1): state (z, n), H(n) = (beta + n)^power / alpha, phi = prox(-z/h, h).

    Factors at 0 are a saddle point, so state starts where the closed form without l1 returns the start values, and l1
    acts on bodies, and the group penalty on rows that have one, only from the end of the epoch before `l1_from_epoch`;
    linear weights feel l1 at once.
    """

    cdef Steps alphas
    cdef double beta, power
    cdef Py_ssize_t l1_from_epoch
    cdef Penalty penalty
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]

    def __init__(
        self, *, double alpha, alpha_w=None, alpha_v=None, double beta, double ftrl_power, Py_ssize_t l1_from_epoch
    ):
        self.slots, self.averages_weights = 2, False
        self.alphas = steps_by_part(alpha, alpha_w, alpha_v)
        self.beta, self.power, self.l1_from_epoch = beta, ftrl_power, l1_from_epoch

    cdef Rule rule(self, double alpha, Strength strength):
        cdef Rule rule
        rule.inverse_alpha, rule.beta, rule.power, rule.strength = 1 / alpha, self.beta, self.power, strength
        return rule

    def bind(self, Model model, Penalty penalty, Py_ssize_t epochs=0):
        Solver.bind(self, model, penalty, epochs)
        self.penalty = penalty
        self.set_rules(self.l1_from_epoch <= epochs + 1)

    cdef set_rules(self, bint on_bodies):
        cdef Strength strength
        for i, layout in enumerate(self.model.layout):
            strength = self.penalty.strength(layout, True)
            if not on_bodies:
                strength.l1 = strength.group = 0
            self.body[i] = self.rule(step_of(self.alphas, layout, True), strength)
            self.weight[i] = self.rule(
                step_of(self.alphas, layout, False), self.penalty.strength(layout, False))

    def start(self):
        cdef int i
        for i in range(self.model.n_blocks):
            kernels.ftrl_start(
                &self.model.block[i], self.model.outputs * self.model.block[i].rows, &self.body[i], &self.weight[i])

    def end_epoch(self, Py_ssize_t epoch):
        cdef int i
        if epoch + 1 != self.l1_from_epoch:
            return
        self.set_rules(True)
        for i in range(self.model.n_blocks):
            with nogil:
                kernels.ftrl_revisit(
                    &self.model.block[i], self.model.outputs * self.model.block[i].rows, &self.body[i], &self.weight[i])
        self.model.constrain()

    cdef void apply(self, const Slab* slab) noexcept nogil:
        kernels.ftrl(&self.model.block[slab.block], slab, &self.body[slab.block], &self.weight[slab.block])
