"""Proposals of the values that a search tries next, from the results of its earlier trials of a kind and a solver.

Values are places in the ranges of the options, from 0 to 1, so all options are alike.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.ranges import Range

Places = dict[str, float]

# A trial is drawn around one of the BEST best trials, with the standard deviation NEAR. The share ANYWHERE is uniform,
# so that no part of the ranges is left out.
BEST, NEAR, ANYWHERE = 3, 0.15, 1 / 3
INSTALL = "pip install optuna"
LARGEST_SEED = 2**32


@dataclass(frozen=True)
class Tried:
    """A trial. rank : smaller if it is better, inf if it failed; None: it is still running."""

    places: Places
    rank: float | None


Sampler = Callable[[Mapping[str, Range], Sequence[Tried], np.random.Generator], Places]


def anywhere(ranges: Mapping[str, Range], reached: Sequence[Tried], random: np.random.Generator) -> Places:
    """Return uniform places."""
    return {name: float(random.random()) for name in ranges}


def near(ranges: Mapping[str, Range], reached: Sequence[Tried], random: np.random.Generator) -> Places:
    """Return places near one of the best trials, or anywhere. They may lie outside ranges relative to defaults, because
    these ranges only say where to begin."""
    best = sorted((one for one in reached if one.rank is not None), key=lambda one: one.rank or 0.0)[:BEST]
    if not best or random.random() < ANYWHERE:
        return anywhere(ranges, reached, random)
    parent = best[int(random.integers(len(best)))].places
    moved = {name: parent[name] + NEAR * float(random.normal()) for name in ranges}
    return {name: place if ranges[name].relative else within(place) for name, place in moved.items()}


def within(place: float) -> float:
    """Return a place from 0 to below 1, reflected at the ends."""
    folded = abs(place) % 2
    return min(folded if folded < 1 else 2 - folded, float(np.nextafter(1, 0)))


def tpe(ranges: Mapping[str, Range], reached: Sequence[Tried], random: np.random.Generator) -> Places:
    """Return the places that the tree-structured Parzen estimator of Optuna proposes (Bergstra et al. 2011), from a
    study of these trials. Raises UsageError if Optuna is not installed."""
    optuna = load_optuna()
    spans = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in ranges}
    seed = int(random.integers(LARGEST_SEED))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        for one in reached:
            known = {} if one.rank is None else {"value": min(one.rank, sys.float_info.max)}
            state = optuna.trial.TrialState.RUNNING if one.rank is None else optuna.trial.TrialState.COMPLETE
            places = {name: min(max(one.places[name], 0.0), 1.0) for name in ranges}
            study.add_trial(optuna.trial.create_trial(state=state, params=places, distributions=spans, **known))
        params = study.ask(spans).params
    return {name: within(params[name]) for name in ranges}


def load_optuna() -> Any:
    """Return Optuna, which logs only warnings. Raises UsageError if it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise UsageError(f"sampler tpe needs Optuna, which is not installed: {INSTALL}") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


# By name; see SAMPLERS of the registry.
PROPOSE: dict[str, Sampler] = {"near": near, "random": anywhere, "tpe": tpe}
