"""A whole search: the quick search before it, the study of its trials, and the training of the best one on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fmcli.choosing.candidates import Candidate
from fmcli.choosing.plans import can_compare, can_stretch, chosen_values
from fmcli.choosing.quick_search import TriedValue, with_values
from fmcli.choosing.request import SearchRequest, SearchResult
from fmcli.choosing.search import Search
from fmcli.choosing.study import Study
from fmcli.errors import UsageError
from fmcli.registry.ranges import Range
from fmcli.registry.solvers import SOLVERS
from fmcli.system.blas import one_blas_thread
from fmcli.training.checkpoint import identity
from fmcli.training.planning import Plan


class Winner(NamedTuple):
    """The run that trains the best trial on all rows.

    solver : None: the kind has none.
    options : that a search has chosen, or for which the user named some values.
    epochs : None: other rows choose them, or all are needed.
    """

    model: str
    solver: str | None
    options: Mapping[str, Any]
    epochs: int | None


def tuned(
    plan: Plan,
    request: SearchRequest,
    on_begin: Callable[[Search, Sequence[TriedValue], int], None] = lambda search, tried, known: None,
    on_trial: Callable[[Candidate], None] = lambda candidate: None,
) -> tuple[Candidate, SearchResult]:
    """Search, and return the winner, and all trials.

    on_begin : called before the first trial with the search, the values of the quick search, and the number of trials
        that the study has; on_trial : after each trial.

    Raises UsageError if no rows are held out, or if the study is another one, and the errors of Study.
    """
    if not can_compare(plan):
        raise UsageError("options are compared on held-out rows, and there are none; give others, or more rows")
    folds = request.folds_of(plan)
    stretched = can_stretch(plan)
    with Study(request.study, identity_of(plan, request, folds, stretched)) as study, one_blas_thread():
        leader, tried = with_values(plan, request.deadline)
        plan = leader.plan

        def after(candidate: Candidate) -> None:
            study.add(candidate.record())
            on_trial(candidate)

        search = Search(plan, request, folds=folds, stretched=stretched, known=study.known, on_trial=after)
        on_begin(search, tried, study.trials)
        return search.run()


def identity_of(plan: Plan, request: SearchRequest, folds: int, stretched: bool) -> dict[str, Any]:
    """Return all that the trials of a search depend on, but for their number."""
    return {
        **identity(plan, refits=False),
        "ranges": {name: [one.low, one.high, list(one.choices)] for name, one in request.ranges.items()},
        "alternatives": [[one.model, one.solver] for one in plan.settings.alternatives],
        "folds": folds,
        "stretched": stretched,
        "sampler": request.sampler,
        "path": request.path,
    }


def chosen_options(candidate: Candidate, ranges: Mapping[str, Range]) -> dict[str, Any]:
    """Return the options that a search has chosen, or for which the user named some values."""
    spec = candidate.plan.spec
    names = {*chosen_values(candidate.plan), *candidate.settings, *ranges}
    return {name: spec.values[name] for name in sorted(names) if spec.takes(name)}


def winner_of(chosen: Candidate, ranges: Mapping[str, Range]) -> Winner:
    """Return the plan that trains a trial on all rows, for the best number of epochs unless other rows choose it."""
    spec, validation, best = chosen.plan.spec, chosen.plan.validation, chosen.reached.best
    epochs = None
    if spec.solver_entry.stops_early and validation and validation.held_out and best:
        epochs = max(1, int(np.median(best)))
    solver = spec.solver if spec.solver in SOLVERS else None
    return Winner(spec.model, solver, chosen_options(chosen, ranges), epochs)
