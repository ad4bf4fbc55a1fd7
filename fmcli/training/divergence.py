"""Divergence: numbers that leave the finite range, and losses far above that of the best constant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fmcli.base.finite import are_finite
from fmcli.errors import DivergedError
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.registry.losses import LOSSES
from fmcli.registry.options import OPTIONS
from fmcli.registry.remedies import diverged
from fmcli.scoring.metrics import Outcome
from fmcli.scoring.scores import mean_loss
from fmcli.training.baseline import Baseline

if TYPE_CHECKING:
    from fmcli.training.planning import Plan

# A run has diverged if the saved model's loss on the training rows is above so many times the best constant's, or an
# epoch's loss is above so many times it and rising. Healthy runs on unscaled columns begin at 9 times the constant's.
MOST_AT_END, MOST_ON_THE_WAY = 10, 1000


class Watch:
    """Looks at every epoch of a run, and at the model in the end. Each look raises DivergedError.

    Counts have losses below 0, of which multiples mean nothing, and a single pass over a stream cannot be judged by
    its rows: for both, only numbers that are not finite count.
    """

    def __init__(self, plan: Plan, loss: Loss, baseline: Baseline) -> None:
        self.plan, self.loss = plan, loss
        epochs = plan.spec.values["epochs"]
        comparable = LOSSES[plan.labels.loss].task != "counts" and epochs > 0 and not plan.one_pass
        self.constant = baseline.loss if comparable else math.inf
        self.before = math.inf

    def start(self, model: Model) -> None:
        """The parameters that training starts from."""
        if not are_finite(model.parameters.values()):
            earlier = self.plan.earlier
            whose = f"{earlier.path} has" if earlier else "the start values have"
            way_out = "train that model again" if earlier else "choose a smaller --init-std, or scale the labels"
            raise DivergedError(
                f"{whose} a parameter that is not a finite number, from which nothing can be learned; {way_out}"
            )

    def epoch(self, number: int, loss: float) -> None:
        """An epoch's mean loss on the training rows."""
        if not math.isfinite(loss):
            raise diverged(self.plan.spec, f"the loss is no longer a finite number in epoch {number}")
        if loss > MOST_ON_THE_WAY * self.constant and loss > self.before:
            raise diverged(
                self.plan.spec,
                f"the loss rose to {loss:.4g} in epoch {number}, where the best constant has {self.constant:.4g}",
            )
        self.before = loss

    def end(self, model: Model, outcome: Outcome) -> None:
        """The trained model, and its scores of the training rows."""
        if not are_finite(model.parameters.values()):
            raise diverged(self.plan.spec, "a parameter is no longer a finite number")
        if not np.isfinite(outcome.score).all():
            if not self.plan.spec.values["epochs"]:
                raise DivergedError(
                    "the start values give a training row a score that is not a finite number; choose a smaller "
                    f"{OPTIONS['init_std'].flag}, or scale the features with {OPTIONS['scale'].flag} standard"
                )
            raise diverged(self.plan.spec, "a score of a training row is no longer a finite number")
        loss = mean_loss(self.loss, outcome.label, outcome.score, outcome.weight)
        if loss > MOST_AT_END * self.constant:
            raise diverged(
                self.plan.spec,
                f"the model's loss on the training rows is {loss:.4g}, that of the best constant {self.constant:.4g}",
            )
