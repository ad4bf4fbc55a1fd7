"""Kinds, solvers and options that are compared, each by a run on every fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.choosing.budget import LEAST_EPOCHS, work
from fmcli.choosing.plans import thinned
from fmcli.choosing.runs import DECIDED, FoldFit, LateError, Room, value_of
from fmcli.records import dataclass
from fmcli.scoring.metrics import Outcome, metric_of
from fmcli.scoring.paired import difference
from fmcli.training.planning import Plan, with_options
from fmcli.training.several.refit import refits
from fmcli.training.trained import Epoch

# One rule decides: a candidate wins if it is better than the best one so far by more than its margin, in standard
# errors of the paired difference. The margin of a value of an option is in the registry. Kinds, solvers and drawn
# options have MARGIN, because the best of many is better by chance, too: the best of a hundred was worse than the usual
# run on held-out rows if it was better by one. A solver that samples needs none if its run was cut short, because it
# becomes much better.
MARGIN = 2.0
# Candidates are as good as each other if their difference is at most this many standard errors.
TIE = 1.0
# Other folds follow as long as another candidate is better by fewer standard errors than DECIDED, or worse by fewer
# than UNDECIDED.
UNDECIDED = 1.0


@dataclass(frozen=True)
class TrialResult:
    """The results of the runs of a candidate so far.

    epochs : how many each has had, at most.
    value : the choosing metric of their best epochs; None: training failed.
    best : the best epoch of each, the best of the mean curve: a model on all rows has only one, and a metric
        that jumps between epochs is good in one of them by chance.
    ended : whether more epochs would change nothing.
    sparsity : the share of zeros among the parameters of the first fold.
    """

    epochs: int
    value: float | None
    best: tuple[int, ...]
    ended: bool
    sparsity: float = 0.0


@dataclass(frozen=True)
class TrialRecord:
    """A candidate without its runs: what it was, and what it has reached.

    number : 0 is the usual run.
    options : the drawn options.
    asked : for how many epochs it was trained, at most; rows : on how many rows.
    metric : by which candidates are compared.
    trainings : the work of its runs in units of one training: the usual run and its refit, on as many folds.
    """

    number: int
    model: str
    solver: str
    options: Mapping[str, Any]
    asked: int
    rows: int
    metric: str
    reached: TrialResult
    trainings: float = 0.0
    chosen: bool = False


Known = Callable[[int, int, int], TrialResult | None]


@dataclass(frozen=True)
class SearchLimits:
    """How the candidates of a comparison are run.

    known : returns what a candidate, by its number, has reached in these epochs on these rows, because this need
        not be repeated; None: nothing is known.
    deadline : the value of time.perf_counter() at which the comparison ends; None: it has no limit.
    room : for what paused runs keep.
    """

    known: Known | None = None
    deadline: float | None = None
    room: Room = field(default_factory=Room)


class Candidate:
    """A kind, a solver and options in a comparison, trained on each fold.

    plans : the same run, which holds out other rows in each.
    number : of the candidate; settings : the options that were drawn for it.
    before : the candidate from whose parameters its runs begin; None: they begin from the usual start values.
    followed : whether another one will begin from its own.
    reached : by its longest runs.
    news : the epochs of the last ones, with the number of their fold.
    asked : for how many epochs these were trained, at most.
    spent : the work of its runs so far.
    subset : the same on a subset of the rows, if that was trained first.
    share : the number of equal subsets that the rows are divided into.
    runs : one for each fold; failed : whether one of them was not possible.
    """

    subset: Candidate | None = None
    share = 1
    failed = False

    def __init__(
        self,
        plans: Sequence[Plan],
        number: int = 0,
        settings: Mapping[str, Any] | None = None,
        limits: SearchLimits | None = None,
        before: Candidate | None = None,
        *,
        followed: bool = False,
    ) -> None:
        self._limits, self.before, self._followed = limits or SearchLimits(), before, followed
        self.news = list[tuple[int, Epoch]]()
        self.plans, self.number, self.settings, self.spent = list(plans), number, settings or {}, 0
        self.reached, self.asked = TrialResult(0, None, (), False), 0
        self.runs = self._new_runs()

    def _new_runs(self) -> list[FoldFit]:
        """Return the runs of all folds, which have not begun. They do not know the candidate: its memory is freed as
        soon as nothing needs it."""
        deadline, before = self._limits.deadline, self.before
        begin = (lambda fold: None) if before is None else before.parameters
        return [
            FoldFit(plan, deadline, partial(begin, number), self._limits.room, followed=self._followed)
            for number, plan in enumerate(self.plans)
        ]

    def add(self, plans: Sequence[Plan]) -> None:
        """Add folds."""
        self.plans += plans
        self.runs += self._new_runs()[len(self.runs) :]

    @property
    def plan(self) -> Plan:
        """That of the first fold."""
        return self.plans[0]

    @property
    def chooser(self) -> str:
        """The metric that is compared."""
        assert self.plan.validation is not None
        return self.plan.validation.chooser

    @property
    def samples(self) -> bool:
        """Whether the first epochs of its runs say little."""
        return self.plan.spec.solver_entry.is_sampler

    @property
    def work(self) -> int:
        """That of an epoch of all folds."""
        return work(self.plan) * len(self.plans)

    @property
    def own(self) -> int:
        """The work of the run and its refit."""
        refitted = self.reached.best[0] if self.reached.best and refits(self.plan) else 0
        return (self.reached.epochs + refitted) * self.work

    def record(self) -> TrialRecord:
        """Return what it was, and what it has reached."""
        spec = self.plan.spec
        of = self.number, spec.model, spec.solver, self.settings, self.asked, self.plan.source.count
        return TrialRecord(*of, self.chooser, self.reached)

    def train(self, epochs: int, threads: int | None = None) -> int:
        """Train up to `epochs` epochs in all, unless the runs have had as many or ended by themselves. Return the work
        that it took. Raises LateError."""
        self.news = []
        epochs = min(epochs, self.plan.spec.values["epochs"])
        before = self.reached
        if before.ended or epochs <= before.epochs:
            return 0
        self.asked = epochs
        known = self._limits.known and self._limits.known(self.number, epochs, self.plan.source.count)
        try:
            self.reached = self._run(epochs, threads) if known is None else known
        except LateError:
            if not before.epochs and self._together() is not None:
                self.reached = self._so_far()
            raise
        more = (self.reached.epochs or epochs) - (0 if self.samples else before.epochs)
        self.spent += more * self.work
        return more * self.work

    def _run(self, epochs: int, threads: int | None) -> TrialResult:
        """Train up to `epochs` epochs, and return what was reached."""
        for number, run in enumerate(self.runs):
            if run.ended:
                continue
            made = run.train(epochs, threads)
            self.news += [(number, epoch) for epoch in run.news]
            if not made:
                self.forget()
                return TrialResult(0, None, (), ended=True)
        return self._so_far()

    def first(self, folds: int, epochs: Callable[[int], int], rival: FoldFit | None = None) -> None:
        """Reach the result of the first folds. Folds that have not begun are trained for `epochs(number)` epochs, by
        their number, and do not go on. rival : see FoldFit.train. Raises LateError."""
        for number, run in enumerate(self.runs[:folds]):
            self.failed = self.failed or not (run.epochs or run.train(epochs(number), rival=rival))
            run.keep_nothing()
        runs = self.runs[: 0 if self.failed else folds]
        value = value_of(self._together(folds), self.chooser) if runs else None
        most, best = max((run.epochs for run in runs), default=0), tuple(run.best for run in runs)
        self.reached = TrialResult(most, value, best, all(run.ended for run in runs))

    @property
    def work_of_fold(self) -> int:
        """The work of an epoch of a fold."""
        return work(self.plan)

    def one_training(self, fold: int) -> int:
        """Return the epochs of one training on a fold, whose run has been made: its own and the refit's; at
        least LEAST_EPOCHS."""
        run = self.runs[fold]
        return max(LEAST_EPOCHS, run.epochs + ((run.best if run.ended else run.epochs) if refits(run.plan) else 0))

    def _so_far(self) -> TrialResult:
        """Return what the runs on all folds have reached."""
        value, best = value_of(self._together(), self.chooser), [run.best for run in self.runs]
        curves = [run.values for run in self.runs]
        if len(curves) > 1 and all(curves) and not self.samples:
            most = max(map(len, curves))  # a run that has ended stays where it was
            means = np.mean([np.pad(curve, (0, most - len(curve)), "edge") for curve in curves], axis=0)
            epoch = int(means.argmax() if metric_of(self.chooser).larger_is_better else means.argmin())
            value, best = float(means[epoch]), [epoch + 1] * len(best)
        return TrialResult(
            max(run.epochs for run in self.runs),
            None if value is None or math.isnan(value) else value,
            tuple(best),
            all(run.ended for run in self.runs),
            self.runs[0].sparsity,
        )

    def parameters(self, fold: int) -> dict[str, NDArray[Any]] | None:
        """Return the parameters of the best epoch on a fold; None: training failed. Runs that have not kept them are
        repeated."""
        if self.runs[fold].parameters is None and self.reached.value is not None:
            self.forget()
            self._run(self.reached.epochs, None)
        return self.runs[fold].parameters

    def _together(self, folds: int | None = None) -> Outcome | None:
        """Return the outcome of the first folds, or of all, if it is there."""
        runs = self.runs[:folds]
        outcomes = [run.outcome for run in runs if run.outcome is not None]
        if len(outcomes) < len(runs):
            return None
        return outcomes[0] if len(outcomes) == 1 else Outcome.concatenated(outcomes)

    def outcome(self, folds: int | None = None) -> Outcome | None:
        """Return the scores of the held-out rows of the first folds, or of all, by the best epochs; None: training
        failed. Runs that are known by what they have reached are repeated, if there is time."""
        if self._together(folds) is None and self.reached.value is not None:
            self.forget()
            with suppress(LateError):
                self._run(self.reached.epochs, None)
        return self._together(folds)

    def on_subset(self, share: int) -> Candidate:
        """Return the same on one of `share` of the rows, which it has from then on as its subset."""
        if self.subset is not None:
            self.spent += self.subset.spent
        rows = [with_options(thinned(plan, share), self.settings) for plan in self.plans]
        self.subset = Candidate(rows, self.number, self.settings, self._limits)
        self.subset.share = share
        return self.subset

    @property
    def total(self) -> int:
        """The work of its runs and of its subset."""
        return self.spent + (0 if self.subset is None else self.subset.spent)

    @property
    def longest(self) -> Candidate:
        """Its subset, if it has no runs of its own."""
        return self if self.subset is None or self.begun else self.subset

    @property
    def begun(self) -> bool:
        """Whether its own runs, on all rows, have begun or failed."""
        return self.reached.epochs > 0 or self.reached.ended

    def forget(self) -> None:
        """Free the memory of the runs."""
        if self.subset is not None:
            self.subset.forget()
        for run in self.runs:
            run.keep_nothing()
        self.runs = self._new_runs()

    def rank(self) -> float:
        """Return a number that is smaller if it is better; without runs of its own, the number of its subset."""
        value = self.longest.reached.value
        if value is None:
            return math.inf
        return -value if metric_of(self.chooser).larger_is_better else value

    def within(self, work: int) -> int:
        """Return how many epochs the runs can have in all for this work: runs of a sampler begin again."""
        return (0 if self.samples else self.reached.epochs) + work // self.work

    def may_go_on(self, left: int) -> bool:
        """Return whether runs with more epochs are possible with so much work left, and would differ."""
        return not self.reached.ended and self.within(left) > self.reached.epochs

    @property
    def margin(self) -> float:
        """By how many standard errors it must be better than the usual run."""
        return 0.0 if self.is_cut_short else MARGIN

    @property
    def is_cut_short(self) -> bool:
        """Whether it samples, and would become much better with more sweeps."""
        return self.samples and not self.reached.ended

    def better_than(self, other: Candidate, errors: float) -> bool:
        """Return whether it is better by more than `errors` standard errors of the difference."""
        return self.judged(other, errors)[0]

    def judged(self, other: Candidate, errors: float, folds: int | None = None) -> tuple[bool, bool]:
        """Return whether it is better than another one on the first folds, or on all, and whether that is clear.

        errors : by how many standard errors of the difference it must be better; by none if the other one has
            learned nothing. Simpler ones need none.
        """
        own, theirs = self.outcome(folds), other.outcome(folds)
        if own is None or theirs is None:
            return self.rank() < other.rank(), True
        errors = errors if other.runs[0].learned else 0.0
        found = difference(self.chooser, own, theirs, self.plan.settings.threads)
        return found.better_by(errors), found.worse >= UNDECIDED * found.error or -found.worse > max(
            DECIDED, errors
        ) * found.error
