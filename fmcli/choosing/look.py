"""A look before the run: options for which no constant suits all data are chosen by short runs on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.choosing.entrants import LateError, TrialRecord, Watch, of_epochs, value_of, work
from fmcli.choosing.plans import can_compare, fold_plans, is_free, most_folds, parts_of
from fmcli.choosing.search import compare
from fmcli.errors import DivergedError
from fmcli.registry.models import MODELS
from fmcli.scoring.metrics import Outcome
from fmcli.scoring.paired import difference
from fmcli.training.job import train
from fmcli.training.planning import Plan, prepared_model
from fmcli.training.several.refit import affordable, refits

if TYPE_CHECKING:
    from fmcli.registry.entry import Trial

# Other folds follow as long as another value is better, but by fewer standard errors of the difference than these.
DECIDED = 2.0
# The run of a value has so many epochs at least, if it does not stop before, and more as long as they visit at most so
# many entries of a factor, or parameters; no more folds follow than visit as many in all. It is a count, so that the
# same data give the same choices.
LEAST_EPOCHS, MOST_VISITS = 20, 10**8


@dataclass(frozen=True)
class Look:
    """The result of a comparison.

    option, value : the other value that was tried.
    usual : the value of the plan.
    metric, found, before : the metric with the other value, and with the usual one; None: training diverged.
    chosen : whether the other value is better.
    folds : how many times other rows were held out until it was clear.
    """

    option: str
    value: Any
    usual: Any
    metric: str
    found: float | None
    before: float | None
    chosen: bool
    folds: int


@dataclass(frozen=True)
class Looked:
    """What a look has found.

    trials : of kinds and solvers, the best one first.
    values : the values of options that were tried.
    """

    trials: Sequence[TrialRecord] = ()
    values: Sequence[Look] = ()


def looks(plan: Plan) -> bool:
    """Return whether a run looks at other values: it has held-out rows, or other validation data, begins from start
    values, has no deadline, and a run takes little time."""
    return plan.settings.look and can_compare(plan) and plan.spec.values["epochs"] > 1 and affordable(plan)


def look(plan: Plan) -> tuple[Plan, Looked]:
    """Return the plan with the kind, the solver, and the values of options that are better on its validation data, and
    with the epochs of a refit if there are several folds; and what was compared.

    Rivals come first, then the values of the best one, one after the other. Raises NotEnoughMemoryError.
    """
    trials: Sequence[TrialRecord] = ()
    if plan.other is not None and can_compare(plan):
        found = compare(plan)
        plan, trials = found.chosen.plan, found.trials
    plan, values = with_values(plan)
    return plan, Looked(trials, values)


def with_values(plan: Plan, deadline: float | None = None) -> tuple[Plan, list[Look]]:
    """Return the plan with better values of options, and what was tried; the plan as it is if the deadline passes."""
    found: list[Look] = []
    if not looks(plan):
        return plan, found
    with suppress(LateError):
        return tried_values(plan, found, Watch(deadline)), found
    return plan, found


def tried_values(plan: Plan, found: list[Look], watch: Watch) -> Plan:
    """Return the plan with better values of options; what was tried is added to `found`. Raises LateError."""
    tried, epochs = list(trials(plan)), epochs_of(plan)
    usual = Tried([plan], epochs, watch)
    if not tried and most_folds(plan) == 1:
        return plan
    usual.outcome(1)
    usual.plans = folds_of(plan, usual.epochs[0] if usual.epochs else epochs)
    budget = Budget(usual)
    for option, trial in tried:
        for path, errors in zip(paths(trial, usual.plans[0].spec.values[option]), trial.errors, strict=True):
            first = len(found)
            for value in path:
                if budget.left(0) < 1:
                    break
                other = Tried([with_value(fold, option, value) for fold in usual.plans], epochs, watch)
                found.append(compared(usual, other, option, errors, budget))
                if not found[-1].chosen:
                    break
                usual = other
                budget = Budget(usual)
            if len(found) > first and found[first].chosen:
                break
    return usual.plan()


class Tried:
    """Plans that differ in the rows that they hold out, and their runs, each of which is made when it is needed.

    most : how many epochs a run has at most.
    watch : ends the runs.
    epochs : how many each run had.
    """

    def __init__(self, plans: Sequence[Plan], most: int, watch: Watch | None = None) -> None:
        self.plans, self.most, self._watch = plans, most, watch
        self.epochs: list[int] = []
        self._best: list[float] = []
        self._outcomes: list[Outcome] = []
        self._diverged = False

    def outcome(self, folds: int, budget: Budget | None = None) -> Outcome | None:
        """Return that of the best epochs on the validation data of so many plans; None: training diverged.

        budget : limits the epochs of each run further.
        """
        while len(self._outcomes) < folds and not self._diverged:
            number = len(self._outcomes)
            self._train(self.plans[number], self.most if budget is None else min(self.most, budget.left(number)))
            if budget is not None:
                budget.spend(number, self.epochs[number:])
        if self._diverged:
            return None
        return self._outcomes[0] if folds == 1 else Outcome.concatenated(self._outcomes[:folds])

    def ended(self, fold: int) -> bool:
        """Return whether the run on a fold ended by itself, or failed."""
        return fold >= len(self._best) or math.isfinite(self._best[fold])

    def own(self, fold: int) -> int:
        """Return how many epochs the run on a fold and its refit have, as far as it is known."""
        if fold >= len(self.epochs):
            return LEAST_EPOCHS
        refitted = self._best[fold] if refits(self.plans[fold]) else 0
        return self.epochs[fold] + int(min(refitted, self.epochs[fold]))

    def _train(self, plan: Plan, most: int) -> None:
        """Train the model of a plan, for at most so many epochs."""
        assert plan.validation is not None
        spec = of_epochs(plan.spec, most)
        own = replace(plan, spec=spec, model=prepared_model(spec, plan.source, plan.transform, plan.warm_start))
        try:
            trained = train(own, observer=self._watch)
        except DivergedError:
            self._diverged = True
            return
        goes_on = len(trained.epochs) == most < plan.spec.values["epochs"]
        self.epochs.append(len(trained.epochs))
        self._best.append(math.inf if goes_on else trained.best)
        self._outcomes.append(plan.validation.outcome(own.model, draws=trained.earlier))

    def plan(self) -> Plan:
        """Return the plan of the run; of several folds, with the median of their best epochs for a refit, if it is
        known: half of the runs would have gone on otherwise."""
        first = self.plans[0]
        if len(self.plans) < 2 or self.outcome(len(self.plans)) is None:
            return first
        median = np.median(self._best)
        return replace(first, refit_epochs=int(median) or None) if math.isfinite(median) else first


class Budget:
    """The epochs that other values may have on each fold: as many as the usual run and its refit. It begins anew with a
    value that is taken, because a path of values may have to be followed to its end."""

    def __init__(self, usual: Tried) -> None:
        self._usual = usual
        self._spent: dict[int, int] = {}

    def left(self, fold: int) -> int:
        """Return how many epochs are left on a fold, whose usual run has been made."""
        return self._usual.own(fold) - self._spent.get(fold, 0)

    def spend(self, fold: int, epochs: Sequence[int]) -> None:
        """Count the epochs of a run; none of one that diverged."""
        self._spent[fold] = self._spent.get(fold, 0) + sum(epochs)


def compared(usual: Tried, other: Tried, option: str, errors: float, budget: Budget) -> Look:
    """Return the comparison of runs with another value of an option with the usual ones, on as many folds as it takes
    until the other one is clearly better, or is not better. errors : see Trial."""
    plan = usual.plans[0]
    assert plan.validation is not None
    metric = plan.validation.chooser
    for folds in range(1, len(usual.plans) + 1):
        before, outcome = usual.outcome(folds), None
        if budget.left(folds - 1) > 0:
            outcome = other.outcome(folds, budget)
        chosen = outcome is not None
        if outcome is None or before is None:
            break
        found = difference(metric, outcome, before, plan.settings.threads)
        chosen = -found.worse > errors * found.error
        if found.worse >= 0 or -found.worse > max(DECIDED, errors) * found.error:
            break
    return Look(
        option,
        value=other.plans[0].spec.values[option],
        usual=plan.spec.values[option],
        metric=metric,
        found=value_of(outcome, metric),
        before=value_of(before, metric),
        chosen=chosen,
        folds=folds,
    )


def folds_of(plan: Plan, epochs: int) -> list[Plan]:
    """Return the plan, and plans of the same run that hold out others of its rows: as many as take little time if each
    has so many epochs."""
    assert plan.validation is not None
    return fold_plans(plan, max(1, min(most_folds(plan), MOST_VISITS // max(1, epochs * work(plan)))))


def epochs_of(plan: Plan) -> int:
    """Return how many epochs the run of a value has at most on each fold."""
    asked: int = plan.spec.values["epochs"]
    return min(asked, max(LEAST_EPOCHS, MOST_VISITS // work(plan)))


def trials(plan: Plan) -> Iterator[tuple[str, Trial]]:
    """Yield options that were not given, and what to try. Those of linear weights, or of factors, need some."""
    spec, parts = plan.spec, parts_of(plan)
    for entry in (MODELS[spec.model], spec.solver_entry):
        for option, trial in entry.looks.items():
            if is_free(spec, option) and plan.source.all_rows >= trial.least_rows and parts.get(option[-2:], True):
                yield option, trial


def paths(trial: Trial, usual: Any) -> Iterator[list[Any]]:
    """Yield the values of each path of a trial."""
    for path in trial.paths:
        yield [type(usual)(value if trial.absolute else value * usual) for value in path]


def with_value(plan: Plan, option: str, value: Any) -> Plan:
    """Return the plan of the same run with another value of an option, which counts as given."""
    spec = replace(plan.spec, values={**plan.spec.values, option: value}, given=plan.spec.given | {option})
    return replace(plan, spec=spec, model=prepared_model(spec, plan.source, plan.transform, plan.warm_start))
