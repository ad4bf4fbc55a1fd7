"""Draws of the parameters of new features from their posterior given all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.mixing import mixed
from fmcli.models.drawn import NOISE, PRIOR_GROUPS, PRIORS
from fmcli.models.layout import BlockLayout
from fmcli.solvers.coordinate.columns import Columns
from fmcli.solvers.coordinate.new_features import sets_of_rows
from fmcli.solvers.gibbs.sampler import GibbsSampler
from fmcli.solvers.gibbs.update import GibbsUpdater
from fmcli.solvers.new_features import NONE, NewFeatures
from fmcli.system.parallel import Pool


class NewFeaturesSampler(GibbsSampler):
    """Draws the parameters of new features, given the parameters of all other features, and the precision of the
    labels, the priors and the cutpoints of the same draw.

    Random numbers depend on the id of a feature, and for latent variables on the ids of its set and on the place of a
    row among the set's rows. So a set gets the same draws as alone, bit by bit.
    """

    def prepare(
        self,
        *arguments: Any,
        new_features: NewFeatures | None = None,
        drawn: Mapping[str, NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        """Allocate the states of samples. drawn : the numbers kept with the draw, see Trainer.kept_with_draws,
        and the numbers of the groups of features. `fields` are places among these."""
        assert new_features is not None
        assert drawn is not None
        self.new_rows = [sets != NONE for sets in sets_of_rows(self.model, new_features)]
        super().prepare(*arguments, **{**keywords, "summed": True})
        self.priors.noise = float(drawn.get(NOISE, 1.0))
        begin = 0
        for number, priors in self._blocks_with_priors():
            layout, tables = self.model.layout[number], (self.priors.mean[number], self.priors.precision[number])
            rows = layout.rows_each * len(drawn[PRIOR_GROUPS]) if layout.by_feature else 1
            kept = drawn[PRIORS][:, begin : begin + rows * len(priors)].reshape(2, rows, len(priors))
            for table, values in zip(tables, kept, strict=True):
                for columns, column in zip(priors, values.T, strict=True):
                    table[:, columns] = column[: len(table), None]
            begin += rows * len(priors)
        self._set_keys(new_features)

    def _set_keys(self, new_features: NewFeatures) -> None:
        """Let random numbers depend on ids, not on places."""
        new = np.flatnonzero(new_features.features)
        of_feature = np.zeros(self.model.features, dtype=np.uint64)
        of_feature[new] = mixed(new_features.keys[new])
        blocks = []
        for number in range(len(self.model.layout)):
            owner = self.model.owners(number, new_features.features)
            blocks.append(mixed(of_feature[owner] + ranks(owner)).astype(np.uint32))
        of_set = np.zeros(new_features.sets, dtype=np.uint64)
        np.add.at(of_set, new_features.number[new], of_feature[new])
        entries = np.flatnonzero(new_features.features[self.data.index])
        row = np.searchsorted(self.data.indptr, entries, side="right") - 1
        sets = np.zeros(self.data.rows, dtype=np.int32)
        sets[row] = new_features.number[self.data.index[entries]]
        self.priors.set_keys(blocks, mixed(of_set[sets] + ranks(sets)).astype(np.uint32))

    def _order(self, number: int, columns: Columns) -> NDArray[np.int32]:
        order = super()._order(number, columns)
        return np.asarray(order[self.new_rows[number][order]])

    @staticmethod
    def is_entered(layout: BlockLayout) -> bool:
        """Return False: the priors stay."""
        return False

    def _draw_noise(self, pool: Pool, loss: float) -> None:
        """Draw latent variables of precision 1; the precision of labels and cutpoints stay."""
        if self.latent:
            self._by_samples(pool, GibbsUpdater.draw_latents)


def ranks(numbers: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return the place of each element among the elements equal to it."""
    order = np.argsort(numbers, kind="stable")
    _, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    found = np.empty(len(numbers), dtype=np.uint64)
    found[order] = np.arange(len(numbers)) - np.repeat(starts, counts)
    return found
