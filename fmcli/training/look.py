"""A look before the run: options for which no constant suits all data are chosen by short runs on the held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fmcli.errors import DivergedError
from fmcli.registry.models import MODELS
from fmcli.registry.specs import REFINES
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.paired import difference
from fmcli.training.job import train
from fmcli.training.planning import Plan, prepared_model
from fmcli.training.refit import affordable

# Another value is chosen if the metric is better by so many standard errors of the difference.
LEAST_ERRORS = 1.0


@dataclass(frozen=True)
class Look:
    """The result of a comparison.

    option, value : the other value that was tried.
    usual : the value of the plan.
    metric, found, before : the metric with the other value, and with the usual one; None: training diverged.
    chosen : whether the other value is better.
    """

    option: str
    value: Any
    usual: Any
    metric: str
    found: float | None
    before: float | None
    chosen: bool


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
    """Return the plan with the values of options that are better on its validation data, and what was compared.

    The values are tried one after the other. Raises NotEnoughMemoryError.
    """
    found: list[Look] = []
    before: Outcome | None = None
    for option, value in alternatives(plan) if looks(plan) else ():
        assert plan.validation is not None
        metric, usual = plan.validation.chooser, plan.spec.values[option]
        before = before if found else outcome_of(plan)
        other = with_value(plan, option, value)
        outcome = outcome_of(other)
        if outcome is None or before is None:
            chosen = outcome is not None
        else:
            compared = difference(metric, outcome, before, plan.settings.threads)
            chosen = -compared.worse > LEAST_ERRORS * compared.error
        found.append(Look(option, value, usual, metric, value_of(outcome, metric), value_of(before, metric), chosen))
        if chosen:
            plan, before = other, outcome
    return plan, found


def value_of(outcome: Outcome | None, metric: str) -> float | None:
    """Return a metric of an outcome, if there is one."""
    return None if outcome is None else measure([metric], outcome)[metric]


def alternatives(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Yield options that were not given, and other values for them. Those of linear weights need some."""
    spec = plan.spec
    has_weights = any(layout.weight and layout.part == "w" and layout.by_feature for layout in plan.model.layout)
    for entry in (MODELS[spec.model], spec.solver_entry):
        for option, factor in entry.looks.items() if plan.source.all_rows >= entry.looks_from else ():
            usual, given = spec.values.get(option), spec.given & {option, REFINES.get(option, option)}
            if usual and not given and (has_weights or not option.endswith("_w")):
                yield option, type(usual)(factor * usual)


def with_value(plan: Plan, option: str, value: Any) -> Plan:
    """Return the plan of the same run with another value of an option, which counts as given."""
    spec = replace(plan.spec, values={**plan.spec.values, option: value}, given=plan.spec.given | {option})
    return replace(plan, spec=spec, model=prepared_model(spec, plan.source, plan.transform, plan.warm_start))


def outcome_of(plan: Plan) -> Outcome | None:
    """Return the best epoch's outcome on the validation data; None if training diverges."""
    assert plan.validation is not None
    own = replace(plan, model=prepared_model(plan.spec, plan.source, plan.transform, plan.warm_start))
    try:
        train(own)
    except DivergedError:
        return None
    return plan.validation.outcome(own.model)
