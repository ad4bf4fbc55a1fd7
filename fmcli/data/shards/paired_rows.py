"""Training rows in pairs: two rows of a group with different labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.labels import OBSERVED
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.errors import BadInputError

NO_PARTNER = -1


class PairedRows(TrainingRows):
    """Rows in memory with groups. An epoch visits the rows that have a row with another label in their group.

    Rows of weight 0 are in no pair.

    Attributes
    ----------
    first : int32, the rows that an epoch visits, increasing.

    Raises BadInputError if there are no groups, or if no group has two different labels.
    """

    def __init__(self, data: Dataset, rows: RowNumbers, every_row: RowNumbers | None = None) -> None:
        super().__init__(data, rows, every_row=every_row)
        if data.group is None:
            raise BadInputError("training on pairs needs groups of rows, and these have none")
        if data.weight is not None:
            rows = rows[data.weight[rows] > 0]
        group, label = data.group[rows], data.label[rows]
        order = np.lexsort((label, group))
        group, label = group[order], label[order]
        new_group = group[1:] != group[:-1]
        begin, end = runs(new_group)
        same, after = runs(new_group | (label[1:] != label[:-1]))
        others = (end - begin) - (after - same)  # rows of the group with another label
        visited = np.flatnonzero(others)
        if not len(visited):
            raise BadInputError(
                f"no group of these {len(rows):,} rows has two different labels, so there is no pair to train on; "
                f"check what tells the groups; {OBSERVED}"
            )
        self._sorted = rows[order]
        first = self._sorted[visited]
        by_number = np.argsort(first)
        self.first = first[by_number]
        # Positions in the sorted rows, for each visited row: the beginning of its group, the beginning and end of its
        # label in the group; and the number of rows with other labels in the group.
        self._begin, self._same, self._after, self._others = (
            places[visited][by_number].astype(np.int32) for places in (begin, same, after, others)
        )

    @property
    def sizes(self) -> list[int]:
        return [len(self.first)]

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def visits(self) -> int:
        return len(self.first)

    @property
    def total_weight(self) -> float:
        return float(self.data.total_weight(self.first))

    @property
    def shard_bytes(self) -> int:
        places = self._begin, self._same, self._after, self._others
        kept = self._sorted.nbytes + self.first.nbytes + sum(array.nbytes for array in places)
        drawn = np.dtype(np.int32).itemsize * self.data.rows + 3 * np.dtype(np.int64).itemsize * len(self.first)
        return kept + drawn

    def only(self, rows: RowNumbers, every: RowNumbers | None = None) -> PairedRows:
        return PairedRows(self.data, rows, self.every_row if every is None else every)

    def shards(self, order: Sequence[int]) -> Iterator[tuple[Dataset, RowNumbers]]:
        return ((self.data, self.first.copy()) for _ in order)

    def partners(self, random: np.random.Generator) -> NDArray[np.int32]:
        """Return int32 (rows of the data): for each visited row, a random row of its group with another label, drawn
        uniformly; NO_PARTNER for other rows."""
        place = self._begin + random.integers(self._others)
        place += np.where(place >= self._same, self._after - self._same, 0)
        drawn = np.full(self.data.rows, NO_PARTNER, dtype=np.int32)
        drawn[self.first] = self._sorted[place]
        return drawn


def runs(differ: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return, for each of n elements, the beginning and end of its run of equal elements. `differ` (n - 1) : whether
    neighbors differ."""
    breaks = np.flatnonzero(differ) + 1
    begins, ends = np.append(0, breaks), np.append(breaks, len(differ) + 1)
    return np.repeat(begins, ends - begins), np.repeat(ends, ends - begins)
