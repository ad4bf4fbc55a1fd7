"""Penalties: R = sum over parameters of l1 |phi| + l2/2 phi^2, plus l_g times the norms of rows."""

import numpy as np

from fmcli.kernels.simd cimport PenaltyStrength, kernels
from fmcli.models.model cimport Model


cdef class Penalty:
    """Strengths for linear weights (w) and for factors and all else that is penalised (v), and of the group penalty.

    nuclear : strength of sum_s |beta_s| |p_s|^2 ([PN] (29)), which stands for l2_v where it is not 0; models that have
        it have fitted weights beta of kernels of order 2, whose factors p_s are all bodies of their other blocks.

    l1_from_epoch : l1 on factors, and l_g on rows that have any, act from this epoch on: factors near 0 are near a
        saddle point, where a penalty holds them unless they have grown before.
    epochs : that the model has gone through already.

    Solvers see a penalty only as the numbers of its prox (update_rules.h), never by name.
    """

    def __init__(
        self, *, double l1_w=0, double l1_v=0, double l2_w=0, double l2_v=0, double group_l1=0, double nuclear=0,
        Py_ssize_t l1_from_epoch=1, Py_ssize_t epochs=0
    ):
        self.l1_w, self.l1_v, self.l2_w, self.group_l1, self.nuclear = l1_w, l1_v, l2_w, group_l1, nuclear
        self.l2_v = 0 if nuclear > 0 else l2_v
        self.l1_from_epoch, self.epochs = l1_from_epoch, epochs

    @property
    def on_factors(self):
        """Whether l1 and l_g act on factors now."""
        return self.epochs + 1 >= self.l1_from_epoch

    def end_epoch(self):
        """Count an epoch; returns whether an l1 or l_g begins to act on factors."""
        before = self.on_factors
        self.epochs += 1
        return self.on_factors and not before and (self.l1_v > 0 or self.group_l1 > 0)

    # The strengths that act on a block's bodies, or on its weights.
    cdef PenaltyStrength strength(self, object layout, bint body):
        if layout.penalty == "none":
            return PenaltyStrength(0, 0, 0)
        if layout.penalty == "l2":
            return PenaltyStrength(0, self.l2_v, 0)
        group = self.group_on(layout)
        if body:
            return PenaltyStrength(self.l1_v if self.on_factors else 0, self.l2_v, group)
        if layout.part == "v":
            return PenaltyStrength(self.l1_v, self.l2_v, group)
        return PenaltyStrength(self.l1_w, self.l2_w, group)

    # The group penalty that acts on a block's rows now.
    cdef double group_on(self, object layout):
        return self.group_l1 if layout.penalty == "full" and (self.on_factors or not layout.body) else 0

    # Tell the kernels which blocks' rows are groups.
    cdef mark_groups(self, Model model):
        for i, layout in enumerate(model.layout):
            model.block[i].by_row = self.group_on(layout) > 0

    def value(self, Model model):
        """R of the model's parameters as they are, by what acts now."""
        cdef double sums[5]
        cdef double total = 0, l1, l2, on_factors = self.l1_v if self.on_factors else 0
        cdef int i
        if not (self.l1_w or self.l1_v or self.l2_w or self.l2_v or self.group_l1 or self.nuclear):
            return total
        model.require(training=True)
        self.mark_groups(model)
        for i, layout in enumerate(model.layout):
            if layout.penalty == "none":
                continue
            with nogil:
                kernels.magnitudes(&model.block[i], model.outputs * model.block[i].rows, sums)
            # The strengths themselves: those of the rules are rounded to the real type.
            l1, l2 = (self.l1_v, self.l2_v) if layout.part == "v" else (self.l1_w, self.l2_w)
            total += self.l2_v / 2 * sums[1] + l2 / 2 * sums[3]
            if layout.penalty == "full":
                total += on_factors * sums[0] + l1 * sums[2] + self.group_on(layout) * sums[4]
        if self.nuclear > 0:
            total += self.nuclear * np.sum(np.abs(model.parameters["beta"]) * self.kernel_norms(model))
        return total

    def kernel_norms(self, Model model):
        """|p_s|^2 of each kernel (outputs, rank), in double."""
        factors = [
            model.parameters[array.name].astype(float) for layout in model.layout for array in layout.body
            if layout.penalty == "full"]
        outputs, rank = model.parameters["beta"].shape
        return sum([(values**2).reshape(outputs, -1, rank).sum(axis=1) for values in factors])
