"""What a search is asked for, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fmcli.choosing.candidates import TrialRecord
from fmcli.choosing.plans import number_of_folds
from fmcli.choosing.proposals import load_optuna
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.ranges import SAMPLERS, TPE, TRIALS, Range
from fmcli.training.planning import Plan
from fmcli.training.setup.held import Held

if TYPE_CHECKING:
    from fmcli.choosing.quick_search import TriedValue

FEWEST_FOLDS = FEWEST_OF_PATH = 2


@dataclass(frozen=True)
class SearchRequest:
    """What a search tries beside the usual options of kinds and solvers.

    trials : how many there are in all; None: the usual number, or with a deadline as many as the time lets.
    folds : how many; None: as the rows need.
    sampler : how options are drawn; one of SAMPLERS.
    study : the file of the study; None: trials are not kept.
    ranges : the values of options; empty: the ranges of the registry.
    deadline : the value of time.perf_counter() at which it ends.
    path : of how many values of one penalty there is a path in place of drawn options; None: there is none.
    draws : whether options are drawn, or follow a path.

    Raises UsageError for numbers that are too small, for an unknown sampler, and if its library is not installed.
    """

    trials: int | None = None
    folds: int | None = None
    sampler: str = "near"
    study: str | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)
    deadline: float | None = None
    path: int | None = None
    draws: bool = True

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
        if not self.draws:
            return 0
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
            return number_of_folds(plan, searched=self.draws)
        if self.folds >= FEWEST_FOLDS and (plan.settings.hold_out.in_order or not plan.source.divides):
            raise UsageError("rows in order of time, or on a cluster, are held out once; leave out the folds")
        return self.folds


# A search of kinds and solvers by their usual options.
KINDS = SearchRequest(draws=False)


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    trials : of kinds, solvers and drawn options, the best one first.
    values : the values of options that the quick search tried.
    kept : the values that an earlier process chose, whose run continues; None: this process has searched.
    late : whether the deadline ended the search.
    """

    trials: Sequence[TrialRecord] = ()
    values: Sequence[TriedValue] = ()
    kept: Mapping[str, Any] | None = None
    late: bool = False
