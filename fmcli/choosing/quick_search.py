"""The quick search before a run: short runs on held-out rows choose options for which no default suits all data."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.choosing.budget import epochs_of, work
from fmcli.choosing.candidates import MARGIN, Candidate, SearchLimits
from fmcli.choosing.plans import (
    ENOUGH_HELD_OUT,
    can_compare,
    choices_of,
    chosen_values,
    fold_plans,
    is_free,
    may_pool,
    number_of_folds,
    terms_of,
    thinned,
)
from fmcli.choosing.runs import SLOWER, FoldFit, LateError, Room
from fmcli.errors import BadInputError, NotEnoughMemoryError, UsageError
from fmcli.records import dataclass
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import POOLED
from fmcli.registry.specs import SOLVER
from fmcli.system.allocator import return_freed_memory
from fmcli.training.planning import Plan, no_readings, of_run, read_as, with_options
from fmcli.training.setup.memory import held_bytes
from fmcli.training.several.refit import affordable, share_of

if TYPE_CHECKING:
    from fmcli.registry.entry import Trial


@dataclass(frozen=True)
class TriedValue:
    """The result of a comparison.

    options : the option and its other value that was tried, and others that were tried together with it.
    usual : the value of that option in the plan; None: another reading of the rows was tried.
    metric, found, before : the metric with the other value, and with the usual one; None: training diverged.
    chosen : whether the other value is better.
    folds : how many times other rows were held out until it was clear.
    rows : how many rows the runs were trained on, if these were a subset; 0: all.
    """

    options: Mapping[str, Any]
    usual: Any
    metric: str
    found: float | None
    before: float | None
    chosen: bool
    folds: int
    rows: int = 0

    @property
    def option(self) -> str:
        """The option whose other value was tried."""
        return next(iter(self.options))

    @property
    def value(self) -> Any:
        """The other value of that option."""
        return self.options[self.option]


def searches(plan: Plan) -> bool:
    """Return whether a run tries other values: it has held-out rows, or other validation data, begins from start
    values, has no deadline, and takes little time, or can be made on a part of the rows."""
    may = plan.settings.quick_search and can_compare(plan) and plan.spec.values["epochs"] > 1
    return may and (affordable(plan) or plan.source.in_memory)


def has_penalties_per_row(plan: Plan) -> bool:
    """Return whether usual penalties are multiples of one over the number of rows: the penalties of solvers by columns.

    As many times suit all rows and a subset of them, but for a bias to stronger penalties: on 320,000 ratings, where
    usual ones suffice, three of five kinds took stronger ones on a subset, by which two had an RMSE that was .3 and .8
    % larger. So a subset is searched only if the penalties of all rows, which are weaker on it by its share, make the
    model worse than a constant within an epoch: on clicks they do, and logarithmic losses fall by 4 to 22 %.
    """
    return plan.source.in_memory and not plan.spec.by_rows and not plan.spec.solver_entry.is_sampler


def with_values(plan: Plan, deadline: float | None = None) -> tuple[Leader, list[TriedValue]]:
    """Return the run with a better solver and better values of options, and what was tried: nothing after the
    deadline."""
    limits = SearchLimits(deadline=deadline, room=Room(0))
    usual = Leader(plan, Candidate([plan], limits=limits))
    if not searches(plan):
        return usual, []
    search = QuickSearch(plan, limits)
    try:
        return search.run(), search.found
    except LateError:
        return usual, search.found


# A search may cost this work, about a second, or an epoch on all rows if its work is more. If an epoch on all rows
# has more work than an epoch of a search may have, or takes long, its runs are on a part of the rows, which has at
# least this many. The run of another solver may have as many epochs as this many trainings of the best one so far.
MOST_WORK_OF_SEARCH, MOST_WORK_OF_EPOCH, LEAST_ROWS, TRAININGS_OF_SOLVER = 7 * 10**8, 10**7, 20_000, 2
# Rows with more entries are read in one way only. The best other way and the one that is compared with it take as much
# memory as this many copies of the rows, and the text of tables takes these bytes while it is read.
MOST_ENTRIES_OF_READINGS, COPIES_OF_ROWS, BYTES_OF_TEXT = 5 * 10**6, 5, 24 << 20


@dataclass(frozen=True)
class Leader:
    """The best solver and values so far.

    plan : the run on all rows.
    runs : the runs on the rows of the search.
    """

    plan: Plan
    runs: Candidate


class QuickSearch:
    """A search for a better solver and better values of options, one after the other.

    plan : the usual run, on all rows; part : the same on all rows or a part of them.
    share : the number of such parts; rows : the number of rows of the part; 0: all.
    weaker : whether the runs on the part have its own penalties: the penalties of all rows are too weak for it.
    most : the largest number of epochs of a run; left : the work that is left.
    found : what was tried; readings : how many of them are other ways to read the table.
    """

    readings = 0

    def __init__(self, plan: Plan, limits: SearchLimits) -> None:
        parts = share_of(plan)
        if not has_penalties_per_row(plan):
            parts = max(parts, math.ceil(work(plan) / MOST_WORK_OF_EPOCH))
        self.share = share = max(1, min(parts, plan.source.count // LEAST_ROWS))
        self.plan, self.limits, self.weaker = plan, limits, False
        self.part = self.part_of(plan)
        self.rows = 0 if share == 1 else self.part.source.count
        self.most, self.found = epochs_of(self.part), list[TriedValue]()
        self.left = max(MOST_WORK_OF_SEARCH, work(plan))

    def part_of(self, plan: Plan) -> Plan:
        """Return a plan on the rows of the search."""
        part = plan if self.share == 1 else thinned(with_fewer_held_out(plan), self.share)
        return with_options(part, {}) if self.weaker else part

    def run(self) -> Leader:
        """Try solvers and values; return the best ones. Raises LateError."""
        runs, solvers = self.candidate([self.part]), other_solvers(self.plan)
        tries_some = solvers or any(trials(self.plan)) or self.plan.readings is not no_readings
        if not tries_some and number_of_folds(self.plan) == 1:
            return Leader(self.plan, runs)
        if self.rows and has_penalties_per_row(self.plan):
            first_epoch = self.candidate([self.part])  # with the penalties of all rows
            first_epoch.first(1, lambda fold: 1)
            if not first_epoch.runs[0].is_worse_than_constant:
                return Leader(self.plan, runs)
            self.weaker = True
            self.part = self.part_of(self.plan)
            runs = self.candidate([self.part])
        runs.first(1, lambda fold: self.most)
        wanted = 1 if self.rows else number_of_folds(self.plan, runs.runs[0].epochs or self.most)
        runs.add(fold_plans(self.part, wanted)[1:])
        folds = len(runs.runs)  # groups of rows may make fewer
        usual = self.with_readings(Leader(self.plan, runs), folds)
        self.readings = len(self.found)
        leader = self.with_values(usual, folds, early=True)
        for solver, errors in solvers.items():
            leader = self.with_solver(solver, errors, usual, leader)
        leader = self.with_values(leader, folds, early=False)
        epochs = refit_epochs_of(leader.runs, self.most)
        return leader if epochs is None else replace(leader, plan=replace(leader.plan, refit_epochs=epochs))

    def with_readings(self, leader: Leader, folds: int) -> Leader:
        """Return the leader, on the rows of its table as the best way to read it has them."""
        if self.plan.data.nnz <= MOST_ENTRIES_OF_READINGS:
            for number, reading in enumerate(self.plan.readings(), start=1):
                with suppress(BadInputError, UsageError, NotEnoughMemoryError):
                    leader = self.with_reading(number, reading.options, leader, folds)
        chosen = [number for number, one in enumerate(self.found) if one.chosen]
        self.forget(0, max(chosen, default=0))  # a reading takes the place of the one before
        return leader

    def with_reading(self, number: int, options: Mapping[str, Any], leader: Leader, folds: int) -> Leader:
        """Return the leader, or the same run on the rows of another reading, by its number, if that is better. Raises
        the errors of `read_as`."""
        return_freed_memory()  # of the rows that were compared before
        plan = read_as(self.plan, number)
        other = Leader(plan, self.candidate(fold_plans(self.part_of(plan), folds)))
        compared = self.compared(other.runs, leader.runs, folds, MARGIN)
        return self.decided(other, leader, options, compared)

    def with_solver(self, solver: str, errors: float, usual: Leader, leader: Leader) -> Leader:
        """Return the leader, or another solver that is better, with the values that it needs before it is compared:
        these are chosen on one fold."""
        try:
            plan, first = (with_options(one, {SOLVER: solver}) for one in (usual.plan, usual.runs.plan))
        except UsageError:  # the solver does not suit the run
            return leader
        runs = self.candidate([of_run(first, fold) for fold in usual.runs.plans])
        other, tried = Leader(plan, runs), len(self.found)
        trainings, folds = TRAININGS_OF_SOLVER, len(runs.runs)
        compared = self.compared(other.runs, leader.runs, 1, errors, trainings)
        if compared[1] and not other.runs.failed and not other.runs.runs[0].behind:
            other = self.with_values(other, 1, early=True)
            compared = self.compared(other.runs, leader.runs, folds, errors, trainings)
        del self.found[tried:]
        before = chosen_values(usual.plan)
        own = {name: value for name, value in chosen_values(other.plan).items() if name not in before}
        best = self.decided(other, leader, own, compared)
        if best is other:
            self.forget(self.readings, tried)  # another solver begins with its own values
        return best

    def forget(self, first: int, last: int) -> None:
        """Note that what was chosen among some of the tries has been replaced."""
        for number in range(first, last):
            self.found[number] = replace(self.found[number], chosen=False)

    def with_values(self, leader: Leader, folds: int, *, early: bool) -> Leader:
        """Return the leader with better values of options: the options that a solver needs before it is compared with
        others, or the rest."""
        for option, trial in trials(leader.plan):
            if trial.early is early:
                paths = zip(trial.paths, trial.errors, strict=True)
                better = (self.follow(option, trial.absolute, *path, leader, folds) for path in paths)
                leader = next((one for one in better if one is not leader), leader)
        return leader

    def follow(
        self, option: str, absolute: bool, path: Sequence[float], errors: float, leader: Leader, folds: int
    ) -> Leader:
        """Return the leader with the last value of a path up to which each is better than the one before."""
        usual = [choices_of(plan.spec)[option] for plan in (leader.plan, leader.runs.plan)]
        for value in path:
            of_all, of_part = (type(one)(value if absolute else value * one) for one in usual)
            try:
                plan = with_options(leader.plan, {option: of_all})
                first = with_options(leader.runs.plan, {option: of_part})
            except UsageError:  # a solver does not take an option that was given
                break
            runs = self.candidate([of_run(first, fold) for fold in leader.runs.plans])
            other, before = Leader(plan, runs), leader
            compared = self.compared(runs, leader.runs, folds, errors)
            leader = self.decided(other, leader, {option: of_all}, compared)
            if leader is before:
                break
        return leader

    def decided(self, other: Leader, leader: Leader, options: Mapping[str, Any], compared: tuple[bool, int]) -> Leader:
        """Return the better one of two, and note what was tried, unless no work was left for it. compared : what the
        method of this name returned for them."""
        (chosen, folds), runs = compared, other.runs
        if folds:
            for one in (runs, leader.runs):
                one.first(folds, lambda fold: 0)
            usual = choices_of(leader.plan.spec).get(next(iter(options)))
            metrics = runs.chooser, runs.reached.value, leader.runs.reached.value
            self.found.append(TriedValue(options, usual, *metrics, chosen, folds, self.rows))
        return other if chosen else leader

    def compared(
        self, other: Candidate, best: Candidate, folds: int = 1, errors: float = 1.0, trainings: int = 1
    ) -> tuple[bool, int]:
        """Return whether a candidate is better than the best one so far, and on how many folds they were compared: as
        many as it takes until it is clearly better, or is not better.

        errors : see Trial.
        trainings : each run may have as many epochs as this number of trainings of the best one.
        """
        for fold in range(folds):
            self.train(best, fold, self.most)
            epochs = min(self.most, trainings * best.one_training(fold), self.left // other.work_of_fold)
            if not self.train(other, fold, epochs, best.runs[fold]):
                return False, fold  # it would end before the best one has learned
            if other.failed or other.runs[fold].behind:
                return False, fold + 1
            chosen, is_clear = other.judged(best, errors, fold + 1)
            if is_clear:
                return chosen, fold + 1
        return chosen, folds

    def train(self, candidate: Candidate, fold: int, epochs: int, rival: FoldFit | None = None) -> bool:
        """Make the run of a candidate on a fold, unless it is made; return whether there is one. rival : see
        FoldFit.train."""
        before = candidate.runs[fold].epochs
        least = 1
        if rival is not None:
            least = rival.best if rival.plan.spec.solver == candidate.plan.spec.solver else SLOWER
        if not before and epochs < max(1, least):
            return False
        candidate.first(fold + 1, lambda fold: epochs, rival)
        self.left -= (candidate.runs[fold].epochs - before) * candidate.work_of_fold
        return True

    def candidate(self, plans: Sequence[Plan]) -> Candidate:
        """Return the candidate of the plans of folds."""
        return Candidate(plans, limits=self.limits)


def with_fewer_held_out(plan: Plan) -> Plan:
    """Return the plan that holds out LEAST_ROWS rows or some more, if enough of the rarer class are left: scoring
    others would take as long as training on a part of the rows."""
    validation = plan.validation
    assert validation is not None
    step = validation.count // LEAST_ROWS
    if step < 2 or validation.group is not None or min(validation.of_labels or (sys.maxsize,)) < step * ENOUGH_HELD_OUT:
        return plan
    rows = np.arange(validation.count, dtype=np.int32) if validation.rows is None else validation.rows
    return replace(plan, validation=replace(validation, rows=np.ascontiguousarray(rows[::step])))


def refit_epochs_of(best: Candidate, most: int) -> int | None:
    """Return the median of the best epochs on several folds, for a refit, if it is known: some runs would have gone
    on otherwise."""
    if len(best.runs) < 2:
        return None
    for fold, run in enumerate(best.runs):
        best.first(fold + 1, lambda fold: most)
        if best.failed or not run.ended:
            return None
    return int(np.median([run.best for run in best.runs])) or None


def trials(plan: Plan) -> Iterator[tuple[str, Trial]]:
    """Yield options that were not given, and what to try: what the kind says, and for others the solver. Those of
    linear weights, of factors, or of priors by field, need some."""
    spec, terms = plan.spec, terms_of(plan)
    kind = MODELS[spec.model].tries
    for option, trial in {**kind, **spec.solver_entry.tries, **kind}.items():  # options of the kind first
        acts = option in choices_of(spec) and terms.get(option[-2:], True) and (option != POOLED or may_pool(plan))
        if acts and is_free(plan.settings.spec, option):
            yield option, trial


def other_solvers(plan: Plan) -> Mapping[str, float]:
    """Return the solvers with which a run's is compared, and their margins: none if the solver was given, the model
    file is to keep its state, or the rows are not in memory."""
    settings = plan.settings
    free = is_free(settings.spec, SOLVER) and not settings.choices.keep_state and plan.source.in_memory
    return plan.spec.solver_entry.rivals if free else {}


def bytes_of_readings(plan: Plan) -> int:
    """Return the bytes that other readings of the rows of a plan take beside these."""
    if plan.readings is no_readings or plan.data.nnz > MOST_ENTRIES_OF_READINGS or not searches(plan):
        return 0
    return COPIES_OF_ROWS * held_bytes([plan.data]) + BYTES_OF_TEXT


def possible_plans(plan: Plan) -> Iterator[Plan]:
    """Yield the plans, on all rows, of the solvers that a search may choose, with the largest rank."""
    for solver in (plan.spec.solver, *other_solvers(plan)):
        with suppress(UsageError):
            other = plan if solver == plan.spec.solver else with_options(plan, {SOLVER: solver})
            more = [max(map(max, trial.paths)) for option, trial in trials(other) if option == "rank"]
            ranks = {"rank": int(more[0] * other.spec.values["rank"])} if more and more[0] > 1 else {}
            yield with_options(other, ranks) if ranks else other
