"""Penalties: R = sum over parameters of l1 |phi| + l2/2 phi^2, plus a group penalty of each row.

The formulas are in the headers in this folder, elementwise.h and group_penalties.h. Solvers use only these formulas,
and the strengths that this module defines for each part of a model.
"""

import numpy as np

from fmcli.penalties.arguments cimport ExactStrength
from fmcli.penalties.kernels cimport kernels
from fmcli.models.parameters cimport Parameters
from fmcli.penalties.formulas cimport group_option, group_penalties, group_steps_add_up

# The options of the group penalties, in the order of their list.
GROUP_PENALTIES = tuple([group_option(place).decode() for place in range(group_penalties)])


cdef class Penalty:
    """Strengths for linear weights (w), for factors and all other penalized parameters (v), and for the group penalty.

    Parameters
    ----------
    nuclear : the strength of sum_s |beta_s| |p_s|^2 ([PN] (29)), which replaces l2_v if it is not 0. Models that
        support it have fitted weights beta of kernels of order 2; the factors p_s of the kernels are the bodies of
        their other blocks.
    l1_from_epoch : the first epoch in which l1 on factors, and the group penalty on rows with factors, are active.
        Factors near 0 are near a saddle point; a penalty would keep them there unless they have grown first.
    epochs : the number of epochs that the model has already been trained for.
    groups : strengths by option of the group penalties (GROUP_PENALTIES); at most one may be positive.

    Attributes
    ----------
    group_option, group : the option of the active group penalty, or None, and its strength.

    Raises ValueError for unknown group penalties, and if several strengths are positive.
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
        """Whether l1 and the group penalty act on factors in the current epoch."""
        return self.epochs + 1 >= self.l1_from_epoch

    @property
    def smooth(self):
        """Whether l2 is the only penalty."""
        return self.l1_w == self.l1_v == self.group == self.nuclear == 0

    @property
    def steps_add_up(self):
        """Whether several prox steps of the group penalty on a row equal a single step (see group_penalties.h)."""
        return self.group == 0 or group_steps_add_up(self.group_penalty)

    def end_epoch(self):
        """Count an epoch. Returns whether l1 or a group penalty starts to act on factors."""
        before = self.on_factors
        self.epochs += 1
        return self.on_factors and not before and (self.l1_v > 0 or self.group > 0)

    # The strengths for a block's bodies, or for its weights. The strength of the group penalty is the same for both,
    # because a group is a whole row.
    cdef ExactStrength strength(self, object layout, bint body):
        if layout.penalty == "none":
            return ExactStrength(0, 0, 0, 0)
        if layout.penalty == "l2":
            return ExactStrength(0, self.l2_v, 0, 0)
        group = self.group if self.on_factors or not layout.body else 0
        if body:
            return ExactStrength(self.l1_v if self.on_factors else 0, self.l2_v, group, self.group_penalty)
        if layout.penalized_as == "v":
            return ExactStrength(self.l1_v, self.l2_v, group, self.group_penalty)
        return ExactStrength(self.l1_w, self.l2_w, group, self.group_penalty)

    def l2(self, layout):
        """Return the l2 strengths for a block: (for its bodies, for its weights)."""
        return self.strength(layout, True).l2, self.strength(layout, False).l2

    def value(self, Parameters model):
        """Return R of the model's current parameters, with the penalties that are active in the current epoch."""
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

    def kernel_norms(self, Parameters model):
        """Return float64 (outputs, rank): |p_s|^2 of each kernel."""
        factors = [
            model.parameters[array.name].astype(float) for layout in model.layout for array in layout.body
            if layout.penalty == "full"]
        outputs, rank = model.parameters["beta"].shape
        return sum([(values**2).reshape(outputs, -1, rank).sum(axis=1) for values in factors])
