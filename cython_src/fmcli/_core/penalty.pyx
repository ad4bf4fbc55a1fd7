"""Penalties: R = sum over parameters of l1 |phi| + l2/2 phi^2, with strengths by part."""

from fmcli._core.model cimport Model
from fmcli._core.simd cimport Strength, kernels


cdef class Penalty:
    """Strengths for linear weights (w) and for factors and all else that is penalised (v). Structural blocks feel none.

    Solvers see a penalty only as the numbers of its prox (rules.h), never by name.
    """

    def __init__(self, *, double l1_w=0, double l1_v=0, double l2_w=0, double l2_v=0):
        self.l1_w, self.l1_v, self.l2_w, self.l2_v = l1_w, l1_v, l2_w, l2_v

    # The strengths that act on a block's bodies, or on its weights.
    cdef Strength strength(self, object layout, bint body):
        cdef Strength none = Strength(0, 0)
        if layout.structural:
            return none
        if body or layout.part == "v":
            return Strength(self.l1_v, self.l2_v)
        return Strength(self.l1_w, self.l2_w)

    def value(self, Model model):
        """R of the model's parameters as they are."""
        cdef double sums[4]
        cdef double l1, l2
        cdef double total = 0
        cdef int i
        for i, layout in enumerate(model.layout):
            if layout.structural or not (self.l1_w or self.l1_v or self.l2_w or self.l2_v):
                continue
            with nogil:
                kernels.magnitudes(&model.block[i], model.outputs * model.block[i].rows, sums)
            # In double: the strengths themselves, not as rounded for the rules.
            l1, l2 = (self.l1_v, self.l2_v) if layout.part == "v" else (self.l1_w, self.l2_w)
            total += self.l1_v * sums[0] + self.l2_v / 2 * sums[1] + l1 * sums[2] + l2 / 2 * sums[3]
        return total
