"""A look before the run: options for which no constant suits all data are chosen by short runs on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.data.training_rows import TrainingRows
from fmcli.errors import DivergedError
from fmcli.registry.models import MODELS
from fmcli.registry.specs import REFINES
from fmcli.registry.streams import FOLD_STREAM, generator
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.paired import difference
from fmcli.training.job import train
from fmcli.training.planning import Plan, occurring, prepared_model
from fmcli.training.refit import affordable, visits

if TYPE_CHECKING:
    from fmcli.data.training_rows import RowNumbers
    from fmcli.registry.entry import Trial

# Values are compared on several folds, in each of which other rows are held out, as many as the run holds out, until
# there are so many in all; on at most so many folds.
ENOUGH_HELD_OUT, MOST_FOLDS = 5_000, 5
# Other folds follow as long as another value is better, but by fewer standard errors of the difference than these.
DECIDED = 2.0
# The run of a value has so many epochs at least, if it does not stop before, and more as long as they visit at most so
# many entries of a factor, or parameters; no more folds follow than visit as many in all. It is a count, so that the
# same data give the same choices. Another value has no more than so many times the epochs of the usual one.
LEAST_EPOCHS, MOST_VISITS, MOST_TIMES = 20, 10**8, 4
# A parameter takes as long as so many entries: it is copied, or updated by few entries, where it waits for memory; and
# an entry so many times as long if a solver does not go row by row.
ENTRIES_A_PARAMETER, TIMES_BY_COLUMNS = 4, 4


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


def looks(plan: Plan) -> bool:
    """Return whether a run looks: it has held-out rows, or other validation data, begins from start values, has no
    deadline, and a run takes little time."""
    settings = plan.settings
    return (
        settings.look
        and plan.validation is not None
        and plan.warm_start is None
        and settings.deadline is None
        and plan.spec.values["epochs"] > 1
        and plan.source.in_memory
        and affordable(plan)
    )


def look(plan: Plan) -> tuple[Plan, list[Look]]:
    """Return the plan with the values of options that are better on its validation data, and with the epochs of a refit
    if there are several folds; and what was compared.

    The values are tried one after the other. Raises NotEnoughMemoryError.
    """
    found: list[Look] = []
    if not looks(plan):
        return plan, found
    tried, epochs = list(trials(plan)), epochs_of(plan)
    usual = Tried([plan], epochs)
    if not tried and most_folds(plan) == 1:
        return plan, found
    usual.outcome(1)
    usual.plans = folds_of(plan, usual.epochs[0] if usual.epochs else epochs)
    for option, trial in tried:
        for path, errors in zip(paths(trial, usual.plans[0].spec.values[option]), trial.errors, strict=True):
            first = len(found)
            for value in path:
                other = Tried([with_value(fold, option, value) for fold in usual.plans], epochs)
                found.append(compared(usual, other, option, errors))
                if not found[-1].chosen:
                    break
                usual = other
            if found[first].chosen:
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

    def outcome(self, folds: int, limits: Sequence[int] = ()) -> Outcome | None:
        """Return that of the best epochs on the validation data of so many plans; None: training diverged.

        limits : further limits on the epochs of each run.
        """
        while len(self._outcomes) < folds and not self._diverged:
            number = len(self._outcomes)
            self._train(self.plans[number], min([self.most, *limits[number : number + 1]]))
        if self._diverged:
            return None
        return self._outcomes[0] if folds == 1 else Outcome.concatenated(self._outcomes[:folds])

    def _train(self, plan: Plan, most: int) -> None:
        """Train the model of a plan, for at most so many epochs."""
        assert plan.validation is not None
        spec = replace(plan.spec, values={**plan.spec.values, "epochs": most})
        own = replace(plan, spec=spec, model=prepared_model(spec, plan.source, plan.transform, plan.warm_start))
        try:
            trained = train(own)
        except DivergedError:
            self._diverged = True
            return
        goes_on = len(trained.epochs) == most < plan.spec.values["epochs"]
        self.epochs.append(len(trained.epochs))
        self._best.append(math.inf if goes_on else trained.best)
        self._outcomes.append(plan.validation.outcome(own.model))

    def plan(self) -> Plan:
        """Return the plan of the run; of several folds, with the median of their best epochs for a refit, if it is
        known: half of the runs would have gone on otherwise."""
        first = self.plans[0]
        if len(self.plans) < 2 or self.outcome(len(self.plans)) is None:
            return first
        median = np.median(self._best)
        return replace(first, refit_epochs=int(median) or None) if math.isfinite(median) else first


def compared(usual: Tried, other: Tried, option: str, errors: float) -> Look:
    """Return the comparison of runs with another value of an option with the usual ones, on as many folds as it takes
    until the other one is clearly better, or is not better. errors : see Trial."""
    plan = usual.plans[0]
    assert plan.validation is not None
    metric = plan.validation.chooser
    for folds in range(1, len(usual.plans) + 1):
        before = usual.outcome(folds)
        outcome = other.outcome(folds, [max(LEAST_EPOCHS, MOST_TIMES * epochs) for epochs in usual.epochs])
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

    Pairs and groups of rows, and validation data that are not held out, have one; and the last rows, because others
    would be predicted from rows after them.
    """
    validation, source = plan.validation, plan.source
    assert validation is not None
    independent = source.data.group is None and not plan.settings.hold_out.in_order
    if type(source) is not TrainingRows or not independent or not validation.held_out:
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
    return one if plan.spec.by_rows else TIMES_BY_COLUMNS * one


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
