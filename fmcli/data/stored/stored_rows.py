"""Training rows in a cache. Each epoch reads them shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import NO_UNIT, Dataset
from fmcli.data.shards.training_rows import RowLabels, RowNumbers, TrainingRows
from fmcli.data.stored.cache import Shards
from fmcli.data.stored.some_rows import taken, without
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.data.stored.cache import Located

# Shards in memory: one in training, one being read, and its changed copy.
SHARDS_IN_MEMORY = 3


@dataclass(frozen=True)
class LabelTotals:
    """The labels of all rows of a cache, encoded for the loss, in increasing order.

    label, weight : float64 (n), each distinct label, and the total weight of its rows.
    rows : int64 (n), the number of rows of each label.
    unit : the unit of the training rows; see Dataset.
    """

    label: NDArray[np.float64]
    weight: NDArray[np.float64]
    rows: NDArray[np.int64]
    unit: tuple[float, float] = NO_UNIT

    def without(self, data: Dataset | None) -> RowLabels:
        """Return the labels without the rows of a Dataset. Raises ValueError if the rows are not among them."""
        weight, rows = self.weight, self.rows
        if data is not None:
            size = len(rows)
            places = np.searchsorted(self.label, data.label).clip(max=size - 1)
            if (self.label[places] != data.label).any():
                raise ValueError("a row has a label that its header does not have")
            rows = rows - np.bincount(places, minlength=size)
            weight = np.maximum(weight - np.bincount(places, weights=data.weight, minlength=size), 0)
        left = rows > 0
        with np.errstate(over="ignore"):
            total = weight[left].sum()
        if (rows < 0).any() or not 0 < total < np.inf:
            raise ValueError("its header does not have the labels and weights of its rows")
        return RowLabels(self.label[left], weight[left], int(rows.sum()), rows[left], self.unit)


@dataclass(frozen=True)
class Totals:
    """The totals over all rows of a cache, as the model sees them.

    labels : None if there are too many distinct labels.
    counts : int32 (features), the number of rows that have each feature.
    nonzeros, weight : the number of entries, and the sum of the weights of the rows.
    longest_square : the largest squared norm of a row.
    """

    labels: LabelTotals | None
    counts: NDArray[np.int32]
    nonzeros: int
    weight: float
    longest_square: float


class StoredRows(TrainingRows):
    """Rows in the shards of a cache.

    Parameters
    ----------
    cache : rows in several shards.
    change : turns a shard into rows of the model. A thread that reads ahead calls it.
    totals : the totals over all rows.
    left : shard -> int32, its training rows; in other shards, all rows are trained on.
    held_out : the held-out rows, changed; None: there are none.
    held : the numbers of the held-out rows in the order of the text.
    """

    def __init__(
        self,
        cache: Shards,
        change: Callable[[Dataset], Dataset],
        totals: Totals,
        left: Mapping[int, RowNumbers],
        held_out: Dataset | None,
        held: RowNumbers | None = None,
    ) -> None:
        self.cache, self.change, self.totals, self.left, self.held_out = cache, change, totals, left, held_out
        self._held = np.zeros(0, dtype=np.int32) if held is None else held
        self._sizes = self._count()
        super().__init__(*self._some_rows())

    @property
    def sizes(self) -> list[int]:
        return self._sizes

    @property
    def nonzeros(self) -> int:
        return self.totals.nonzeros - (self.held_out.nnz if self.held_out else 0)

    @property
    def all_rows(self) -> int:
        return self.cache.facts.rows

    @property
    def all_nonzeros(self) -> int:
        return self.totals.nonzeros

    @property
    def longest(self) -> int:
        return self.cache.facts.longest

    @property
    def longest_square(self) -> float:
        return self.totals.longest_square

    @property
    def total_weight(self) -> float:
        return self.totals.weight - (self.held_out.total_weight() if self.held_out else 0)

    @property
    def labels(self) -> RowLabels:
        """The labels of the training rows, or of one shard if there are too many distinct labels. Raises BadInputError
        if the cache contradicts itself."""
        if self.totals.labels is None:
            return super().labels
        try:
            return self.totals.labels.without(self.held_out)
        except ValueError as error:
            raise self.cache.damaged(str(error)) from error

    @property
    def shard_bytes(self) -> int:
        return SHARDS_IN_MEMORY * self.cache.shard_bytes

    @property
    def distinguishing(self) -> list[NDArray[np.generic]]:
        held_out = [] if self.held_out is None else self.held_out.arrays
        return [*super().distinguishing, self.cache.table, *held_out]  # the table has a checksum of each part

    @property
    def in_memory(self) -> bool:
        return False

    def occurrences(self, threads: int) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
        counts = self.totals.counts
        if self.held_out:
            counts = counts - self.held_out.counts(np.arange(self.held_out.rows, dtype=np.int32), threads)
        return counts > 0, counts

    @property
    def numbers(self) -> RowNumbers:
        return np.delete(np.arange(self.all_rows, dtype=np.int32), self._held)

    @property
    def label_of_each(self) -> NDArray[np.float64]:
        numbers = self.numbers
        label = np.empty(len(numbers))
        for here, _, _, data in taken(cast("Located", self.cache), numbers, self.change):
            label[here] = data.label
        return label

    def whole(self) -> TrainingRows:
        return StoredRows(self.cache, self.change, self.totals, {}, None)

    def holding_out(self, held: RowNumbers) -> tuple[TrainingRows, Dataset]:
        left, data = without(cast("Located", self.cache), held, self.change)
        return StoredRows(self.cache, self.change, self.totals, left, data, held), data

    def shards(self, order: Sequence[int]) -> Iterator[tuple[Dataset, RowNumbers]]:
        with ThreadPoolExecutor(1) as ahead:
            following = ahead.submit(self._shard, order[0])
            for shard in order[1:]:
                here, following = following.result(), ahead.submit(self._shard, shard)
                yield here
            yield following.result()

    def _count(self) -> list[int]:
        """Return the number of training rows of each shard."""
        cache, left = self.cache, self.left
        return [len(left[b]) if b in left else cache.rows_of(b) for b in range(len(cache.shards))]

    def _some_rows(self) -> tuple[Dataset, RowNumbers]:
        """Return the first shard with training rows."""
        return self._shard(next(shard for shard, size in enumerate(self._sizes) if size))

    def _shard(self, shard: int) -> tuple[Dataset, RowNumbers]:
        data = self.change(self.cache.load(shard))
        left = self.left.get(shard)
        return data, np.arange(data.rows, dtype=np.int32) if left is None else left.copy()
