"""Coordinate descent on observed pairs of a context and an item, and on all pairs: by all features, or by new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.shards.observed_rows import Sides
from fmcli.models.model import Model
from fmcli.solvers.coordinate.all_pairs import AllPairs, PairUpdater
from fmcli.solvers.coordinate.columns import Columns
from fmcli.solvers.coordinate.minimizer import CoordinateDescent, Sweep, rows_of_feature
from fmcli.solvers.coordinate.new_features import NewFeaturesDescent
from fmcli.solvers.coordinate.pair_links import PairLinks
from fmcli.solvers.new_features import NewFeatures
from fmcli.system.parallel import Pool

CONTEXTS, ITEMS = 0, 1


class AllPairsDescent(CoordinateDescent):
    """Descent on the objective of AllPairs, whose samples are the contexts and the items. Contexts of one feature have
    no item in common, and the other way round, as no feature is in both."""

    samples_a_task = 1 << 10  # parts, which have many pairs
    descent: AllPairs

    def prepare(self, by_gradient: bool = False, **of_pairs: Any) -> None:
        self._link(**of_pairs)
        self._begin()

    def _link(self, links: PairLinks, strength: float, known: tuple[int, int] | None) -> None:
        """Make the descent of the links; see AllPairs."""
        holds, pulls = (self.hold.holds, self.hold.pulls) if self.hold else (None, None)
        self.descent = AllPairs(self.model, self.penalty, self.data, links, strength, holds, pulls, known)
        self.of_items = self.descent.seen(ITEMS)

    @staticmethod
    def needed(model: Model, sides: Sides, pairs: int, threads: int, epochs: int) -> int:
        """Return bytes that the descent on a number of pairs takes, with its parts."""
        parts = sides.parts()
        return (
            CoordinateDescent.bytes_needed(model, parts, threads, epochs)
            + AllPairs.pairs_needed(model, parts, pairs)
            + PairLinks.bytes_needed(pairs)
            + parts.nbytes
        )

    @property
    def reported_rows(self) -> int:
        return self.descent.links.count

    def _updater(self) -> PairUpdater:
        return PairUpdater(self.descent)

    def _sweeps(self, number: int) -> list[Sweep]:
        """Return a sweep over the features of contexts, and one over features of items. Features that many parts have
        come first: ids get what is left, so that parts without pairs, which have only such features, have scores."""
        each, columns = rows_of_feature(self.model, number), self.descent.columns[number]
        order = self._order(number, columns)
        sides = [order]
        if self.model.layout[number].by_feature:
            order = order[np.argsort(-np.diff(columns.indptr)[order], kind="stable")]
            sides = [order[self.of_items[order // each] == side] for side in (CONTEXTS, ITEMS)]
        return [self._sweep(number, some, columns, self.data.rows, None) for some in sides]

    def _ends(self, number: int, order: NDArray[np.int32], columns: Columns) -> NDArray[np.int64]:
        return self.descent.ends(number, order)

    def _begin_sweep(self, pool: Pool, number: int, output: int, sweep: Sweep) -> None:
        by_feature = self.model.layout[number].by_feature
        feature = sweep.order[:1] // rows_of_feature(self.model, number)
        self.descent.enter(ITEMS if by_feature and self.of_items[feature].any() else CONTEXTS, by_feature)

    def objective(self, pool: Pool) -> tuple[float, float]:
        self._by_samples(pool, PairUpdater.measure)
        loss = sum(self._by_samples(pool, PairUpdater.measure_pairs)) + self.descent.value()
        return loss, self._penalty_value()


class NewPairsDescent(NewFeaturesDescent, AllPairsDescent):
    """Descent on the objective of AllPairs by the parameters of new features, beside the contexts and the items of an
    earlier run, which are constant. The objective is the SUM over pairs, and its result for a set of new features
    depends on the pairs of this set alone, bit by bit."""

    def prepare(
        self,
        by_gradient: bool = False,
        *,
        new_features: NewFeatures | None = None,
        tol: float = 0.0,
        **of_pairs: Any,
    ) -> None:
        self._link(**of_pairs)
        links = self.descent.links
        self._watch(new_features, tol, float(links.share[: links.count].sum(dtype=np.float64)))
        self._begin()
