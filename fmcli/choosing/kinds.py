"""The runs of a search that are of one kind and one solver, and the ranges of their options."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fmcli.choosing.candidates import TIE, Candidate
from fmcli.choosing.plans import is_free, terms_of
from fmcli.choosing.proposals import Places, Tried
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import Range
from fmcli.training.planning import Plan


class Group:
    """A kind and a solver: the run with default options, the runs with drawn options, and the ranges of the draws."""

    def __init__(self, usual: Candidate, ranges: Mapping[str, Range]) -> None:
        self._usual = usual.plan.spec.values
        self.ranges = {name: one for name, one in ranges.items() if usual.plan.spec.takes(name)} or ranges_of(
            usual.plan
        )
        self.candidates, self._places = list[Candidate](), list[Places]()
        self.add(usual)

    def add(self, candidate: Candidate) -> None:
        """Add another run, and keep the places of its values in the ranges: finding the places of thousands of short
        runs again for each new run took a quarter of the time."""
        values = candidate.plan.spec.values
        places = {name: one.place_of(values[name], self._usual[name]) for name, one in self.ranges.items()}
        self.candidates.append(candidate)
        self._places.append({name: place for name, place in places.items() if place is not None})

    @property
    def champion(self) -> Candidate:
        """The best run on all rows so far."""
        return min((one for one in self.candidates if one.begun), key=Candidate.rank, default=self.candidates[0])

    def closest(self, among: Collection[Candidate], usual: Candidate) -> Candidate | None:
        """Among this kind's runs, return the run closest to the defaults that is clearly better than the default run
        and as good as the best one; None if the best run is not clearly better.

        The best of many runs owes part of its lead to chance, above all far from the defaults, which are good on many
        sets: in a search on ratings, the best run reached .9050 on other rows, the closest one .9026.
        """

        def clear(one: Candidate) -> bool:
            return one is not usual and one.better_than(usual, one.margin)

        own = [one for one in among if one in self.candidates and one.reached.value is not None]
        best = min(own, key=Candidate.rank, default=usual)
        if not clear(best):
            return None

        def as_good(one: Candidate) -> bool:
            # Few are compared: the scores of runs that a study knows are not at hand.
            return one.rank() < usual.rank() and not best.better_than(one, TIE) and clear(one)

        return next(one for one in sorted(own, key=self._distance) if one is best or as_good(one))

    def _distance(self, one: Candidate) -> float:
        """Return how far the options of a run are from the usual ones, where the width of a range is 1."""
        usual, own = self._places[0], self._places[self.candidates.index(one)]
        return math.hypot(*(own[name] - place for name, place in usual.items() if name in own))

    @property
    def drawn(self) -> list[Mapping[str, Any]]:
        """The values of the options of all runs."""
        return [{name: self._usual[name] for name in self.ranges}, *(one.settings for one in self.candidates[1:])]

    def settings(self, places: Places) -> dict[str, Any]:
        """Return the values of options at these places, as far as they are permitted."""
        found = {name: one.at(places[name], self._usual[name]) for name, one in self.ranges.items()}
        return {name: value for name, value in found.items() if OPTIONS[name].permits(value)}

    def tried(self) -> Iterator[Tried]:
        """Yield the results of runs, also of runs that have not started, if all their values have places."""
        for candidate, places in zip(self.candidates, self._places, strict=True):
            if len(places) == len(self.ranges):
                yield Tried(places, candidate.rank() if candidate.begun or candidate.subset else None)


def ranges_of(plan: Plan) -> dict[str, Range]:
    """Return the ranges of the options of a run that were not given, by the registry. Options of linear weights or
    factors need a model that has them, and relative ranges need a default value."""
    spec, asked, terms = plan.spec, plan.settings.spec, terms_of(plan)
    kind = MODELS[spec.model]

    def varies(name: str, one: Range) -> bool:
        usual = spec.values.get(name)
        has_usual = type(usual) is float and usual > 0 if one.relative else usual is not None
        return has_usual and spec.takes(name) and is_free(asked, name) and terms.get(name[-2:], True)

    return {name: one for name, one in {**spec.solver_entry.tunes, **kind.tunes}.items() if varies(name, one)}
