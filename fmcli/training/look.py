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
from fmcli.training.refit import AFFORDABLE, affordable, visits

if TYPE_CHECKING:
    from fmcli.data.training_rows import RowNumbers
    from fmcli.registry.entry import Trial

# Values are compared on several folds, in each of which other rows are held out, as many as the run holds out, until
# there are so many in all; on at most so many folds.
ENOUGH_HELD_OUT, MOST_FOLDS = 5_000, 5
# The run of a value has so many epochs at least, if it does not stop before, and more as long as those of all folds
# visit at most so many entries of a factor, or parameters. It is a count, so that the same data give the same choices.
LEAST_EPOCHS, MOST_VISITS = 20, 10**8


@dataclass(frozen=True)
class Look:
    """The result of a comparison.

    option, value : the other value that was tried.
    usual : the value of the plan.
    metric, found, before : the metric with the other value, and with the usual one; None: training diverged.
    chosen : whether the other value is better.
    folds : how many times other rows were held out.
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
    folds = folds_of(plan) if looks(plan) else []
    tried = list(trials(plan)) if folds else []
    if not tried and len(folds) < 2:
        return plan, found
    epochs = epochs_of(folds)
    usual = Tried.of(folds, epochs)
    for option, trial in tried:
        for path in paths(trial, usual.plans[0].spec.values[option]):
            first = len(found)
            for value in path:
                other = Tried.of([with_value(fold, option, value) for fold in usual.plans], epochs)
                found.append(compared(usual, other, option, trial.errors))
                if not found[-1].chosen:
                    break
                usual = other
            if found[first].chosen:
                break
    return usual.plan, found


@dataclass(frozen=True)
class Tried:
    """Plans that differ in the rows that they hold out, and their runs.

    outcome : of the best epoch of each plan on its validation data; None: training diverged.
    epochs : the median of the best epochs; 0 if some run would have gone on.
    """

    plans: Sequence[Plan]
    outcome: Outcome | None
    epochs: int = 0

    @classmethod
    def of(cls, plans: Sequence[Plan], most: int) -> Tried:
        """Train the model of each plan, for at most so many epochs."""
        outcomes, epochs, ended = [], [], True
        for plan in plans:
            assert plan.validation is not None
            spec = replace(plan.spec, values={**plan.spec.values, "epochs": most})
            own = replace(plan, spec=spec, model=prepared_model(spec, plan.source, plan.transform, plan.warm_start))
            try:
                trained = train(own)
            except DivergedError:
                return Tried(plans, None)
            epochs.append(trained.best)
            ended = ended and (len(trained.epochs) < most or most == plan.spec.values["epochs"])
            outcomes.append(plan.validation.outcome(own.model))
        outcome = outcomes[0] if len(outcomes) == 1 else Outcome.concatenated(outcomes)
        return Tried(plans, outcome, int(np.median(epochs)) if ended else 0)

    @property
    def plan(self) -> Plan:
        """The plan of the run; of several folds, with the epochs of a refit."""
        several = len(self.plans) > 1 and self.epochs > 0
        return replace(self.plans[0], refit_epochs=self.epochs) if several else self.plans[0]


def compared(usual: Tried, other: Tried, option: str, errors: float) -> Look:
    """Return the comparison of runs with another value of an option with the usual ones. errors : see Trial."""
    plan, outcome, before = usual.plans[0], other.outcome, usual.outcome
    assert plan.validation is not None
    metric, chosen = plan.validation.chooser, outcome is not None
    if outcome is not None and before is not None:
        found = difference(metric, outcome, before, plan.settings.threads)
        chosen = -found.worse > errors * found.error
    return Look(
        option,
        value=other.plans[0].spec.values[option],
        usual=plan.spec.values[option],
        metric=metric,
        found=value_of(outcome, metric),
        before=value_of(before, metric),
        chosen=chosen,
        folds=len(usual.plans),
    )


def folds_of(plan: Plan) -> list[Plan]:
    """Return the plan, and plans of the same run that hold out others of its rows: as many as take little time.

    Pairs and groups of rows, and validation data that are not held out, have none; nor have the last rows, because
    others would be predicted from rows after them.
    """
    validation, source = plan.validation, plan.source
    assert validation is not None
    independent = source.data.group is None and not plan.settings.holdout_last
    if type(source) is not TrainingRows or not independent or not validation.held_out:
        return [plan]
    size = validation.data.rows
    times = int(AFFORDABLE // work(plan))
    number = min(MOST_FOLDS, math.ceil(ENOUGH_HELD_OUT / size), times, source.all_rows // size)
    order = generator(plan.spec, FOLD_STREAM).permutation(source.rows)
    return [plan, *(holding_out(plan, order[size * fold : size * (fold + 1)]) for fold in range(number - 1))]


def work(plan: Plan) -> int:
    """Return by what the time of an epoch grows: where few rows have many features, copies of the parameters take more
    time than steps."""
    return visits(plan) + plan.model.parameter_count


def epochs_of(folds: Sequence[Plan]) -> int:
    """Return how many epochs the run of a value has at most on each fold."""
    asked: int = folds[0].spec.values["epochs"]
    return min(asked, max(LEAST_EPOCHS, MOST_VISITS // (len(folds) * work(folds[0]))))


def holding_out(plan: Plan, held: RowNumbers) -> Plan:
    """Return the plan of the same run that holds out these of its rows."""
    data, validation = plan.source.data, plan.validation
    assert validation is not None
    rows = np.delete(np.arange(data.rows, dtype=np.int32), held)
    source = TrainingRows(data, rows, plan.source.fields)
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
