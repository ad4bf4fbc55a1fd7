"""A whole search: the quick search before it, the study of its trials, and what trains the best one on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from fmcli.choosing.candidates import Candidate, SearchLimits
from fmcli.choosing.plans import can_compare, can_stretch, most_folds
from fmcli.choosing.proposals import load_optuna
from fmcli.choosing.quick_search import TriedValue, with_values
from fmcli.choosing.search import Found, Search, Tuning
from fmcli.choosing.study import Study
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import SAMPLERS, TPE, TRIALS, Range
from fmcli.registry.solvers import SOLVERS
from fmcli.system.blas import one_blas_thread
from fmcli.training.account import MemoryNeed
from fmcli.training.checkpoint import identity
from fmcli.training.planning import Plan
from fmcli.training.setup.held import Held

FEWEST_FOLDS = FEWEST_OF_PATH = 2


@dataclass(frozen=True)
class Wanted:
    """The request of a search.

    trials : how many; None: the usual number, or with a deadline as many as the time lets.
    folds : how many; None: as the rows need.
    sampler : one of SAMPLERS.
    study : the file of the study; None: trials are not kept.
    ranges : the values of options; empty: those of the registry.
    deadline : the value of time.perf_counter() at which it ends.
    path : of how many values of one penalty there is a path in place of a search; None: there is none.

    Raises UsageError for numbers that are too small, for an unknown sampler, and if what it needs is not installed.
    """

    trials: int | None = None
    folds: int | None = None
    sampler: str = "near"
    study: str | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)
    deadline: float | None = None
    path: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("folds", 1), ("path", FEWEST_OF_PATH)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} must be at least {least}")
        if self.sampler not in SAMPLERS:
            raise UsageError(f"sampler must be one of {', '.join(SAMPLERS)}")
        if self.sampler == TPE:
            load_optuna()

    @property
    def most(self) -> int | None:
        """How many trials there are in all; None: as many as the time lets."""
        if self.path:
            return self.path + 1
        return self.trials or (TRIALS if self.deadline is None else None)

    @property
    def held(self) -> Held | None:
        """The share of the rows that each fold holds out; None: there are no folds."""
        return Held(1 / self.folds) if self.folds and self.folds >= FEWEST_FOLDS else None

    def folds_of(self, plan: Plan) -> int:
        """Return on how many folds trials are compared. Raises UsageError if rows cannot be divided."""
        if self.folds is None:
            return most_folds(plan, searched=True)
        if self.folds >= FEWEST_FOLDS and (plan.settings.hold_out.in_order or not plan.source.divides):
            raise UsageError("rows in order of time, or on a cluster, are held out once; leave out the folds")
        return self.folds


class Begun(NamedTuple):
    """A search before its first trial. stretched : whether stretches of consecutive rows are held out; tried : the
    values of the quick search; known : how many trials the study has; memory : what the search needs."""

    plan: Plan
    folds: int
    stretched: bool
    tried: Sequence[TriedValue]
    known: int
    memory: MemoryNeed


class Winner(NamedTuple):
    """The run that trains the best trial on all rows.

    solver : None: the kind has none.
    options : that a quick search or the search has chosen, or of which only some values were asked for.
    epochs : None: other rows choose them, or all are needed.
    """

    model: str
    solver: str | None
    options: Mapping[str, Any]
    epochs: int | None


def tuned(
    plan: Plan,
    wanted: Wanted,
    on_begin: Callable[[Begun], None] = lambda begun: None,
    on_trial: Callable[[Candidate], None] = lambda candidate: None,
) -> Found:
    """Search. Raises UsageError if no rows are held out, or if the study is another one, and the errors of Study."""
    if not can_compare(plan):
        raise UsageError("options are compared on held-out rows, and there are none; give others, or more rows")
    folds = wanted.folds_of(plan)
    stretched = can_stretch(plan)
    with Study(wanted.study, identity_of(plan, wanted, folds, stretched)) as study, one_blas_thread():
        plan, tried = with_values(plan, wanted.deadline)

        def after(candidate: Candidate) -> None:
            study.add(candidate.record())
            on_trial(candidate)

        conduct = SearchLimits(study.known, wanted.deadline)
        of = wanted.most, wanted.ranges, folds, stretched, conduct, after, wanted.sampler, wanted.path
        search = Search(plan, Tuning(*of))
        on_begin(Begun(plan, folds, stretched, tried, study.trials, search.memory))
        return search.run()


def identity_of(plan: Plan, wanted: Wanted, folds: int, stretched: bool) -> dict[str, Any]:
    """Return all that the trials of a search depend on, but for their number."""
    return {
        **identity(plan, refits=False),
        "ranges": {name: [one.low, one.high, list(one.choices)] for name, one in wanted.ranges.items()},
        "alternatives": [[one.model, one.solver] for one in plan.settings.alternatives],
        "folds": folds,
        "stretched": stretched,
        "sampler": wanted.sampler,
        "path": wanted.path,
    }


def chosen_options(candidate: Candidate, ranges: Mapping[str, Range]) -> dict[str, Any]:
    """Return the options that a quick search or the search has chosen, or of which only some values were asked for."""
    spec = candidate.plan.spec
    names = {*(spec.given - candidate.plan.settings.spec.given), *candidate.settings, *ranges}
    return {name: spec.values[name] for name in sorted(names) if name in OPTIONS and spec.takes(name)}


def winner_of(chosen: Candidate, ranges: Mapping[str, Range]) -> Winner:
    """Return what trains a trial on all rows: for as many epochs as were best, unless other rows choose them."""
    spec, validation, best = chosen.plan.spec, chosen.plan.validation, chosen.reached.best
    epochs = None
    if spec.solver_entry.stops_early and validation and validation.held_out and best:
        epochs = max(1, int(np.median(best)))
    solver = spec.solver if spec.solver in SOLVERS else None
    return Winner(spec.model, solver, chosen_options(chosen, ranges), epochs)
