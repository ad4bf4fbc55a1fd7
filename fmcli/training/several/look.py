"""A look before the run: options for which no constant suits all data are chosen by short runs on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.data.training_rows import TrainingRows
from fmcli.errors import BadInputError, DivergedError, NotEnoughMemoryError, UsageError
from fmcli.registry.models import MODELS
from fmcli.registry.specs import REFINES
from fmcli.registry.streams import FOLD_STREAM, generator
from fmcli.scoring.metrics import Outcome, measure, metric_of
from fmcli.scoring.paired import difference
from fmcli.training.job import train
from fmcli.training.planning import Plan, occurring, prepared_model
from fmcli.training.several.refit import affordable, refits, visits

if TYPE_CHECKING:
    from fmcli.data.training_rows import RowNumbers
    from fmcli.registry.entry import Trial
    from fmcli.registry.specs import Spec

# Values are compared on several folds, in each of which other rows are held out, as many as the run holds out, until
# there are so many in all; on at most so many folds. More rows to train on have one fold: there, they take time.
ENOUGH_HELD_OUT, MOST_FOLDS, ROWS_FOR_FOLDS = 5_000, 5, 5_000
# Other folds follow as long as another value is better, but by fewer standard errors of the difference than these.
DECIDED = 2.0
# The run of a value has so many epochs at least, if it does not stop before, and more as long as they visit at most so
# many entries of a factor, or parameters; no more folds follow than visit as many in all. It is a count, so that the
# same data give the same choices.
LEAST_EPOCHS, MOST_VISITS = 20, 10**8
# A parameter takes as long as so many entries: it is copied, or updated by few entries, where it waits for memory.
ENTRIES_A_PARAMETER = 4
# Rivals take at most so many times the work of the usual run.
MOST_TRAININGS = 10
# Another kind or solver is taken if it is better by more than so many standard errors: if its run ended by itself, if
# it would become still better, and if it would become much better, as a solver that samples does.
ERRORS_ENDED, ERRORS_LONGER, ERRORS_SAMPLED = 2.0, 1.0, 0.0


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
class Rival:
    """A kind of model and a solver that were compared with others.

    epochs : of its longest run; 0: none was possible.
    trainings : the work of all its runs, if that of the usual run and its refit is 1.
    value : the metric of the best epoch of its longest run; None: there is none.
    """

    model: str
    solver: str
    epochs: int
    trainings: float
    value: float | None
    chosen: bool


@dataclass(frozen=True)
class Looked:
    """What a look has found.

    rivals : kinds and solvers, the best one first, and the metric by which they were compared.
    values : the values of options that were tried.
    """

    rivals: Sequence[Rival] = ()
    metric: str = ""
    values: Sequence[Look] = ()


def looks(plan: Plan) -> bool:
    """Return whether a run looks at other values: it has held-out rows, or other validation data, begins from start
    values, has no deadline, and a run takes little time."""
    return plan.settings.look and can_compare(plan) and plan.spec.values["epochs"] > 1 and affordable(plan)


def can_compare(plan: Plan) -> bool:
    """Return whether other runs can be compared with that of a plan."""
    begins = plan.warm_start is None and plan.settings.deadline is None
    return begins and plan.validation is not None and plan.source.in_memory


def look(plan: Plan) -> tuple[Plan, Looked]:
    """Return the plan with the kind, the solver, and the values of options that are better on its validation data, and
    with the epochs of a refit if there are several folds; and what was compared.

    Rivals come first, then the values of the best one, one after the other. Raises NotEnoughMemoryError.
    """
    rivals: list[Rival] = []
    metric = ""
    if plan.other is not None and can_compare(plan):
        assert plan.validation is not None
        metric = plan.validation.chooser
        plan, rivals = best_rival(plan, plan.other)
    plan, values = with_values(plan)
    return plan, Looked(rivals, metric, values)


def best_rival(plan: Plan, other: Callable[[Spec], Plan]) -> tuple[Plan, list[Rival]]:
    """Return the plan of the best kind and solver, and what was compared.

    Solvers that sample have half of the work at least, because their first sweeps say little. other : see Plan.
    """
    usual = Entrant(plan)
    usual.train(plan.spec.values["epochs"])
    one = usual.tried.own(0) * work(plan)
    entrants = sorted(entrants_of(plan, other), key=lambda entrant: work(entrant.plan))
    samplers = [entrant for entrant in entrants if entrant.samples]
    left = MOST_TRAININGS * one - usual.spent
    left -= race([entrant for entrant in entrants if not entrant.samples], left // 2 if samplers else left)
    race(samplers, left)
    better = [entrant for entrant in entrants if entrant.better_than(usual, entrant.margin)]
    chosen = min(better, key=Entrant.rank, default=usual)
    for entrant in better:
        if entrant.margin == ERRORS_SAMPLED and not chosen.better_than(entrant, ERRORS_LONGER):
            chosen = entrant
    rivals = [
        Rival(each.plan.spec.model, each.plan.spec.solver, each.epochs, each.spent / one, each.value, each is chosen)
        for each in sorted([usual, *entrants], key=Entrant.rank)
    ]
    return chosen.plan, rivals


def race(entrants: Sequence[Entrant], work_left: int) -> int:
    """Train by successive halving (Jamieson and Talwalkar 2016), and return the work that it took.

    Each run may take an equal share of the work that is left when its turn comes. While some is left, the better half
    of those that have not ended by themselves are trained again, for longer.
    """
    left, staying = work_left, entrants
    while staying:
        for number, entrant in enumerate(staying):
            left -= entrant.train(left // (len(staying) - number) // work(entrant.plan))
        longer = [entrant for entrant in sorted(staying, key=Entrant.rank) if entrant.may_go_on(left)]
        staying = longer[: (len(longer) + 1) // 2] if len(staying) > 1 else []
    return work_left - left


class Entrant:
    """A kind and a solver in a comparison.

    spent : the work of its runs so far.
    ended : whether more epochs would change nothing.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.spent, self.ended = plan, 0, False
        self.tried = Tried([plan], 0)

    def train(self, epochs: int) -> int:
        """Train for so many epochs, unless an earlier run had as many or ended by itself. Return the work that it
        took."""
        epochs = min(epochs, self.plan.spec.values["epochs"])
        if self.ended or epochs <= self.epochs:
            return 0
        self.tried = Tried([self.plan], epochs)
        with suppress(NotEnoughMemoryError):
            self.tried.outcome(1)
        self.ended = self.tried.ended(0)
        took = (self.epochs or epochs) * work(self.plan)
        self.spent += took
        return took

    @property
    def samples(self) -> bool:
        return self.plan.spec.solver_entry.is_sampler

    @property
    def epochs(self) -> int:
        return self.tried.epochs[0] if self.tried.epochs else 0

    @property
    def value(self) -> float | None:
        """The choosing metric; None: there is none."""
        assert self.plan.validation is not None
        return value_of(self.tried.outcome(1), self.plan.validation.chooser) if self.epochs else None

    def rank(self) -> float:
        """Return a number that is smaller if it is better."""
        assert self.plan.validation is not None
        value = self.value
        if value is None or math.isnan(value):
            return math.inf
        return -value if metric_of(self.plan.validation.chooser).larger_is_better else value

    def may_go_on(self, left: int) -> bool:
        """Return whether a run with more epochs is possible with so much work left, and would differ."""
        return not self.ended and left // work(self.plan) > self.epochs

    @property
    def margin(self) -> float:
        """By how many standard errors it must be better than the usual run."""
        return ERRORS_ENDED if self.ended else ERRORS_SAMPLED if self.samples else ERRORS_LONGER

    def better_than(self, other: Entrant, errors: float) -> bool:
        """Return whether it is better by more than so many standard errors of the difference."""
        validation = self.plan.validation
        own, theirs = (one.tried.outcome(1) if one.epochs else None for one in (self, other))
        if own is None or theirs is None or validation is None:
            return self.rank() < other.rank()
        found = difference(validation.chooser, own, theirs, self.plan.settings.threads)
        return -found.worse > errors * found.error


def entrants_of(plan: Plan, other: Callable[[Spec], Plan]) -> Iterator[Entrant]:
    """Yield the rivals of a plan that its rows suit, and whose predictions are measured in the same way."""
    assert plan.validation is not None
    for spec in plan.settings.rivals:
        try:
            rival = other(spec)
        except (BadInputError, UsageError, NotEnoughMemoryError):
            continue
        same = (rival.spec.model, rival.spec.solver) == (plan.spec.model, plan.spec.solver)
        if rival.validation is not None and rival.validation.chooser == plan.validation.chooser and not same:
            yield Entrant(rival)


def with_values(plan: Plan) -> tuple[Plan, list[Look]]:
    """Return the plan with better values of options, and what was tried."""
    found: list[Look] = []
    if not looks(plan):
        return plan, found
    tried, epochs = list(trials(plan)), epochs_of(plan)
    usual = Tried([plan], epochs)
    if not tried and most_folds(plan) == 1:
        return plan, found
    usual.outcome(1)
    usual.plans = folds_of(plan, usual.epochs[0] if usual.epochs else epochs)
    budget = Budget(usual)
    for option, trial in tried:
        for path, errors in zip(paths(trial, usual.plans[0].spec.values[option]), trial.errors, strict=True):
            first = len(found)
            for value in path:
                if budget.left(0) < 1:
                    break
                other = Tried([with_value(fold, option, value) for fold in usual.plans], epochs)
                found.append(compared(usual, other, option, errors, budget))
                if not found[-1].chosen:
                    break
                usual = other
            if len(found) > first and found[first].chosen:
                break
    return usual.plan(), found


class Tried:
    """Plans that differ in the rows that they hold out, and their runs, each of which is made when it is needed.

    most : how many epochs a run has at most.
    epochs : how many each run had.
    """

    def __init__(self, plans: Sequence[Plan], most: int) -> None:
        self.plans, self.most = plans, most
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
            trained = train(own)
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
    """The epochs that other values may have on each fold: as many as the usual run and its refit."""

    def __init__(self, usual: Tried) -> None:
        self._usual = usual
        self._spent: dict[int, int] = {}

    def left(self, fold: int) -> int:
        """Return how many epochs are left on a fold, whose usual run has been made."""
        return self._usual.own(fold) - self._spent.get(fold, 0)

    def spend(self, fold: int, epochs: Sequence[int]) -> None:
        """Count the epochs of a run; none of one that diverged."""
        self._spent[fold] = self._spent.get(fold, 0) + sum(epochs)


def of_epochs(spec: Spec, epochs: int) -> Spec:
    """Return the spec of a run of at most so many epochs, whose burn-in, if it has one, is as large a share of them."""
    values = {**spec.values, "epochs": epochs}
    if "burn_in" in values and epochs < spec.values["epochs"]:
        values["burn_in"] = min(values["burn_in"], epochs // 2)
    return replace(spec, values=values)


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


def most_folds(plan: Plan) -> int:
    """Return on how many folds values can be compared.

    Many rows have one; so do pairs and groups of rows, and validation data that are not held out; and the last rows,
    because others would be predicted from rows after them.
    """
    validation, source = plan.validation, plan.source
    assert validation is not None
    independent = source.data.group is None and not plan.settings.hold_out.in_order
    few = source.all_rows <= ROWS_FOR_FOLDS
    if type(source) is not TrainingRows or not independent or not validation.held_out or not few:
        return 1
    size = validation.data.rows
    return min(MOST_FOLDS, math.ceil(ENOUGH_HELD_OUT / size), source.all_rows // size)


def folds_of(plan: Plan, epochs: int) -> list[Plan]:
    """Return the plan, and plans of the same run that hold out others of its rows: as many as take little time if each
    has so many epochs."""
    assert plan.validation is not None
    number = max(1, min(most_folds(plan), MOST_VISITS // max(1, epochs * work(plan))))
    size, order = plan.validation.data.rows, generator(plan.spec, FOLD_STREAM).permutation(plan.source.rows)
    return [plan, *(holding_out(plan, order[size * fold : size * (fold + 1)]) for fold in range(number - 1))]


def work(plan: Plan) -> int:
    """Return by what the time of an epoch grows."""
    one = visits(plan) + ENTRIES_A_PARAMETER * plan.model.parameter_count
    return round(MODELS[plan.spec.model].cost * plan.spec.solver_entry.cost * one)


def epochs_of(plan: Plan) -> int:
    """Return how many epochs the run of a value has at most on each fold."""
    asked: int = plan.spec.values["epochs"]
    return min(asked, max(LEAST_EPOCHS, MOST_VISITS // work(plan)))


def holding_out(plan: Plan, held: RowNumbers) -> Plan:
    """Return the plan of the same run that holds out these of its rows."""
    data, validation = plan.source.data, plan.validation
    assert validation is not None
    every = plan.source.all_numbers
    rows = every.compress(~np.isin(every, held))
    source = TrainingRows(data, rows, plan.source.fields, plan.source.every_row)
    seen, counts, transform = occurring(source, plan.transform, plan.settings)
    validated = replace(validation, data=data.take(np.sort(held)))
    return replace(plan, source=source, seen=seen, counts=counts, transform=transform, validation=validated)


def value_of(outcome: Outcome | None, metric: str) -> float | None:
    """Return a metric of an outcome, if there is one."""
    return None if outcome is None else measure([metric], outcome)[metric]


def trials(plan: Plan) -> Iterator[tuple[str, Trial]]:
    """Yield options that were not given, and what to try. Those of linear weights, or of factors, need some."""
    spec, layout = plan.spec, plan.model.layout
    parts = {"_w": any(one.weight and one.part == "w" and one.by_feature for one in layout)}
    parts["_v"] = any(one.penalty == "full" and (one.body or one.part == "v") for one in layout)
    for entry in (MODELS[spec.model], spec.solver_entry):
        for option, trial in entry.looks.items():
            given = spec.given & {option, REFINES.get(option, option)}
            if not given and plan.source.all_rows >= trial.least_rows and parts.get(option[-2:], True):
                yield option, trial


def paths(trial: Trial, usual: Any) -> Iterator[list[Any]]:
    """Yield the values of each path of a trial."""
    for path in trial.paths:
        yield [type(usual)(value if trial.absolute else value * usual) for value in path]


def with_value(plan: Plan, option: str, value: Any) -> Plan:
    """Return the plan of the same run with another value of an option, which counts as given."""
    spec = replace(plan.spec, values={**plan.spec.values, option: value}, given=plan.spec.given | {option})
    return replace(plan, spec=spec, model=prepared_model(spec, plan.source, plan.transform, plan.warm_start))
