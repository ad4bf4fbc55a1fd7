"""The log of what is tried before a run: kinds and solvers, and values of options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fmcli.choosing.budget import LEAST_WORK, MOST_TRAININGS, WORK_OF_CHAINS
from fmcli.choosing.plans import can_compare
from fmcli.choosing.request import KINDS, SearchResult
from fmcli.cli.figures import section
from fmcli.cli.flags import option_words, with_flag
from fmcli.cli.output import Log
from fmcli.cli.train.log import short
from fmcli.names import listing
from fmcli.registry.choices import CHOICES
from fmcli.text import counted, figures_apart
from fmcli.training.planning import Plan

if TYPE_CHECKING:
    from fmcli.choosing.candidates import TrialRecord

# The most trials of a search, and settings that the quick search has not taken, that are shown.
SHOWN, FEW_TRIED = 10, 6


def log_comparison(log: Log, plan: Plan) -> None:
    """Log that other kinds and solvers will be compared, if they are, or warn why they cannot be."""
    if not plan.settings.alternatives:
        return
    if not can_compare(plan):
        log.warning("no rows are held out, so --auto has no effect; give -v, or more rows")
        return
    assert plan.validation is not None
    folds = KINDS.folds_of(plan)
    each = f" of each of {folds} folds" if folds > 1 else ""
    usual, others = f"{plan.spec.model} ({plan.spec.solver})", len(plan.settings.alternatives)
    rows = f"{plan.validation.count:,} {'held-out' if plan.validation.held_out else 'validation'} rows"
    log.line(f"comparing {usual} with up to {others} other kinds and solvers on {rows}{each}")
    log.detail(
        f"with at most {MOST_TRAININGS} times the work of one training, or {LEAST_WORK / 1e6:g} million visits of "
        f"factors if that is more, and {WORK_OF_CHAINS / 1e6:,g} million for samplers"
    )
    log.progress("comparing kinds and solvers")


def log_trials(log: Log, trials: Sequence[TrialRecord], *, of_path: bool = False) -> None:
    """Log the best trials of a search, the default one and the chosen one, as a table; for a path, all in order."""
    if of_path:
        trials = sorted(trials, key=lambda one: one.number)
    counts = [one.rows for one in trials]
    some_on_parts = max(counts, default=0) > 2 * min(counts, default=0)
    rows = [
        {
            "trial": one.number,
            "model": one.model,
            "solver": one.solver,
            **({"rows": one.rows} if some_on_parts else {}),
            "epochs": one.reached.epochs,
            "trainings": one.trainings,
            one.metric: one.reached.value,
            **({"zeros": one.reached.sparsity} if of_path else {}),
            "": "chosen" if one.chosen else "" if one.asked else "not reached",
            "options": " ".join(option_words(one.options)) or "defaults",
        }
        for place, one in enumerate(trials)
        if of_path or place < SHOWN or one.chosen or one.number == 0
    ]
    if len(rows) < len(trials):
        log.line(f"{len(rows)} of {len(trials):,} trials, the best ones first:")
    for line in section(rows).splitlines() if rows else ():
        log.line(line.rstrip())
    taken = next((one for one in trials if one.chosen), None)
    if taken is not None and not taken.number:
        log.line("nothing clearly beat the defaults, so keep them")
    elif taken is not None and taken is not trials[0] and not of_path:
        log.line(f"using trial {taken.number}: no trial above it is clearly better")


def log_quick_search(log: Log, searched: SearchResult) -> None:
    """Log the values of options that were taken over from tries before the run, and the others in one line."""
    if searched.kept:
        log.line(f"quick search: {words_of(searched.kept)}, as in the checkpoint")
    taken = {tuple(one.options): one for one in searched.values if one.chosen}  # the last value of each option
    for one in taken.values():
        before, value = figures_apart(one.before, one.found)
        log.line(f"tried {words_of(one.options)}: {one.metric} {value} against {before}; using it")
    others = [words_of(one.options) for one in searched.values if not one.chosen]
    if others:
        log.line(f"tried {counted(len(others), 'other setting')}, none better: {listing(others, FEW_TRIED)}")
    for one in searched.values:
        before, value = figures_apart(one.before, one.found)
        runs = f"{one.folds} folds" if one.folds > 1 else f"{one.rows:,} of the rows" if one.rows else "all rows"
        usual = "" if one.usual is None or isinstance(one.usual, bool) else f" with {short(one.usual)}"
        log.detail(f"  {words_of(one.options)}: {one.metric} {value} against {before}{usual} ({runs})")


def words_of(options: Mapping[str, Any]) -> str:
    """Return options as a user types them."""
    return " ".join(
        with_flag(option, value) if isinstance(value, bool) else f"{CHOICES[option].flag} {short(value)}"
        for option, value in options.items()
    )
