"""Training: from rows and a spec to a trained model. Everything above the compiled epoch is here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss, build_trainer
from fmcli.registry.options import GROUP_PENALTIES
from fmcli.registry.specs import Spec
from fmcli.registry.streams import PREPARE_STREAM, START_STREAM, generator
from fmcli.scoring.rows import score_rows
from fmcli.solvers.trainer import Observer
from fmcli.system.memory import require
from fmcli.training.baseline import baseline_of
from fmcli.training.divergence import DivergenceCheck
from fmcli.training.planning import Plan, prepare
from fmcli.training.settings import Settings
from fmcli.training.trained import Epoch, Trained, summary
from fmcli.training.validation import BestEpoch

__all__ = ["Epoch", "Observer", "Plan", "Settings", "Trained", "plan", "prepare", "summary", "train"]

# The penalties' options.
STRENGTHS = ("l1_w", "l1_v", "l2_w", "l2_v", *GROUP_PENALTIES, "nuclear", "l1_from_epoch")


def plan(data: Dataset, spec: Spec, *, valid: Dataset | None = None, **settings: Any) -> Plan:
    """`prepare`, with the settings as keyword arguments."""
    return prepare(Settings(spec, **settings), data, valid)


def train(
    plan: Plan, on_epoch: Callable[[Epoch], None] = lambda epoch: None, observer: Observer | None = None
) -> Trained:
    """Train a plan's model.

    Parameters
    ----------
    on_epoch : called after every epoch.
    observer : receives the progress of each epoch.

    Raises
    ------
    NotEnoughMemoryError
        The run needs more memory than is available; raised before anything is allocated.
    DivergedError
        A loss or a parameter is no longer finite. Its `trained` is the best epoch before, if validation found one.
    """
    require(plan.memory.total, "training", held=plan.memory.held)
    spec, model, labels = plan.spec, plan.model, plan.preprocessing.labels
    loss, trainer = build_loss(spec, labels.loss, labels.outputs), build_trainer(plan.task)
    strengths = {name: spec.values[name] for name in STRENGTHS if name in spec.values}
    penalty = Penalty(**strengths, epochs=plan.penalised_before)
    seen = start(plan, loss, trainer.slots)
    baseline = baseline_of(plan, loss)
    divergence = DivergenceCheck(plan, loss, baseline)
    divergence.start(model)
    trainer.prepare(loss, penalty, observer or Observer())
    if plan.warm_start and plan.resumes:
        plan.warm_start.restore_state(model, trainer)
    best = BestEpoch(plan.validation, model, trainer, plan.eligible, spec.values["epochs"])
    trained = Trained(plan, seen, baseline)
    begin, late, epochs = time.perf_counter(), False, spec.values["epochs"]

    def after(loss: float, penalty: float) -> bool:
        """Evaluate an epoch; return whether training stops."""
        nonlocal begin, late
        number = len(trained.epochs) + 1
        divergence.epoch(number, loss)
        valid = best.evaluate(number)
        took = time.perf_counter() - begin
        trained.epochs.append(Epoch(number, loss, penalty, valid, took))
        on_epoch(trained.epochs[-1])
        begin = time.perf_counter()
        if best.enough or trained.converged:
            return True
        late = trainer.partial or (number < epochs and plan.task.late(0 if spec.by_rows else took))
        return late

    try:
        if epochs:
            trainer.run(epochs, after)
    except DivergedError as error:
        if best.number:
            error.trained = finish(replace(trained, best=best.restore(), updates=trainer.updates), divergence)
        raise
    kept = best.restore() or len(trained.epochs)
    return finish(replace(trained, best=kept, updates=trainer.updates, out_of_time=late), divergence)


def start(plan: Plan, loss: Loss, slots: int) -> NDArray[np.bool_]:
    """Allocate the model and set its start values, or the parameters of its warm start.

    slots : number of state arrays beside each parameter array.

    Returns bool (features): which features the model has seen.
    """
    spec, data, model, rows = plan.spec, plan.data, plan.model, plan.rows
    seen = plan.seen
    model.allocate(slots)
    with np.errstate(over="ignore"):  # start values that are not finite are refused by DivergenceCheck.start
        model.start(seen, spec.values["init_std"], generator(spec, START_STREAM))
    weight = None if data.weight is None else data.weight[rows]
    if model.has_bias:
        with np.errstate(over="ignore", invalid="ignore"):  # a bias that is not finite is refused there, too
            model.parameters["bias"][...] = loss.best_constant(data.label[rows], weight) - empty_score(model)
    if plan.warm_start:
        plan.warm_start.copy_parameters(model)
        return plan.warm_start.also_seen(seen)
    model.start_on(data, rows, generator(spec, PREPARE_STREAM))
    return seen


def finish(trained: Trained, divergence: DivergenceCheck) -> Trained:
    """Score the training rows with the parameters to be saved. Raises DivergedError if the model has diverged."""
    outcome = trained.plan.evaluation.outcome(trained.plan.model, trained.plan.rows)
    divergence.end(trained.plan.model, outcome)
    return replace(trained, outcome=outcome)


def empty_score(model: Model) -> NDArray[np.float64]:
    """The scores (outputs) of a row without entries."""
    row = Dataset(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32), None, None, model.features)
    scores: NDArray[np.float64] = score_rows(model, row)[0]
    return scores
