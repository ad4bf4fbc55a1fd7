"""The weight of all pairs and the strength of penalties, chosen on held-out pairs before a run on observed pairs."""

from __future__ import annotations

from dataclasses import replace

from fmcli.choosing.plans import can_compare, is_free, terms_of
from fmcli.choosing.quick_search import TriedValue
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.errors import DivergedError
from fmcli.training.job import train
from fmcli.training.planning import Plan, of_run
from fmcli.training.prepared import prepared_model

WEIGHT, FACTORS = "unseen_weight", "l2_v"
# What values are multiplied by, as long as each is better than the one before. With a very strong penalty of factors,
# the model is the most popular items.
PATHS = ((WEIGHT, (5.0, 5.0)), (WEIGHT, (0.2, 0.2)), (FACTORS, (10.0, 10.0, 10.0)), (FACTORS, (0.1, 0.1)))


def with_pair_options(plan: Plan) -> tuple[Plan, list[TriedValue]]:
    """Return the plan of a run on observed pairs with better values of options, and what was tried; of other runs,
    nothing."""
    source, validation = plan.source, plan.validation
    if not isinstance(source, ObservedRows) or source.terms.negatives or validation is None or not can_compare(plan):
        return plan, []
    open_to = {WEIGHT: not source.terms.is_given, FACTORS: terms_of(plan)["_v"] and is_free(plan.spec, FACTORS)}
    if not plan.settings.quick_search or plan.spec.values["epochs"] <= 1 or not any(open_to.values()):
        return plan, []
    best, value, found = plan, reached(plan), list[TriedValue]()
    usual = {WEIGHT: source.terms.unseen_weight, FACTORS: plan.spec.values.get(FACTORS, 0.0)}
    taken = dict(usual)
    for option, path in PATHS:
        if taken[option] != usual[option] or not open_to[option]:
            continue
        for factor in path:
            tried = {option: factor * taken[option]}
            other = changed(best, option, tried[option])
            now = reached(other)
            chosen = now is not None and (value is None or validation.better(now, value))
            found.append(TriedValue(tried, taken[option], validation.chooser, now, value, chosen, folds=1))
            if not chosen:
                break
            best, value = other, now
            taken |= tried
    return untrained(best), found


def changed(plan: Plan, option: str, value: float) -> Plan:
    """Return the plan with another value of an option."""
    if option == WEIGHT:
        assert isinstance(plan.source, ObservedRows)
        return replace(plan, source=plan.source.weighing(value))
    spec = replace(plan.spec, values={**plan.spec.values, option: value}, given=plan.spec.given | {option})
    return of_run(replace(plan, spec=spec), plan)


def untrained(plan: Plan) -> Plan:
    """Return the plan with a model that is not trained."""
    return replace(plan, model=prepared_model(plan.spec, plan.source, plan.transform, plan.warm_start))


def reached(plan: Plan) -> float | None:
    """Return the metric that chooses the epoch of a run, trained with a model of its own; None: training diverged."""
    try:
        trained = train(untrained(plan))
    except DivergedError:
        return None
    assert plan.validation is not None
    return trained.epochs[trained.best - 1].valid[plan.validation.chooser]
