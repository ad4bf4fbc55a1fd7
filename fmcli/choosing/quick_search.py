"""The quick search before a run: short runs on held-out rows choose options for which no default suits all data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.choosing.budget import epochs_of, have_most_features
from fmcli.choosing.candidates import Candidate, SearchLimits
from fmcli.choosing.plans import can_compare, fold_plans, is_free, number_of_folds, terms_of, thinned
from fmcli.choosing.runs import LateError, Room
from fmcli.records import dataclass
from fmcli.registry.derived import MOST_VISITS as MOST_VISITS_OF_RUN
from fmcli.registry.models import MODELS
from fmcli.training.planning import STRENGTHS, Plan, multiples_of, with_options
from fmcli.training.prepared import prepared_model
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
    """Return whether usual penalties are so many times one over the number of rows: those of solvers by columns.

    As many times suit all rows and a subset of them, but for a bias to stronger penalties: on 320,000 ratings, where
    usual ones suffice, three of five kinds took stronger ones on a subset, by which two had an RMSE that was .3 and .8
    % larger. So a subset is searched only if the penalties of all rows, which are weaker on it by its share, make the
    model worse than a constant within an epoch: on clicks they do, and logarithmic losses fall by 4 to 22 %.
    """
    return plan.source.in_memory and not plan.spec.by_rows and not plan.spec.solver_entry.is_sampler


def with_values(plan: Plan, deadline: float | None = None) -> tuple[Plan, list[TriedValue]]:
    """Return the plan with better values of options, and what was tried; the plan as it is if the deadline passes."""
    found: list[TriedValue] = []
    if not searches(plan):
        return plan, found
    with suppress(LateError):
        return tried_values(plan, found, SearchLimits(deadline=deadline, room=Room(0))), found
    return plan, found


def tried_values(plan: Plan, found: list[TriedValue], limits: SearchLimits) -> Plan:
    """Return the plan with better values of options; what was tried is added to `found`. Raises LateError."""
    share = share_of(plan)
    subset = plan if share == 1 else thinned(plan, share)
    rows = 0 if share == 1 else subset.source.count
    tried, most = list(trials(plan)), epochs_of(subset)
    if not tried and number_of_folds(plan) == 1:
        return plan
    if rows:
        first_epoch = Candidate([subset], limits=limits)  # with the penalties of all rows
        first_epoch.first(1, lambda fold: 1)
        if not first_epoch.runs[0].is_worse_than_constant:
            return plan
        subset = with_options(subset, {})
    best = Candidate([subset], limits=limits)
    best.first(1, lambda fold: most)
    best.add(fold_plans(subset, number_of_folds(plan, best.runs[0].epochs or most))[1:])
    for option, trial in tried:
        of_part, of_all = (paths(trial, one.spec.values[option]) for one in (best.plan, plan))
        before, others = best, list[Candidate]()
        for path, own, errors in zip(of_part, of_all, trial.errors, strict=True):
            for value, on_all in zip(path, own, strict=True):
                if left(best, others, 0) < 1:
                    break
                others.append(Candidate([with_value(fold, option, value) for fold in best.plans], limits=limits))
                one = compared(best, others, option, errors, most)
                found.append(replace(one, value=on_all, usual=plan.spec.values[option], rows=rows))
                if not one.chosen:
                    break
                best, others, plan = others[-1], [], with_value(plan, option, on_all)
            if best is not before:
                break
    epochs = refit_epochs_of(best, most)
    return plan if epochs is None else replace(plan, refit_epochs=epochs)


def left(best: Candidate, others: Sequence[Candidate], fold: int) -> int:
    """Return how many epochs on a fold one training of the best values leaves to others, after those that some have."""
    taken: int = sum(other.runs[fold].epochs for other in others)
    return best.one_training(fold) - taken


def refit_epochs_of(best: Candidate, most: int) -> int | None:
    """Return the median of the best epochs on several folds, for a refit, if it is known: half of the runs would have
    gone on otherwise."""
    if (folds := len(best.runs)) < 2:
        return None
    best.first(folds, lambda fold: most)
    ended = not best.failed and all(run.ended for run in best.runs)
    return int(np.median([run.best for run in best.runs])) or None if ended else None


def compared(best: Candidate, others: Sequence[Candidate], option: str, errors: float, most: int) -> TriedValue:
    """Return the comparison of the last one of other values of an option with the best one so far, on as many folds as
    it takes until the other one is clearly better, or is not better. Together, the others have one training.

    errors : see Trial; most : how many epochs a run has at most.
    """
    other = others[-1]
    for folds in range(1, len(best.runs) + 1):
        best.first(folds, lambda fold: most)
        if left(best, others, folds - 1) < 1:
            chosen = False
            break
        other.first(folds, lambda fold: min(most, left(best, others, fold)))
        chosen, is_clear = other.judged(best, errors, folds)
        if is_clear:
            break
    value, usual = (one.plan.spec.values[option] for one in (other, best))
    found, before = other.reached.value, best.reached.value
    return TriedValue(option, value, usual, other.chooser, found, before, chosen, folds)


def trials(plan: Plan) -> Iterator[tuple[str, Trial]]:
    """Yield options that were not given, and what to try: what the kind says, and for others the solver. Those of
    linear weights, or of factors, need some; on a subset of the rows, they are penalties."""
    spec, terms, whole = plan.spec, terms_of(plan), affordable(plan)

    def suits(option: str, trial: Trial) -> bool:
        has_terms = option in spec.values and terms.get(option[-2:], True) and (whole or option in STRENGTHS)
        enough = plan.source.all_rows >= trial.least_rows and (not trial.dense or is_small_and_dense(plan))
        return has_terms and is_free(spec, option) and enough

    kind = MODELS[spec.model].tries
    tried = {**kind, **spec.solver_entry.tries, **kind}  # those of the kind first
    yield from ((option, trial) for option, trial in tried.items() if suits(option, trial))


def is_small_and_dense(plan: Plan) -> bool:
    """Return whether rows have most features, and a run with twice the work takes no more than any may."""
    work = 2 * plan.spec.values["epochs"] * plan.facts["nonzeros"] * rank_of(plan.spec)
    return work <= MOST_VISITS_OF_RUN and have_most_features(plan)


def paths(trial: Trial, usual: Any) -> Iterator[list[Any]]:
    """Yield the values of each path of a trial."""
    for path in trial.paths:
        yield [type(usual)(value if trial.absolute else value * usual) for value in path]


def with_value(plan: Plan, option: str, value: Any) -> Plan:
    """Return the plan of the same run with another value of an option, which counts as given."""
    values, given = {**plan.spec.values, option: value}, plan.spec.given | {option}
    multiples = {**plan.spec.multiples, **multiples_of(plan, {option: value})}
    spec = replace(plan.spec, values=values, given=given, multiples=multiples)
    return replace(plan, spec=spec, model=prepared_model(spec, plan.source, plan.transform, plan.warm_start))
