"""What a run chooses on held-out rows before it trains: values of options, a kind and a solver. A run that continues
has the choices of its first process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.base.rules import COUNT, TABLE, fault
from fmcli.choosing.budget import epochs_of
from fmcli.choosing.candidates import MARGIN, TIE, Candidate
from fmcli.choosing.of_pairs import with_pair_options
from fmcli.choosing.plans import can_compare, choices_of, chosen_values, is_free, number_of_folds
from fmcli.choosing.quick_search import Leader, bytes_of_readings, possible_plans, searches, with_values
from fmcli.choosing.request import KINDS, SearchResult
from fmcli.choosing.search import Search
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.errors import UsageError
from fmcli.scoring.metrics import metric_of
from fmcli.training.account import MemoryNeed
from fmcli.training.planning import Plan, read_as, with_options
from fmcli.training.setup.strata import ENOUGH_OF_CLASS
from fmcli.training.several.ensemble import memory_of

if TYPE_CHECKING:
    from fmcli.training.checkpoint import Checkpointer
    from fmcli.training.validation import Validation


def choose_once(plan: Plan, keeper: Checkpointer) -> tuple[Plan, SearchResult]:
    """`choose`, whose choices the keeper keeps; if it has the choices of an earlier process, their plan without a run.

    Raises NotEnoughMemoryError, and BadInputError if what was kept is not valid.
    """
    if keeper.choices is not None:
        with keeper.checking():
            return with_choices(plan, keeper.choices)
    plan, searched = choose(plan)
    alternative = sum(trial.number for trial in searched.trials if trial.chosen)
    options, epochs = chosen_values(plan), plan.refit_epochs or 0
    keeper.choices = {"alternative": alternative, "reading": plan.reading, "options": options, "refit_epochs": epochs}
    return plan, searched


def with_choices(plan: Plan, choices: Mapping[str, Any]) -> tuple[Plan, SearchResult]:
    """Return the plan with the choices that `choose_once` keeps. Those that do not suit it, or
    that are given now, are left out: the plan then belongs to another run, and the keeper refuses it.

    Raises ValueError if they are not valid.
    """
    rules = {"alternative": COUNT, "reading": COUNT, "options": TABLE, "refit_epochs": COUNT}
    if fault(choices, rules, {}):
        raise ValueError("it does not say what was chosen before the run")
    kept: Mapping[str, Any] = {}
    alternative, alternatives, epochs = choices["alternative"], plan.settings.alternatives, plan.spec.values["epochs"]
    if plan.other and 0 < alternative <= len(alternatives):
        plan = replace(plan.other(alternatives[alternative - 1]), readings=plan.readings)
    values, number = choices["options"], choices["reading"]
    readings = plan.readings() if number else ()
    if 0 < number <= len(readings):
        plan = read_as(plan, number)
        kept = readings[number - 1].options
    for option, value in values.items():
        same_type = type(value) is type(choices_of(plan.spec).get(option))
        if same_type and plan.settings.quick_search and is_free(plan.settings.spec, option):
            with suppress(UsageError):
                plan = with_options(plan, {option: value})
    return replace(plan, refit_epochs=min(choices["refit_epochs"], epochs) or None), SearchResult(
        kept={**kept, **values}
    )


def choose(plan: Plan) -> tuple[Plan, SearchResult]:
    """Return the plan with the kind, the solver, and the values of options that are better on its validation data, and
    with the epochs of a refit if there are several folds; and what was compared. Raises NotEnoughMemoryError."""
    if isinstance(plan.source, ObservedRows):
        plan, values = with_pair_options(plan)
        return plan, SearchResult(values=values)
    if plan.other is None or not can_compare(plan):
        leader, values = with_values(plan)
        return leader.plan, SearchResult(values=values)
    search = Search(plan, KINDS, folds=KINDS.folds_of(plan))
    chosen, found = search.run()
    return choose_kind(search, chosen, found)


def choose_kind(search: Search, chosen: Candidate, found: SearchResult) -> tuple[Plan, SearchResult]:
    """Return the plan of the best kind after a quick search for the usual one and for the best others, and what was
    compared. chosen : the best candidate by usual options.

    Compared by their usual options alone, kinds lose that need other steps or penalties than usual; compared by theirs
    with the searched options of the usual kind, all lose.
    """
    searched = [(one, *with_values(one.plan)) for one in search.finalists]
    best, leader, values = searched[0]
    for other, its_leader, its_values in searched[1:]:
        if is_better(its_leader.runs, leader.runs, MARGIN):
            best, leader, values = other, its_leader, its_values
    if chosen.samples and chosen.number and not is_better(leader.runs, chosen, TIE):
        best, leader, values = chosen, Leader(chosen.plan, chosen), []
    trials = [replace(one, chosen=one.number == best.number) for one in found.trials]
    return leader.plan, replace(found, trials=trials, values=values)


def is_better(one: Candidate, other: Candidate, errors: float) -> bool:
    """Return whether a candidate is better than another by more than `errors` standard errors, on the folds of both."""
    folds = min(len(one.runs), len(other.runs))
    for each in (one, other):
        most = epochs_of(each.plan)
        each.first(folds, lambda fold, most=most: most)  # type: ignore[misc]
    return one.judged(other, errors, folds)[0]


def memory_of_whole(plan: Plan, members: int) -> MemoryNeed:
    """Return the memory that its choices and then a run of `members` members need."""
    need = memory_of_searched(plan, members)
    if plan.other is None or not can_compare(plan):
        return need
    search = Search(plan, KINDS, folds=KINDS.folds_of(plan))
    chosen = [memory_of_searched(candidate.plan, members) for candidate in search.contenders]
    most = max(one.total - one.held for one in chosen)
    return need.or_of(search.memory).or_of(MemoryNeed(search.memory.held + most, search.memory.held))


def memory_of_searched(plan: Plan, members: int) -> MemoryNeed:
    """Return the memory that a run of `members` members needs, by whatever the quick search chooses."""
    need = memory_of(plan, members)
    for one in possible_plans(plan) if searches(plan) else ():
        need = need.or_of(memory_of(one, members))
    return MemoryNeed(need.total + bytes_of_readings(plan), need.held)


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
    place, folds = validation.of_labels.index(held), number_of_folds(plan) if searches(plan) else 1
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
