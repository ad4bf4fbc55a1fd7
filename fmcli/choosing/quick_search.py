"""The quick search before a run: short runs on held-out rows choose options for which no default suits all data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.choosing.budget import epochs_of, have_most_features
from fmcli.choosing.candidates import Candidate, SearchLimits
from fmcli.choosing.plans import can_compare, choices_of, fold_plans, is_free, number_of_folds, terms_of, thinned
from fmcli.choosing.runs import LateError, Room
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.derived import MOST_VISITS as MOST_VISITS_OF_RUN
from fmcli.registry.models import MODELS
from fmcli.training.planning import STRENGTHS, Plan, of_run, with_options
from fmcli.training.setup.settings import rank_of
from fmcli.training.several.refit import affordable, share_of

if TYPE_CHECKING:
    from fmcli.registry.entry import Trial


@dataclass(frozen=True)
class TriedValue:
    """The result of a comparison.

    option, value : the other value that was tried.
    usual : the value of the plan.
    metric, found, before : the metric with the other value, and with the usual one; None: training diverged.
    chosen : whether the other value is better.
    folds : how many times other rows were held out until it was clear.
    rows : how many rows the runs were trained on, if these were a subset; 0: all.
    """

    option: str
    value: Any
    usual: Any
    metric: str
    found: float | None
    before: float | None
    chosen: bool
    folds: int
    rows: int = 0


def searches(plan: Plan) -> bool:
    """Return whether a run tries other values: it has held-out rows, or other validation data, begins from start
    values, has no deadline, and a run takes little time, or says what to take if it is on a subset of the rows."""
    may = plan.settings.quick_search and can_compare(plan) and plan.spec.values["epochs"] > 1
    return may and (affordable(plan) or has_penalties_per_row(plan))


def has_penalties_per_row(plan: Plan) -> bool:
    """Return whether usual penalties are multiples of one over the number of rows: the penalties of solvers by columns.

    As many times suit all rows and a subset of them, but for a bias to stronger penalties: on 320,000 ratings, where
    usual ones suffice, three of five kinds took stronger ones on a subset, by which two had an RMSE that was .3 and .8
    % larger. So a subset is searched only if the penalties of all rows, which are weaker on it by its share, make the
    model worse than a constant within an epoch: on clicks they do, and logarithmic losses fall by 4 to 22 %.
    """
    return plan.source.in_memory and not plan.spec.by_rows and not plan.spec.solver_entry.is_sampler


def with_values(plan: Plan, deadline: float | None = None) -> tuple[Plan, list[TriedValue]]:
    """Return the plan with better values of options, and what was tried: nothing after the deadline."""
    if not searches(plan):
        return plan, []
    search = QuickSearch(plan, SearchLimits(deadline=deadline, room=Room(0)))
    try:
        return search.run(), search.found
    except LateError:
        return plan, search.found


class QuickSearch:
    """A search for better values of options, one option after the other.

    plan : the run with the best values so far, on all rows.
    part : the run with the usual values, on all rows or a part of them.
    rows : how many rows its runs are trained on, if these are a part; 0: all.
    most : how many epochs a run has at most.
    found : what was tried.
    best : the runs with the best values so far, on these rows; others : those that were compared with them.
    """

    best: Candidate

    def __init__(self, plan: Plan, limits: SearchLimits) -> None:
        share = share_of(plan)
        self.plan, self.limits = plan, limits
        self.part = plan if share == 1 else thinned(plan, share)
        self.rows = 0 if share == 1 else self.part.source.count
        self.most, self.found, self.others = epochs_of(self.part), list[TriedValue](), list[Candidate]()

    def run(self) -> Plan:
        """Try the values; return the plan with the best ones. Raises LateError."""
        if not any(trials(self.plan)) and number_of_folds(self.plan) == 1:
            return self.plan
        if self.rows:
            first_epoch = self.candidate([self.part])  # with the penalties of all rows
            first_epoch.first(1, lambda fold: 1)
            if not first_epoch.runs[0].is_worse_than_constant:
                return self.plan
            self.part = with_options(self.part, {})
        self.best = self.candidate([self.part])
        self.best.first(1, lambda fold: self.most)
        folds = number_of_folds(self.plan, self.best.runs[0].epochs or self.most)
        self.best.add(fold_plans(self.part, folds)[1:])
        done = set[str]()
        while untried := [one for one in trials(self.plan) if one[0] not in done]:  # a solver has options of its own
            option, trial = untried[0]
            done.add(option)
            self.others = []
            any(self.follow(option, trial, *one) for one in zip(trial.paths, trial.errors, strict=True))
        epochs = refit_epochs_of(self.best, self.most)
        return self.plan if epochs is None else replace(self.plan, refit_epochs=epochs)

    def candidate(self, plans: Sequence[Plan]) -> Candidate:
        """Return the candidate of the plans of folds."""
        return Candidate(plans, limits=self.limits)

    def follow(self, option: str, trial: Trial, path: Sequence[float | str], errors: float) -> bool:
        """Try the values of a path, as long as each is better than the one before; return whether one was taken."""
        usual, taken = [choices_of(one.spec)[option] for one in (self.best.plan, self.plan)], False
        for value in path:
            of_part, of_all = (type(one)(value if trial.absolute else value * one) for one in usual)
            if self.left(0) < 1:
                break
            try:
                first = with_options(self.best.plan, {option: of_part})
            except UsageError:  # a solver does not take an option that was given
                break
            other = self.candidate([of_run(first, fold) for fold in self.best.plans])
            chosen, folds = self.compared(other, errors)
            before, metrics = choices_of(self.plan.spec)[option], (other.reached.value, self.best.reached.value)
            self.found.append(TriedValue(option, of_all, before, other.chooser, *metrics, chosen, folds, self.rows))
            if not chosen:
                break
            taken, self.best, self.others = True, other, []
            self.plan = with_options(self.plan, {option: of_all})
        return taken

    def compared(self, other: Candidate, errors: float) -> tuple[bool, int]:
        """Return whether another value is better than the best one so far, and on how many folds they were compared: as
        many as it takes until it is clearly better, or is not better. errors : see Trial."""
        self.others.append(other)
        for folds in range(1, len(self.best.runs) + 1):
            self.best.first(folds, lambda fold: self.most)
            if self.left(folds - 1) < 1:
                return False, folds
            other.first(folds, lambda fold: min(self.most, self.left(fold)))
            chosen, is_clear = other.judged(self.best, errors, folds)
            if is_clear:
                break
        return chosen, folds

    def left(self, fold: int) -> int:
        """Return how many epochs on a fold one training of the best values leaves to others: together they have one."""
        taken: int = sum(other.runs[fold].epochs for other in self.others)
        return self.best.one_training(fold) - taken


def refit_epochs_of(best: Candidate, most: int) -> int | None:
    """Return the median of the best epochs on several folds, for a refit, if it is known: half of the runs would have
    gone on otherwise."""
    if (folds := len(best.runs)) < 2:
        return None
    best.first(folds, lambda fold: most)
    ended = not best.failed and all(run.ended for run in best.runs)
    return int(np.median([run.best for run in best.runs])) or None if ended else None


def trials(plan: Plan) -> Iterator[tuple[str, Trial]]:
    """Yield options that were not given, and what to try: what the kind says, and for others the solver. Those of
    linear weights, or of factors, need some; on a subset of the rows, they are penalties."""
    spec, terms, whole = plan.spec, terms_of(plan), affordable(plan)

    def suits(option: str, trial: Trial) -> bool:
        has_terms = option in choices_of(spec) and terms.get(option[-2:], True) and (whole or option in STRENGTHS)
        enough = plan.source.all_rows >= trial.least_rows and (not trial.dense or is_small_and_dense(plan))
        return has_terms and is_free(spec, option) and enough

    kind = MODELS[spec.model].tries
    tried = {**kind, **spec.solver_entry.tries, **kind}  # options of the kind first
    yield from ((option, trial) for option, trial in tried.items() if suits(option, trial))


def is_small_and_dense(plan: Plan) -> bool:
    """Return whether rows have most features, and a run with twice the work takes no more than any may."""
    work = 2 * plan.spec.values["epochs"] * plan.facts["nonzeros"] * rank_of(plan.spec)
    return work <= MOST_VISITS_OF_RUN and have_most_features(plan)
