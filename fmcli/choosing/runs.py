"""Runs that are compared with others: each is on the rows that a plan leaves, pauses, and goes on."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition
from typing import Any

from numpy.typing import NDArray

from fmcli.errors import DivergedError, NotEnoughMemoryError
from fmcli.registry.specs import Spec
from fmcli.scoring.metrics import Outcome, measure, metric_of
from fmcli.scoring.paired import difference
from fmcli.scoring.sparsity import model_sparsity
from fmcli.solvers.trainer import Observer
from fmcli.training.baseline import Baseline
from fmcli.training.checkpoint import Checkpointer, Progress
from fmcli.training.job import train
from fmcli.training.planning import Plan
from fmcli.training.prepared import prepared_model
from fmcli.training.trained import Epoch

# A run has learned nothing if its metric differs from the best constant's by less than this part of it.
NOTHING = 1e-3
# A difference of more standard errors than this is clear.
DECIDED = 2.0
# A run that needs this many times the epochs of another one may still end better.
SLOWER = 4


def of_epochs(spec: Spec, epochs: int) -> Spec:
    """Return the spec of a run of at most this number of epochs. A burn-in keeps its share of the epochs."""
    values = {**spec.values, "epochs": epochs}
    if "burn_in" in values and epochs < spec.values["epochs"]:
        values["burn_in"] = min(values["burn_in"], epochs // 2)
    return replace(spec, values=values)


def value_of(outcome: Outcome | None, metric: str) -> float | None:
    """Return a metric of an outcome, if there is one."""
    return None if outcome is None else measure([metric], outcome)[metric]


def as_trial(plan: Plan, **settings: Any) -> Plan:
    """Return the plan of a run that makes no file: no state is kept, no refit follows, and the metric that chooses the
    epoch is the only one. settings : others of the run."""
    choices, validation = plan.settings.choices.changed(keep_state=False, refit=False), plan.validation
    changed = replace(plan.settings, choices=choices, **settings)
    if validation is not None:
        validation = replace(validation, metrics=(validation.chooser,), threads=changed.threads)
    return replace(plan, settings=changed, validation=validation)


class Room:
    """Bytes of memory, which runs take and give back in any thread."""

    def __init__(self, size: int = sys.maxsize) -> None:
        self.size, self._taken, self._changed = size, 0, Condition()

    def take(self, size: int) -> bool:
        """Take this number of bytes, if they are left; return whether they are."""
        with self._changed:
            is_left = self._taken + size <= self.size
            self._taken += size if is_left else 0
        return is_left

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._changed:
            self._taken -= size
            self._changed.notify_all()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Take bytes as soon as they are left, or nobody else has any, and give them back at the end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + size <= self.size)
            self._taken += size
        try:
            yield
        finally:
            self.give(size)


class Paused(Checkpointer):
    """Keeps the progress of a run in memory where it pauses, and continues from there; if there is no room, it keeps
    nothing, and the run begins again, which gives the same."""

    def __init__(self, room: Room) -> None:
        self._room, self.until = room, None
        self.progress: Progress | None = None
        self._current: Callable[[], Progress] = dict

    def kept(self) -> Progress | None:
        return self.progress

    def begins(self, progress: Callable[[], Progress]) -> None:
        self._current = progress

    def pause(self, ends: bool) -> None:
        if ends:
            self.free()
            progress = self._current()
            if self._room.take(bytes_of(progress)):
                self.progress = {name: array.copy() for name, array in progress.items()}

    def free(self) -> None:
        """Keep nothing."""
        if self.progress is not None:
            self._room.give(bytes_of(self.progress))
            self.progress = None

    def ends(self) -> None:
        self._current = dict  # the run takes memory


def bytes_of(progress: Progress) -> int:
    """Return the bytes of progress."""
    return sum(array.nbytes for array in progress.values())


class LateError(Exception):
    """The deadline passed, or the search was interrupted, before a run reached its epochs."""


class Watch(Observer):
    """Ends runs in the midst of an epoch, once a deadline has passed: an epoch may take longer than all before it."""

    def __init__(self, deadline: float | None) -> None:
        self._deadline = math.inf if deadline is None else deadline

    def check(self) -> None:
        """Raise LateError if the deadline has passed."""
        if time.perf_counter() >= self._deadline:
            raise LateError

    def rows(self, epoch: int, rows: int) -> None:
        self.check()


class FoldFit:
    """A run on a fold, as far as it went.

    plan : holds out the rows of the fold.
    deadline : the value of time.perf_counter() at which it ends; None: it has no limit.
    begin : returns the parameters from which it begins; None: the usual start values.
    room : the budget for its state while it pauses.
    followed : whether another one will begin from its own.
    news : the epochs of the last call of `train`.
    outcome : of the best epoch so far, on the held-out rows.
    values : the choosing metric of each epoch there.
    baseline : the best constant.
    sparsity, parameters : of the best epoch; parameters only if another run follows.
    best : the best epoch; ended : whether more epochs would change nothing.
    behind : whether it has ended early, because it was clearly behind another run.
    """

    behind = False

    def __init__(
        self,
        plan: Plan,
        deadline: float | None = None,
        begin: Callable[[], dict[str, NDArray[Any]] | None] = lambda: None,
        room: Room | None = None,
        *,
        followed: bool = False,
    ) -> None:
        self.plan, self.deadline = plan, deadline
        self._begin, self._followed, self._room = begin, followed, room or Room()
        self._keeper = Paused(self._room)
        self.outcome: Outcome | None = None
        self.news, self.values = list[Epoch](), list[float]()
        self.parameters: dict[str, NDArray[Any]] | None = None
        self.sparsity, self.epochs, self.best, self.ended = 0.0, 0, 0, False
        self.baseline: Baseline | None = None

    @property
    def samples(self) -> bool:
        """Whether its first epochs say little."""
        return self.plan.spec.solver_entry.is_sampler

    def train(self, epochs: int, threads: int | None = None, rival: FoldFit | None = None) -> bool:
        """Train up to the given number of epochs. Return whether it was possible.

        rival : another run on the same fold, which has ended; this one ends early if it is clearly behind.

        Raises LateError.
        """
        seen, made = 0 if self._keeper.progress is None else self.epochs, list[Epoch]()
        self._keeper.until = epochs
        plan = self._of_epochs(epochs, threads)
        validation = plan.validation
        assert validation is not None

        def after(epoch: Epoch) -> bool:
            made.append(epoch)
            self.behind = rival is not None and self._is_behind(rival, plan, made)
            return self.behind

        # Row solvers end within an epoch by themselves, with the parameters at that point.
        watch = Observer() if plan.spec.by_rows or self.deadline is None else Watch(self.deadline)
        try:
            trained = train(
                plan, made.append if rival is None else after, watch, Checkpointer() if self.samples else self._keeper
            )
        except (DivergedError, NotEnoughMemoryError):
            return False
        finally:
            self.news, self.values = made[seen:], [epoch.valid[validation.chooser] for epoch in made]
        self.outcome = validation.outcome(trained.all_draws)
        self.sparsity = model_sparsity(plan.model)
        if self._followed:
            self.parameters = {name: array.copy() for name, array in plan.model.parameters.items()}
        self.epochs, self.best, self.baseline = len(trained.epochs), trained.best, trained.baseline
        # The shorter runs of a sampler are whole ones.
        self.ended = not trained.out_of_time and (not self.samples or epochs >= self.plan.spec.values["epochs"])
        if self.ended:
            self.keep_nothing()
        if trained.out_of_time and self.epochs < epochs:
            raise LateError
        return True

    def _is_behind(self, rival: FoldFit, plan: Plan, made: Sequence[Epoch]) -> bool:
        """Return whether the run of a plan, with the epochs that it has made, is clearly worse than another one was
        after a quarter of its epochs: it learns not even a quarter as fast. It is compared after 4, 8, 16 .. epochs."""
        epochs, validation = len(made), plan.validation
        if self.samples or epochs < SLOWER or epochs & (epochs - 1) or rival.outcome is None:
            return False
        assert validation is not None
        best = max if metric_of(validation.chooser).larger_is_better else min
        own = best(epoch.valid[validation.chooser] for epoch in made)
        theirs = best(rival.values[: epochs // SLOWER])
        if best(own, theirs) == own:
            return False
        error = difference(validation.chooser, validation.outcome(plan.model), rival.outcome).error
        return abs(own - theirs) > DECIDED * error

    @property
    def constant(self) -> float:
        """The choosing metric of the best constant on the held-out rows; NaN before a run."""
        validation = self.plan.validation
        assert validation is not None
        return self.baseline.measure(validation)[validation.chooser] if self.baseline else math.nan

    @property
    def learned(self) -> bool:
        """Whether its best epoch is not a constant."""
        if not self.best:
            return True
        constant = self.constant
        return not abs(self.values[self.best - 1] - constant) <= NOTHING * abs(constant)

    @property
    def is_worse_than_constant(self) -> bool:
        """Whether its best epoch is worse than the best constant on the held-out rows."""
        assert self.plan.validation is not None
        sign = -1 if metric_of(self.plan.validation.chooser).larger_is_better else 1
        return self.best > 0 and sign * self.values[self.best - 1] > sign * self.constant

    def keep_nothing(self) -> None:
        """Free the memory with which the run could go on."""
        self._keeper.free()
        self._keeper = Paused(self._room)

    def _of_epochs(self, epochs: int, threads: int | None) -> Plan:
        """Return the plan with a model of its own, and this number of epochs if its solver samples."""
        plan = as_trial(self.plan, threads=threads or self.plan.settings.threads, deadline=self.deadline)
        spec = of_epochs(plan.spec, epochs) if self.samples else plan.spec
        model = prepared_model(spec, plan.source, plan.transform, None)
        return replace(plan, spec=spec, model=model, begin=self._begin())
