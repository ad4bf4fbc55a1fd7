"""The quick search before a run: short runs on held-out rows choose options for which no default suits all data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.base.rules import COUNT, TABLE, is_number
from fmcli.choosing.candidates import Candidate, SearchLimits, TrialRecord
from fmcli.choosing.plans import can_compare, fold_plans, is_free, most_folds, terms_of, thinned
from fmcli.choosing.runs import LateError, Room, value_of, work
from fmcli.choosing.search import Search, Tuning, compare
from fmcli.records import dataclass
from fmcli.registry.derived import MOST_VISITS as MOST_VISITS_OF_RUN
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.scoring.metrics import Outcome, metric_of
from fmcli.scoring.paired import difference
from fmcli.training.account import MemoryNeed
from fmcli.training.planning import STRENGTHS, Plan, multiples_of, with_options
from fmcli.training.prepared import prepared_model
from fmcli.training.setup.fitting import are_dense
from fmcli.training.setup.settings import rank_of
from fmcli.training.setup.strata import ENOUGH_OF_CLASS
from fmcli.training.several.ensemble import memory_of
from fmcli.training.several.refit import affordable, refits, share_of

if TYPE_CHECKING:
    from fmcli.registry.entry import Trial
    from fmcli.training.checkpoint import Checkpointer
    from fmcli.training.validation import Validation

# Other folds follow as long as another value is better, but by fewer standard errors of the difference than DECIDED; if
# the better one of two is taken whatever the error, also as long as it is worse by fewer than UNDECIDED.
DECIDED, UNDECIDED = 2.0, 1.0
# The run of a value has so many epochs at least, if it does not stop before, and more as long as they visit at most so
# many entries of a factor, or parameters; no more folds follow than visit as many in all. Sparse rows have more folds:
# there, models overfit within a few epochs, whose number is chosen badly on a single fold. It is a count, so that the
# same data give the same choices.
LEAST_EPOCHS, MOST_VISITS, VISITS_OF_SPARSE = 20, 10**8, 4 * 10**8


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


@dataclass(frozen=True)
class QuickSearch:
    """The result of a quick search.

    trials : of kinds and solvers, the best one first.
    values : the values of options that were tried.
    kept : the values that an earlier process chose, whose run continues; None: this process has searched.
    """

    trials: Sequence[TrialRecord] = ()
    values: Sequence[TriedValue] = ()
    kept: Mapping[str, Any] | None = None


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


def searched_once(plan: Plan, keeper: Checkpointer) -> tuple[Plan, QuickSearch]:
    """`quick_search`, whose choices the keeper keeps; if it has those of an earlier process, their plan without a run.

    Raises NotEnoughMemoryError, and BadInputError if what was kept is not valid.
    """
    if keeper.choices is not None:
        with keeper.checking():
            return with_choices(plan, keeper.choices)
    plan, searched = quick_search(plan)
    values = {one.option: one.value for one in searched.values if one.chosen}
    alternative = sum(trial.number for trial in searched.trials if trial.chosen)
    keeper.choices = {"alternative": alternative, "options": values, "refit_epochs": plan.refit_epochs or 0}
    return plan, searched


def with_choices(plan: Plan, choices: Mapping[str, Any]) -> tuple[Plan, QuickSearch]:
    """Return the plan with the choices of a quick search, as `searched_once` keeps them. Those that do not suit it, or
    that are given now, are left out: the plan is that of another run then, and the keeper refuses it.

    Raises ValueError if they are not valid.
    """
    rules = {"alternative": COUNT, "options": TABLE, "refit_epochs": COUNT}
    valid = type(choices) is dict and choices.keys() == rules.keys()
    if not valid or not all(rule.holds(choices[name]) for name, rule in rules.items()):
        raise ValueError("it does not say what was chosen before the run")
    alternative, alternatives, epochs = choices["alternative"], plan.settings.alternatives, plan.spec.values["epochs"]
    if plan.other and 0 < alternative <= len(alternatives):
        plan = plan.other(alternatives[alternative - 1])
    usual, values = plan.spec.values, choices["options"]
    for option, value in values.items():
        is_one = is_number(value) and type(value) is type(usual.get(option)) and OPTIONS[option].permits(value)
        if is_one and plan.settings.quick_search and is_free(plan.spec, option):
            plan = with_value(plan, option, value)
    return replace(plan, refit_epochs=min(choices["refit_epochs"], epochs) or None), QuickSearch(kept=values)


def quick_search(plan: Plan) -> tuple[Plan, QuickSearch]:
    """Return the plan with the kind, the solver, and the values of options that are better on its validation data, and
    with the epochs of a refit if there are several folds; and what was compared.

    Rivals come first, then the values of the best one, one after the other. Raises NotEnoughMemoryError.
    """
    trials: Sequence[TrialRecord] = ()
    if plan.other is not None and can_compare(plan):
        found = compare(plan, Tuning(folds=folds_of_alternatives(plan)))
        plan, trials = found.chosen.plan, found.trials
    plan, values = with_values(plan)
    return plan, QuickSearch(trials, values)


def memory_of_whole(plan: Plan, members: int) -> MemoryNeed:
    """Return the memory that a quick search and then a run of `members` members need."""
    need = memory_of(plan, members)
    if plan.other is None or not can_compare(plan):
        return need
    search = Search(plan, Tuning(folds=folds_of_alternatives(plan)))
    chosen = [memory_of(candidate.plan, members) for candidate in search.contenders]
    most = max(one.total - one.held for one in chosen)
    return need.or_of(search.memory).or_of(MemoryNeed(search.memory.held + most, search.memory.held))


def with_values(plan: Plan, deadline: float | None = None) -> tuple[Plan, list[TriedValue]]:
    """Return the plan with better values of options, and what was tried; the plan as it is if the deadline passes."""
    found: list[TriedValue] = []
    if not searches(plan):
        return plan, found
    with suppress(LateError):
        return tried_values(plan, found, SearchLimits(deadline=deadline, room=Room(0))), found
    return plan, found


def tried_values(plan: Plan, found: list[TriedValue], conduct: SearchLimits) -> Plan:
    """Return the plan with better values of options; what was tried is added to `found`. Raises LateError."""
    share = share_of(plan)
    subset = plan if share == 1 else thinned(plan, share)
    rows = 0 if share == 1 else subset.source.count
    tried, most = list(trials(plan)), epochs_of(subset)
    if not tried and (rows or most_folds(plan) == 1):
        return plan
    if rows:
        first_epoch = Candidate([subset], conduct=conduct)  # with the penalties of all rows
        first_epoch.first(1, lambda fold: 1)
        if not first_epoch.runs[0].is_worse_than_constant:
            return plan
        subset = with_options(subset, {})
    usual = Candidate([subset], conduct=conduct)
    usual.first(1, lambda fold: most)
    if not rows:
        usual.add(folds_of(plan, usual.runs[0].epochs or most)[1:])
    for option, trial in tried:
        budget = Budget(usual, most)
        of_part, of_all = (paths(trial, one.spec.values[option]) for one in (usual.plan, plan))
        for path, own, errors in zip(of_part, of_all, trial.errors, strict=True):
            first = len(found)
            for value, on_all in zip(path, own, strict=True):
                if budget.left(0) < 1:
                    break
                other = Candidate([with_value(fold, option, value) for fold in usual.plans], conduct=conduct)
                one = compared(budget, other, option, errors)
                found.append(replace(one, value=on_all, usual=plan.spec.values[option], rows=rows))
                if not one.chosen:
                    break
                usual, budget, plan = other, Budget(other, most), with_value(plan, option, on_all)
            if len(found) > first and found[first].chosen:
                break
    epochs = refit_epochs_of(usual, most)
    return plan if epochs is None else replace(plan, refit_epochs=epochs)


def refit_epochs_of(usual: Candidate, most: int) -> int | None:
    """Return the median of the best epochs on several folds, for a refit, if it is known: half of the runs would have
    gone on otherwise."""
    folds = len(usual.runs)
    if folds < 2 or usual.first(folds, lambda fold: most) is None or not all(run.ended for run in usual.runs):
        return None
    return int(np.median([run.best for run in usual.runs])) or None


class Budget:
    """The epochs that other values of an option may have on each fold: as many as the usual run and its refit, and at
    least LEAST_EPOCHS, because a run that overfits within few epochs is compared with others that learn slowly. It
    begins anew with a value that is taken, because a path of values may have to be followed to its end.

    most : how many epochs a run has at most.
    """

    def __init__(self, usual: Candidate, most: int) -> None:
        self.usual, self.most = usual, most
        self._others: list[Candidate] = []

    def left(self, fold: int) -> int:
        """Return how many epochs are left on a fold, whose usual run has been made."""
        run = self.usual.runs[fold]
        refitted = (run.best if run.ended else run.epochs) if refits(run.plan) else 0
        own = max(LEAST_EPOCHS, run.epochs + refitted)
        return own - sum(other.runs[fold].epochs for other in self._others)

    def outcome(self, other: Candidate, folds: int) -> Outcome | None:
        """Return the outcome of another value on the first folds; None: training failed."""
        if other not in self._others:
            self._others.append(other)
        return other.first(folds, lambda fold: min(self.most, self.left(fold)))


def compared(budget: Budget, other: Candidate, option: str, errors: float) -> TriedValue:
    """Return the comparison of runs with another value of an option with the usual ones, on as many folds as it takes
    until the other one is clearly better, or is not better. errors : see Trial; 0 if the usual run learns nothing."""
    usual, plan, metric = budget.usual, budget.usual.plan, other.chooser
    for folds in range(1, len(usual.runs) + 1):
        before, outcome = usual.first(folds, lambda fold: budget.most), None
        if budget.left(folds - 1) > 0:
            outcome = budget.outcome(other, folds)
        chosen = outcome is not None
        if outcome is None or before is None:
            break
        errors = errors if usual.runs[0].learned else 0.0
        found = difference(metric, outcome, before, plan.settings.threads)
        chosen = found.better_by(errors)
        worst = 0.0 if errors else UNDECIDED * found.error
        if found.worse >= worst or -found.worse > max(DECIDED, errors) * found.error:
            break
    return TriedValue(
        option,
        value=other.plan.spec.values[option],
        usual=plan.spec.values[option],
        metric=metric,
        found=value_of(outcome, metric),
        before=value_of(before, metric),
        chosen=chosen,
        folds=folds,
    )


def folds_of_alternatives(plan: Plan) -> int:
    """Return on how many folds other kinds and solvers are compared: as values of options are."""
    return number_of_folds(plan, LEAST_EPOCHS)


def folds_of(plan: Plan, epochs: int) -> list[Plan]:
    """Return the plan, and plans of the same run that hold out others of its rows: as many as take little time if each
    has so many epochs."""
    return fold_plans(plan, number_of_folds(plan, epochs))


def number_of_folds(plan: Plan, epochs: int) -> int:
    """Return how many of these plans there are; one if there is no quick search."""
    if not searches(plan):
        return 1
    most = MOST_VISITS if have_most_features(plan) else VISITS_OF_SPARSE
    return max(1, min(most_folds(plan), most // max(1, epochs * work(plan))))


def few_of_class(plan: Plan) -> str:
    """Return a warning if few validation rows, on all folds, have the rarer one of two labels, or if another metric
    than the first one chooses the epoch, because that is undefined on these rows; else ""."""
    validation, several = plan.validation, plan.spec.values["epochs"] > 1
    if validation is None or plan.spec.solver_entry.is_sampler or not several:
        return ""
    first = next(iter(plan.settings.choosing), validation.chooser)
    if first != validation.chooser:
        grouped = metric_of(first).of_groups is not None
        why = "no group has rows that it orders" if grouped else "all of them have one label"
        return (
            f"{first} is undefined on {named(validation, plan)}, because {why}: {validation.chooser} chooses the epoch"
        )
    if validation.of_labels is None:
        return ""
    held = min(validation.of_labels)
    place, folds = validation.of_labels.index(held), number_of_folds(plan, LEAST_EPOCHS)
    trained = plan.source.labels
    times = np.ones(len(trained.label)) if trained.times is None else trained.times
    others = int(times[(trained.label > 0) == place].sum())
    if min(folds * held, held + others) >= ENOUGH_OF_CLASS:
        return ""
    name = plan.transform.labels.texts[place]
    on_folds = f" on each of {folds} folds" if folds > 1 else ""
    return (
        f"only {held:,} of {named(validation, plan)}{on_folds} have the label {name}, fewer than "
        f"{ENOUGH_OF_CLASS} in all: so few rows choose the epoch by chance, and metrics of them say little"
    )


def named(validation: Validation, plan: Plan) -> str:
    """Return validation rows in words."""
    rows = "held-out rows" if validation.held_out else f"rows of {plan.settings.valid_name}"
    return f"the {validation.count:,} {rows}"


def epochs_of(plan: Plan) -> int:
    """Return how many epochs the run of a value has at most on each fold."""
    asked: int = plan.spec.values["epochs"]
    return min(asked, max(LEAST_EPOCHS, MOST_VISITS // work(plan)))


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


def have_most_features(plan: Plan) -> bool:
    """Return whether rows have most features, so that each learns from most rows."""
    facts = plan.facts
    return are_dense(facts["rows"], facts["nonzeros"], facts["features"])


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
