"""A trained model with the figures of its epochs, and their summary."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.finite import finite
from fmcli.scoring.metrics import Outcome
from fmcli.scoring.sparsity import model_sparsity
from fmcli.training.baseline import Baseline
from fmcli.training.planning import Plan, nonzeros_of

# What an objective is at least taken to be when its changes are compared with it.
TINY = 1e-12


@dataclass(frozen=True)
class Epoch:
    """One epoch's figures.

    loss : mean over the samples, under row solvers of each before its own update, else of all at the epoch's end.
    penalty : of the parameters at the epoch's end.
    valid : metrics on the validation data, by name; empty without.
    """

    number: int
    loss: float
    penalty: float
    valid: dict[str, float]
    seconds: float

    @property
    def objective(self) -> float:
        return self.loss + self.penalty


@dataclass(frozen=True)
class Trained:
    """A trained model.

    seen : bool (features), whether the feature occurred in the training data.
    baseline : the best constant, to compare the model with.
    best : number of the epoch whose parameters the model has; 0: the start values.
    updates : those that the solver has made by then, if the next one depends on their number.
    outcome : what the model makes of the training rows; None before it is finished.
    chosen_by : of a model that was trained again on all rows: the run whose held-out rows chose the number of epochs.
    """

    plan: Plan
    seen: NDArray[np.bool_]
    baseline: Baseline
    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0
    updates: int = 0
    outcome: Outcome | None = None
    chosen_by: Trained | None = None

    @property
    def judged(self) -> Trained:
        """The run whose epochs were judged by validation data, if there are any."""
        return self.chosen_by or self

    @property
    def settled(self) -> bool:
        """Whether the last epoch has lowered the objective by no more than the run's tolerance, if it has one."""
        tolerance = self.plan.spec.values.get("tol")
        if tolerance is None or len(self.epochs) < max(2, self.plan.eligible):
            return False
        before, now = (epoch.objective for epoch in self.epochs[-2:])
        return bool(before - now <= tolerance * max(abs(before), TINY))

    @property
    def exhausted(self) -> bool:
        """Whether training stopped because validation found no better epoch for as long as its patience lasts."""
        validation = self.plan.validation
        if validation is None:
            return False
        worse = [epoch for epoch in self.epochs[self.best :] if not math.isnan(epoch.valid[validation.chooser])]
        return len(worse) >= validation.patience


def summary(trained: Trained) -> dict[str, Any]:
    """The figures of a finished run that its model file keeps, as JSON has them.

    "train" and "valid" are of the saved parameters, but "valid" of a refit is of the run that chose its epochs, whose
    held-out rows it has not seen; "valid_constant" is of the best constant.
    """
    plan, judged = trained.plan, trained.judged
    validation = judged.plan.validation
    kept = trained.epochs[trained.best - 1] if trained.best else None
    of_start = validation.measure(plan.model) if validation and not kept else {}
    figures = {
        "rows": len(plan.rows),
        "nonzeros": nonzeros_of(plan.data, plan.rows),
        "features": int(trained.seen.sum()),
        "parameters": plan.model.parameter_count,
        "epochs": plan.epochs_before + len(judged.epochs),
        "best_epoch": plan.epochs_before + judged.best,
        "refit": trained.chosen_by is not None,
        "loss": kept and kept.loss,
        "penalty": kept and kept.penalty,
        "objective": kept and kept.objective,
        "train": plan.judge.measure(plan.model, trained.outcome),
        "valid": judged.epochs[judged.best - 1].valid if kept else of_start,
        "valid_constant": judged.baseline.measure(validation) if validation else {},
        "sparsity": model_sparsity(plan.model),
        **plan.model.figures(plan.data, plan.rows),
    }
    return finite(figures)
