"""Training: from rows and a spec to a trained model. Everything above the compiled epoch is here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import (
    array_of,
    in_order,
    numbered,
    part,
    real_number,
    require_like,
    require_names,
    under,
    whole_number,
    within,
)
from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError, UnavailableError
from fmcli.losses.loss import Loss
from fmcli.models.layout import CUTPOINTS
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss, build_trainer
from fmcli.registry.specs import SCALE_LABELS, Spec
from fmcli.registry.streams import PREPARE_STREAM, START_STREAM, generator
from fmcli.scoring.rows import score_rows
from fmcli.solvers import new_features
from fmcli.solvers.trainer import Observer
from fmcli.system.allocator import return_freed_memory
from fmcli.system.memory import LARGE, require_if_large
from fmcli.training.account import MemoryNeed, need_of
from fmcli.training.baseline import baseline_of
from fmcli.training.checkpoint import Checkpointer, Progress
from fmcli.training.divergence import DivergenceCheck
from fmcli.training.draws import KeptDraws
from fmcli.training.planning import Plan, prepare, strengths_in
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.scaled_labels import with_choice
from fmcli.training.setup.settings import Settings
from fmcli.training.starting import start_at_minimum
from fmcli.training.trained import Epoch, Trained, summary
from fmcli.training.validation import LAST_COMPARED, BestEpoch, BestOfLast

__all__ = ["Epoch", "Observer", "Plan", "Settings", "Trained", "plan", "prepare", "summary", "train"]


def plan(data: Dataset, spec: Spec, *, valid: Dataset | None = None, **settings: Any) -> Plan:
    """`prepare`, with the settings as keyword arguments, for experiments with the steps of solvers: labels are not
    scaled unless the spec or a warm start says so."""
    if spec.values[SCALE_LABELS] is None and not settings.get("warm_start"):
        spec = with_choice(spec, False)
    return prepare(Settings.of(spec, **settings), RowsInMemory.of(data), valid)


def train(
    plan: Plan,
    on_epoch: Callable[[Epoch], bool | None] = lambda epoch: None,
    observer: Observer | None = None,
    keeper: Checkpointer | None = None,
) -> Trained:
    """Train a plan's model.

    Parameters
    ----------
    on_epoch : called after every epoch, and for every epoch of the run that this one continues. Training ends after
        the epoch if it returns True.
    observer : receives the progress of each epoch.
    keeper : keeps the run's progress, from which it can continue.

    Raises
    ------
    NotEnoughMemoryError
        The run needs more memory than is available; raised before anything is allocated.
    DivergedError
        A loss or a parameter is no longer finite. Its `trained` is the best epoch before, if validation found one.
    """
    need = need_of(plan)
    require_if_large(need.total, "training", held=need.held)
    return_freed(need)  # the memory of making the rows
    run = Run(plan, on_epoch, observer or Observer(), keeper or Checkpointer())
    try:
        run.complete()
        return_freed(need)
    except DivergedError as error:
        if run.best.number:
            error.trained = run.finish(run.best.restore())
        raise
    return run.finish(run.best.restore() or len(run.epochs))


def return_freed(memory: MemoryNeed) -> None:
    """Return freed memory to the system, if the run takes much."""
    if memory.total >= LARGE:
        return_freed_memory()


class Run:
    """A plan's model in training.

    epochs : the figures of the epochs that have ended.
    stopped : whether no epoch follows.
    late : whether the deadline has passed.
    begun : seconds that the process that this one continues has spent on the first epoch.
    """

    def __init__(
        self, plan: Plan, on_epoch: Callable[[Epoch], bool | None], observer: Observer, keeper: Checkpointer
    ) -> None:
        self.plan, self.model, self.on_epoch, self.keeper = plan, plan.model, on_epoch, keeper
        self.observer = observer
        kept = keeper.kept()
        self.epochs: list[Epoch] = []
        if kept is not None:
            with keeper.checking():
                self.epochs = epochs_of(kept, plan)
        self.stopped, self.late, self.begun = False, False, 0.0
        spec, labels = plan.spec, plan.transform.labels
        self.loss, self.trainer = build_loss(spec, labels.loss, plan.model.columns), build_trainer(plan.task)
        self.baseline = baseline_of(plan, self.loss)
        self.divergence = DivergenceCheck(plan, self.loss, self.baseline)
        penalty = Penalty(**strengths_in(plan), epochs=plan.penalized_before + len(self.epochs))
        self.model.allocate(self.trainer.slots)
        if plan.earlier:
            plan.earlier.begin(plan.task, self.loss)
        if kept is None:
            start(plan, self.loss)
            self.divergence.start(self.model)
        self.trainer.prepare(self.loss, penalty, observer)
        if kept is None and plan.warm_start and plan.resumes:
            plan.warm_start.restore_state(self.model, self.trainer)
        self.best: BestEpoch | KeptDraws
        if spec.solver_entry.is_sampler:
            self.best = KeptDraws(plan, self.trainer)
        else:
            last, state = spec.values["epochs"], plan.settings.may_keep_state(spec, self.model, self.trainer.slots)
            if plan.compares_last:
                by_training = replace(plan.evaluation, rows=plan.measured)
                first = max(plan.eligible, last - LAST_COMPARED + 1)
                self.best = BestOfLast(by_training, self.model, self.trainer, first, last, state)
            else:
                self.best = BestEpoch(plan.validation, self.model, self.trainer, plan.eligible, last, state)
        self.trained = Trained(plan, self.baseline, self.epochs)
        if kept is not None:
            with keeper.checking():
                place = self._continue_from(kept)
            self.trained = replace(self.trained, continued=place)
            for epoch in self.epochs:
                self.divergence.epoch(epoch.number, epoch.loss)
                on_epoch(epoch)
            if not self.stopped:
                observer.continues(len(self.epochs) + 1, self.trainer.row)
        self.trainer.pause = keeper.pause

    def _continue_from(self, progress: Progress) -> tuple[int, int]:
        """Return to progress that was kept. Returns the epoch and the row. Raises ValueError if it is not valid."""
        model, best, state = (part(name, progress) for name in ("model", "best", "trainer"))
        parts = [*under("model", model), *under("best", best), *under("trainer", state)]
        require_names(progress, ["stopped", "updates", "seconds", "epochs", *parts])
        arrays, ended = in_order(model), len(self.epochs)
        self.model.require_snapshot(arrays)
        self.model.restore(arrays)
        self.best.continue_from(best, ended)
        self.stopped = bool(whole_number(progress, "stopped", 0, 1))
        updates, seconds = whole_number(progress, "updates"), real_number(progress, "seconds")
        if self.stopped:
            require_names(state, ())
            self.trainer.resume(updates)
            return self.plan.epochs_before + ended, self.plan.source.visits
        self.trainer.load_state(state, ended)
        self.begun = seconds
        return self.plan.epochs_before + ended + 1, self.trainer.row

    def complete(self) -> None:
        """Train, until the last epoch or until a rule ends training."""
        self.keeper.begins(self.progress)
        self.begin = time.perf_counter() - self.begun
        if self.plan.spec.values["epochs"] and not self.stopped:
            with self.keeper.deferring():
                try:
                    self.trainer.run(self.plan.spec.values["epochs"], self.after)
                except UnavailableError:
                    if self.plan.spec.by_rows:  # between two rounds; the others lack a part of an epoch
                        self.keeper.pause(True)
                    raise
                finally:
                    self.observer.ended()

    def after(self, loss: float, penalty: float) -> bool:
        """Evaluate an epoch; return whether training stops."""
        plan, number = self.plan, len(self.epochs) + 1
        self.divergence.epoch(number, loss)
        valid = self.best.evaluate(number)
        took = time.perf_counter() - self.begin
        self.epochs.append(Epoch(number, loss, penalty, valid, took))
        asked = bool(self.on_epoch(self.epochs[-1]))
        self.begin = time.perf_counter()
        last = number == plan.spec.values["epochs"]
        self.stopped = asked or self.best.enough or self.trained.converged or (last and not self.trainer.partial)
        if not self.stopped:
            self.late = self.trainer.partial or number == self.keeper.until
            self.late = self.late or plan.task.late(0 if plan.spec.by_rows else took)
        if not self.trainer.partial:
            self.keeper.pause(self.late)
        return self.stopped or self.late

    def progress(self) -> dict[str, NDArray[Any]]:
        """Return the progress that the rest of the run depends on, between two epochs or where the trainer pauses,
        without copies."""
        state = {} if self.stopped else self.trainer.state()
        return {
            "stopped": np.array(int(self.stopped)),
            "updates": np.array(self.trainer.updates),
            "seconds": np.array(time.perf_counter() - self.begin),
            "epochs": table_of(self.epochs),
            **under("best", self.best.progress()),
            **under("trainer", state),
            **under("model", numbered(self.model.live())),
        }

    def finish(self, best: int) -> Trained:
        """Score the training rows with the parameters to save, from the epoch `best`.

        Raises DivergedError if the model has diverged.
        """
        self.keeper.ends()
        plan = self.plan
        trained = replace(self.trained, best=best, updates=self.trainer.updates, out_of_time=self.late)
        if isinstance(self.best, KeptDraws):
            trained = replace(trained, draws=self.best.draws[:-1], beside=self.best.beside)
            trained = replace(trained, convergence=self.best.trace.figures())
            trained = replace(trained, tested=self.best.tested_scores())
        self.trainer.end()
        outcome = plan.evaluation.outcome(trained.all_draws, plan.measured)
        self.divergence.end(self.model, outcome)
        return replace(trained, outcome=outcome)


def table_of(epochs: list[Epoch]) -> NDArray[np.float64]:
    """Return (epochs, 3 + metrics) The figures of epochs."""
    rows = [[epoch.loss, epoch.penalty, epoch.seconds, *epoch.valid.values()] for epoch in epochs]
    return np.array(rows, dtype=np.float64)


def epochs_of(progress: Progress, plan: Plan) -> list[Epoch]:
    """Return the epochs that have ended in the progress of a `Run`. Raises ValueError if they are not valid."""
    names = plan.validation.metrics if plan.validation else ()
    table = array_of(progress, "epochs")
    ended = table.shape[0] if table.ndim else 0
    require_like("epochs", table, np.empty((ended, 3 + len(names)) if ended else 0))
    within("the number of epochs", ended, 0, plan.spec.values["epochs"])
    return [
        Epoch(number, loss, penalty, dict(zip(names, valid, strict=True)), seconds)
        for number, (loss, penalty, seconds, *valid) in enumerate(table.tolist(), start=1)
    ]


def start(plan: Plan, loss: Loss) -> None:
    """Set the start values of the model, which is allocated, or the parameters of its warm start."""
    spec, model = plan.spec, plan.model
    random = generator(spec, START_STREAM)
    model.start(plan.seen, spec.values["init_std"], random, plan.settings.threads)
    labels = plan.source.labels
    if model.cutpoints:
        best = loss.best_constant(labels.targets, labels.weight, labels.rows)
        model.parameters[CUTPOINTS][...] = best[0] - best
    bias = model.parameters.get("bias")
    if bias is not None:
        with np.errstate(over="ignore", invalid="ignore"):  # a bias that is not finite is refused there, too
            best = loss.best_constant(labels.targets, labels.weight, labels.rows)
            bias.T[...] = (best - empty_score(model))[: model.outputs]  # llfm has one for each anchor
    if plan.new_features:
        new_features.start(model, plan.new_features, spec.values["init_std"], spec.values["seed"])
    if plan.warm_start:
        begun = plan.earlier.begun if plan.earlier else {}
        fresh = {name: model.parameters[name].copy() for name in begun}
        plan.warm_start.copy_parameters(model)
        for name, values in begun.items():
            model.parameters[name][...] = np.where(np.isnan(values), fresh[name], values)
        start_at_minimum(plan, model, loss)
    elif model.anchored:
        model.anchored.start_on(plan.data, plan.rows, generator(spec, PREPARE_STREAM))
    if plan.begin is not None:
        for name, array in plan.begin.items():
            model.parameters[name][...] = array


def empty_score(model: Model) -> NDArray[np.float64]:
    """Return the scores (columns) of a row without entries."""
    row = Dataset(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32), None, None, model.features)
    scores: NDArray[np.float64] = score_rows(model, row)[0]
    return scores
