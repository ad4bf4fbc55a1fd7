"""A trained model, the figures of its epochs, and their summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.finite import finite
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.records import dataclass
from fmcli.scoring.draws import Draw, Draws
from fmcli.scoring.metrics import Outcome, default_metrics, measure
from fmcli.scoring.scorer import Scorer
from fmcli.scoring.sparsity import model_sparsity
from fmcli.training.baseline import Baseline, Comparison
from fmcli.training.planning import Plan
from fmcli.training.setup.settings import make_model

# The least magnitude of an objective when its changes are compared with it, so none is divided by 0.
TINY = 1e-12


@dataclass(frozen=True)
class Epoch:
    """One epoch's figures.

    Attributes
    ----------
    number : int
        From 1 on.
    loss : float
        Mean loss over the samples; for stochastic solvers each sample's loss before its own update, for the others the
        losses at the end of the epoch.
    penalty : float
        Penalty of the parameters at the end of the epoch.
    valid : dict of float
        Metrics on the validation data, by name; empty if there are no validation data.
    seconds : float
        What the epoch took, with its evaluation.
    member : int or None
        The number of the member of an ensemble, from 1 on; None: the model is a single one.
    """

    number: int
    loss: float
    penalty: float
    valid: dict[str, float]
    seconds: float
    member: int | None = None

    @property
    def objective(self) -> float:
        return self.loss + self.penalty


@dataclass(frozen=True)
class Trained:
    """A trained model.

    baseline : the best constant, to compare the model with.
    best : number of the epoch whose parameters the model has; 0: the start values.
    updates : number of updates that the solver had made by then, if the next update depends on it.
    outcome : scores and labels of the training rows; None until training has finished.
    out_of_time : whether the deadline ended training.
    continued : if the run continued from a checkpoint: the epoch, and how many of its rows were done.
    draws : the parameters of earlier draws, or all arrays of other members of an ensemble, whose predictions are
        averaged with the model's predictions.
    beside : the numbers kept with each draw; see Trainer.kept_with_draws.
    tested : (rows, outputs) the scores of the rows of the plan that are predicted by the mean over all sweeps.
    members : the number of members of the ensemble.
    convergence : of a solver that samples: the figures of fmcli.solvers.gibbs.convergence.Trace.
    chosen_by : if the model was trained again on all rows: the run whose held-out rows chose the number of epochs.
    """

    plan: Plan
    baseline: Baseline
    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0
    updates: int = 0
    outcome: Outcome | None = None
    out_of_time: bool = False
    continued: tuple[int, int] | None = None
    draws: Sequence[Draw] = ()
    beside: Sequence[Draw] = ()
    convergence: Mapping[str, Any] = field(default_factory=dict)
    tested: NDArray[np.float64] | None = None
    members: int = 1
    chosen_by: Trained | None = None

    @property
    def seen(self) -> NDArray[np.bool_]:
        """bool (features), whether the feature occurred in the training data, or in the warm start's."""
        return self.plan.transform.seen

    @property
    def all_draws(self) -> Draws:
        """The model, and the earlier draws."""
        spec, model, fields = self.plan.spec, self.plan.model, self.plan.transform.fields
        return Draws(
            model, self.draws, lambda features: make_model(spec, features, model.outputs, fields, model.cutpoints)
        )

    def scorer(self, name: str) -> Scorer:
        """Return the model as it scores rows, with the bits of its file but without a copy. name : of the model in
        messages."""
        plan = self.plan
        transform = replace(plan.transform, frequent=None)  # rare features, which files do not list, are 0
        meta = {"model": plan.spec.model, "options": plan.spec.values, "members": self.members}
        return Scorer(self.all_draws, transform, meta, name, calibration=plan.calibration)

    @property
    def validated(self) -> Trained:
        """The run that was evaluated on validation data: the first one if the model was trained again on all rows."""
        return self.chosen_by or self

    @property
    def converged(self) -> bool:
        """Whether the relative decrease of the objective in the last epoch is at most the tolerance, if any."""
        tolerance = None if self.plan.new_features else self.plan.spec.values.get("tol")  # they end on their own
        if tolerance is None or len(self.epochs) < max(2, self.plan.eligible):
            return False
        before, now = self.epochs[-2].objective, self.epochs[-1].objective
        return bool(before - now <= tolerance * max(abs(before), TINY))

    @property
    def exhausted(self) -> bool:
        """Whether training stopped early: there were `patience` epochs without a better one."""
        validation = self.plan.validation
        if validation is None:
            return False
        worse = [epoch for epoch in self.epochs[self.best :] if not math.isnan(epoch.valid[validation.chooser])]
        return len(worse) >= validation.patience


def summary(trained: Trained) -> dict[str, Any]:
    """Return the figures of a finished run, as its model file keeps them in JSON.

    "train" and "valid" are metrics of the saved parameters, "train" on "train_rows" rows if not on all of them. After a
    refit, "valid" is from the run that chose the number of epochs, since the refitted model has seen the held-out rows.
    "valid_constant" is for the best constant.
    """
    plan, validated = trained.plan, trained.validated
    validation = validated.plan.validation
    kept = trained.epochs[trained.best - 1] if trained.best else None
    of_start = validation.measure(plan.model) if validation and not kept else {}
    figures = {
        "rows": plan.source.count,
        "nonzeros": plan.source.nonzeros,
        "features": int(trained.seen.sum()),
        "parameters": plan.model.parameter_count,
        "epochs": plan.epochs_before + len(validated.epochs),
        "best_epoch": plan.epochs_before + validated.best,
        "refit": trained.chosen_by is not None,
        "out_of_time": trained.out_of_time,
        "loss": kept and kept.loss,
        "penalty": kept and kept.penalty,
        "objective": kept and kept.objective,
        "train": plan.evaluation.measure(plan.model, trained.outcome),
        "valid": validated.epochs[validated.best - 1].valid if kept else of_start,
        "valid_constant": validated.baseline.measure(validation) if validation else {},
        "sparsity": model_sparsity(plan.model),
        **(plan.model.anchored.figures(plan.data, plan.rows) if plan.model.anchored else {}),
        **({"draws": 1 + len(trained.draws)} if plan.spec.solver_entry.is_sampler else {}),
        **({"convergence": trained.convergence} if trained.convergence else {}),
        **({"train_rows": len(plan.measured)} if len(plan.measured) < plan.source.count else {}),
    }
    return finite(figures)


def compared(trained: Trained, summary: Mapping[str, Any]) -> Comparison | None:
    """Return a finished run beside the best constant, by the metric that chose the epoch, or without validation data by
    the first one on the training rows. None if there is nothing to compare: no epoch, an undefined metric, a single
    pass or observed pairs without validation data, or the few rows of new features.

    summary : the summary of the run, from `summary`.
    """
    validation = trained.validated.plan.validation
    if not trained.epochs or trained.plan.new_features:
        return None
    if validation:
        name = validation.chooser
        value, constant = summary["valid"][name], summary["valid_constant"][name]
        return (
            None
            if value is None or constant is None
            else Comparison(name, value, constant, True, trained.validated.baseline.words)
        )
    if trained.outcome is None or trained.plan.one_pass or isinstance(trained.plan.source, ObservedRows):
        return None
    name = (trained.plan.evaluation.measured or default_metrics(trained.outcome.loss))[0]
    value, constant = measure([name], trained.outcome)[name], trained.baseline.on(trained.outcome, [name])[name]
    return None if np.isnan(value) or np.isnan(constant) else Comparison(name, value, constant, validated=False)
