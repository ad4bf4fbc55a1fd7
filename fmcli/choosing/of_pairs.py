"""The weight of all pairs and the strength of penalties, chosen on held-out pairs before a run on observed pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fmcli.choosing.plans import can_compare, is_free, terms_of
from fmcli.choosing.quick_search import TriedValue
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.errors import DivergedError
from fmcli.training.job import train
from fmcli.training.planning import Plan, with_options
from fmcli.training.prepared import prepared_model

WEIGHT, FACTORS = "unseen_weight", "l2_v"
# What values are multiplied by, as long as each is better than the one before. With a very strong penalty of factors,
# the model is the most popular items.
PATHS = ((WEIGHT, (5.0, 5.0)), (WEIGHT, (0.2, 0.2)), (FACTORS, (10.0, 10.0, 10.0)), (FACTORS, (0.1, 0.1)))


class Reached(NamedTuple):
    """A run, with its pairs, and the metric that chooses its epoch; None: training diverged."""

    plan: Plan
    pairs: ObservedRows
    value: float | None

    def of(self, option: str) -> float:
        """Return the value of an option."""
        return self.pairs.terms.unseen_weight if option == WEIGHT else float(self.plan.spec.values[option])

    def changed(self, option: str, value: float) -> Reached:
        """Return the run with another value, trained."""
        if option == WEIGHT:
            pairs = self.pairs.weighing(value)
            return reached(replace(self.plan, source=pairs), pairs)
        return reached(with_options(self.plan, {option: value}), self.pairs)

    def better_than(self, other: Reached) -> bool:
        """Return whether the metric is better."""
        validation = self.plan.validation
        assert validation is not None
        return self.value is not None and (other.value is None or validation.better(self.value, other.value))

    def fresh(self) -> Plan:
        """Return the plan of the run, with a model that is not trained."""
        plan = self.plan
        return replace(plan, model=prepared_model(plan.spec, plan.source, plan.transform, plan.warm_start))


def with_pair_options(plan: Plan) -> tuple[Plan, list[TriedValue]]:
    """Return the plan of a run on observed pairs with better values of options, and what was tried; of other runs,
    nothing."""
    source, validation = plan.source, plan.validation
    if not isinstance(source, ObservedRows) or source.terms.negatives or validation is None or not can_compare(plan):
        return plan, []
    open_to = {WEIGHT: not source.terms.is_given, FACTORS: terms_of(plan)["_v"] and is_free(plan.spec, FACTORS)}
    if not plan.settings.quick_search or plan.spec.values["epochs"] <= 1 or not any(open_to.values()):
        return plan, []
    best, found, taken = reached(plan, source), list[TriedValue](), set[str]()
    for option, path in PATHS:
        if option in taken or not open_to[option]:
            continue
        for factor in path:
            usual = best.of(option)
            other = best.changed(option, factor * usual)
            chosen = other.better_than(best)
            values = usual, validation.chooser, other.value, best.value
            found.append(TriedValue({option: other.of(option)}, *values, chosen, folds=1))
            if not chosen:
                break
            best = other
            taken.add(option)
    return best.fresh(), found


def reached(plan: Plan, pairs: ObservedRows) -> Reached:
    """Return a run, trained with a model of its own."""
    run = Reached(plan, pairs, None)
    try:
        trained = train(run.fresh())
    except DivergedError:
        return run
    validation = plan.validation
    assert validation is not None
    return run._replace(value=trained.epochs[trained.best - 1].valid[validation.chooser])
