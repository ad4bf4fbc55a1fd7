"""Divergence: numbers that are no longer finite, and losses far above the loss of the best constant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fmcli.base.finite import are_finite
from fmcli.errors import DivergedError, called
from fmcli.losses.loss import Loss
from fmcli.models.layout import REAL_TYPE
from fmcli.models.parameters import Parameters
from fmcli.registry.losses import LOSSES
from fmcli.registry.remedies import diverged
from fmcli.scoring.metrics import Outcome
from fmcli.training.baseline import Baseline

if TYPE_CHECKING:
    from fmcli.training.planning import Plan

# A run has diverged if the saved model's loss on the training rows exceeds the best constant's by the first factor, or
# if an epoch's loss exceeds it by the second factor and rises. Healthy runs on unscaled columns begin at a factor of 9.
MOST_AT_END, MOST_ON_THE_WAY = 10, 1000


class DivergenceCheck:
    """Checks every epoch of a run, and the final model. Each check raises DivergedError.

    Some runs are checked only for numbers that are not finite: runs with a loss for counts, which can be negative, so
    its multiples mean nothing; a single pass over a stream, which cannot evaluate its rows; and runs that learn
    new features alone, by few rows, or whose parameters earlier rows hold. A run that resumes from a model of other
    rows may begin far above the constant, so it has diverged only if the loss has not fallen since.
    """

    def __init__(self, plan: Plan, loss: Loss, baseline: Baseline) -> None:
        self.plan, self.loss = plan, loss
        epochs = plan.spec.values["epochs"]
        few = plan.one_pass or plan.new_features is not None  # rows, so a constant may fit their labels by chance
        free = not few and plan.earlier is None
        comparable = LOSSES[plan.transform.labels.loss].task != "counts" and epochs > 0 and free
        self.constant = baseline.loss if comparable else math.inf
        self.first, self.before = math.inf, math.inf

    def start(self, model: Parameters) -> None:
        """Check the parameters that training starts from."""
        if not are_finite(model.parameters.values()):
            largest, warm_start = float(np.abs(self.plan.source.data.label).max()), self.plan.warm_start
            if largest > float(np.finfo(REAL_TYPE).max):
                raise DivergedError(
                    f"labels have values up to {largest:.3g}, too large for parameters of type {REAL_TYPE.name}; "
                    "divide the labels by a constant",
                    scale_labels=True,
                )
            whose = f"{warm_start.path} has" if warm_start else "the start values have"
            way_out = "train that model again" if warm_start else "choose smaller start values, or scale the labels"
            options = {} if warm_start else {"init_std": None}
            raise DivergedError(
                f"{whose} a parameter that is not a finite number, from which nothing can be learned; {way_out}",
                **options,
            )

    def epoch(self, number: int, loss: float) -> None:
        """Check an epoch's mean loss on the training rows."""
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is no longer a finite number in epoch {number}")
        if loss > MOST_ON_THE_WAY * self.constant and loss > self.before:
            raise self._diverged(
                f"the loss rose to {loss:.4g} in epoch {number}; the best constant has {self.constant:.4g}"
            )
        self.first = loss if math.isinf(self.first) else self.first
        self.before = loss

    def end(self, model: Parameters, outcome: Outcome) -> None:
        """Check the trained model and its scores of the training rows."""
        if not are_finite(model.parameters.values()):
            raise self._diverged("a parameter is no longer a finite number")
        if not np.isfinite(outcome.score).all():
            if not self.plan.spec.values["epochs"]:
                raise DivergedError(
                    "the start values give a training row a score that is not a finite number; choose smaller start "
                    "values, or scale the features",
                    init_std=None,
                    scale="standard",
                )
            raise self._diverged("a score of a training row is no longer a finite number")
        if LOSSES[self.plan.transform.labels.loss].pairwise:
            return  # a single row has no loss
        loss = outcome.mean(outcome.losses(self.loss, self.plan.transform.labels.unit))
        far = self.plan.warm_start is not None and self.first <= MOST_ON_THE_WAY * self.constant
        falling = far and loss < self.first
        if loss > MOST_AT_END * self.constant and not falling:
            raise self._diverged(
                f"the model's loss on the training rows is {loss:.4g}, the best constant's {self.constant:.4g}"
            )

    def _diverged(self, what: str) -> DivergedError:
        odd = self.plan.odd_columns
        best = f"{odd.found}: {odd.way_out(called)}" if odd else ""
        return diverged(self.plan.spec, what, best, self.plan.usual)
