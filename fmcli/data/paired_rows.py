"""The rows to train on in pairs: two rows of a group, of which the first one has the larger label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.training_rows import RowNumbers, TrainingRows
from fmcli.errors import BadInputError

NO_PARTNER = -1


class PairedRows(TrainingRows):
    """Rows in memory and in groups, of which an epoch visits those that have a row with a smaller label in their group.

    Rows of weight 0 have no part in pairs.

    Attributes
    ----------
    first : int32, the rows that an epoch visits, in increasing order.

    Raises BadInputError if there are no groups, or if no row has a row with a smaller label in its group.
    """

    def __init__(self, data: Dataset, rows: RowNumbers) -> None:
        super().__init__(data, rows)
        if data.group is None:
            raise BadInputError("training on pairs needs groups of rows, and these have none")
        if data.weight is not None:
            rows = rows[data.weight[rows] > 0]
        group, label = data.group[rows], data.label[rows]
        order = np.lexsort((label, group))
        group, label = group[order], label[order]
        # Row i of this order is preferred to `below[i]` rows, which begin at `begin[i]`.
        begin, same = (
            run_starts(group[1:] != group[:-1]),
            run_starts((group[1:] != group[:-1]) | (label[1:] != label[:-1])),
        )
        preferred = np.flatnonzero(same > begin)
        if not len(preferred):
            raise BadInputError(
                f"no group of these {len(rows):,} rows has two different labels, so that there is no pair to train on; "
                "check what tells the groups"
            )
        self._sorted = rows[order]
        first = self._sorted[preferred]
        by_number = np.argsort(first)
        self.first = first[by_number]
        self._begin = begin[preferred][by_number].astype(np.int32)
        self._below = (same - begin)[preferred][by_number].astype(np.int32)

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
    def block_bytes(self) -> int:
        kept = self._sorted.nbytes + self.first.nbytes + self._begin.nbytes + self._below.nbytes
        drawn = np.dtype(np.int32).itemsize * self.data.rows + 2 * np.dtype(np.int64).itemsize * len(self.first)
        return kept + drawn

    def whole(self) -> PairedRows:
        return PairedRows(self.data, np.arange(self.data.rows, dtype=np.int32))

    def blocks(self, order: Sequence[int]) -> Iterator[tuple[Dataset, RowNumbers]]:
        return ((self.data, self.first) for _ in order)

    def partners(self, random: np.random.Generator) -> NDArray[np.int32]:
        """int32 (rows of the data): for each row that an epoch visits, a row of its group with a smaller label. All of
        these have the same probability; NO_PARTNER for other rows."""
        drawn = np.full(self.data.rows, NO_PARTNER, dtype=np.int32)
        drawn[self.first] = self._sorted[self._begin + random.integers(self._below)]
        return drawn


def run_starts(differ: NDArray[np.bool_]) -> NDArray[np.intp]:
    """For each of n elements, where its run of equal ones begins; `differ` (n - 1) tells which neighbours differ."""
    places = np.arange(len(differ) + 1)
    places[1:][~differ] = 0
    return np.maximum.accumulate(places)
