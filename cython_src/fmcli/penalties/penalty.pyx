"""Penalties: R = sum over parameters of l1 |phi| + l2/2 phi^2, plus a group penalty of each row.

The formulas are in the headers beside this: elementwise.h and group_penalties.h. Solvers know penalties by those
alone, and by the strengths that are said here for each part of a model.
"""

import numpy as np

from fmcli.kernels.arguments cimport ExactStrength
from fmcli.kernels.simd cimport kernels
from fmcli.models.model cimport Model
from fmcli.penalties.formulas cimport group_option, group_penalties, group_steps_add_up

# The options of the group penalties, in the order of their list.
GROUP_PENALTIES = tuple([group_option(place).decode() for place in range(group_penalties)])


cdef class Penalty:
    """Strengths for linear weights (w) and for factors and all else that is penalised (v), and of the group penalty.

    Parameters
    ----------
    nuclear : strength of sum_s |beta_s| |p_s|^2 ([PN] (29)), which stands for l2_v where it is not 0; models that have
        it have fitted weights beta of kernels of order 2, whose factors p_s are all bodies of their other blocks.
    l1_from_epoch : l1 on factors, and the group penalty on rows that have any, act from this epoch on: factors near 0
        are near a saddle point, where a penalty holds them unless they have grown before.
    epochs : that the model has gone through already.
    groups : strengths by the options of the group penalties (GROUP_PENALTIES), of which one at most is above 0.

    Attributes
    ----------
    group_option, group : the option of the group penalty that acts, or None, and its strength.

    Raises ValueError for group penalties that do not exist or cannot be combined.
    """

    def __init__(
        self, *, double l1_w=0, double l1_v=0, double l2_w=0, double l2_v=0, double nuclear=0,
        Py_ssize_t l1_from_epoch=1, Py_ssize_t epochs=0, **groups
    ):
        self.l1_w, self.l1_v, self.l2_w, self.nuclear = l1_w, l1_v, l2_w, nuclear
        self.l2_v = 0 if nuclear > 0 else l2_v
        self.l1_from_epoch, self.epochs = l1_from_epoch, epochs
        acting = [option for option, strength in groups.items() if strength > 0]
        if not groups.keys() <= set(GROUP_PENALTIES) or len(acting) > 1:
            known = ", ".join(GROUP_PENALTIES)
            raise ValueError(f"group penalties are {known}, one at a time, not {', '.join(groups)}")
        self.group_option = acting[0] if acting else None
        self.group_penalty = GROUP_PENALTIES.index(acting[0]) if acting else 0
        self.group = groups[acting[0]] if acting else 0

    @property
    def on_factors(self):
        """Whether l1 and the group penalty act on factors now."""
        return self.epochs + 1 >= self.l1_from_epoch

    @property
    def smooth(self):
        """Whether l2 is all that there is."""
        return self.l1_w == self.l1_v == self.group == self.nuclear == 0

    @property
    def steps_add_up(self):
        """Whether the group penalty's prox steps on a row sum to one, as group_penalties.h says."""
        return self.group == 0 or group_steps_add_up(self.group_penalty)

    def end_epoch(self):
        """Count an epoch; returns whether an l1 or a group penalty begins to act on factors."""
        before = self.on_factors
        self.epochs += 1
        return self.on_factors and not before and (self.l1_v > 0 or self.group > 0)

    # The strengths that act on a block's bodies, or on its weights. That of the group penalty, which acts on a row as a
    # whole, is the same for both.
    cdef ExactStrength strength(self, object layout, bint body):
        if layout.penalty == "none":
            return ExactStrength(0, 0, 0, 0)
        if layout.penalty == "l2":
            return ExactStrength(0, self.l2_v, 0, 0)
        group = self.group if self.on_factors or not layout.body else 0
        if body:
            return ExactStrength(self.l1_v if self.on_factors else 0, self.l2_v, group, self.group_penalty)
        if layout.part == "v":
            return ExactStrength(self.l1_v, self.l2_v, group, self.group_penalty)
        return ExactStrength(self.l1_w, self.l2_w, group, self.group_penalty)

    def l2(self, layout):
        """(strength on a block's bodies, strength on its weights) of l2."""
        return self.strength(layout, True).l2, self.strength(layout, False).l2

    def value(self, Model model):
        """R of the model's parameters as they are, by what acts now."""
        cdef double total = 0
        cdef int i
        cdef ExactStrength body, weight
        if not (self.l1_w or self.l1_v or self.l2_w or self.l2_v or self.group or self.nuclear):
            return total
        model.require(training=True)
        for i, layout in enumerate(model.layout):
            if layout.penalty == "none":
                continue
            body, weight = self.strength(layout, True), self.strength(layout, False)
            with nogil:
                kernels.add_penalty(&model.block[i], model.outputs * model.block[i].rows, &body, &weight, &total)
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
