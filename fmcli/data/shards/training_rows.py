"""Training rows in shards; in this module they are in memory, in one shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import LabelUnit
from fmcli.data.dataset import NO_UNIT, Dataset
from fmcli.data.fields import Counted
from fmcli.records import dataclass
from fmcli.system.mapped import numbers_to

RowNumbers = NDArray[np.int32]
T = TypeVar("T")


@dataclass(frozen=True)
class RowLabels:
    """The labels of some rows.

    label, weight : float64 (n), the label and the weight of each row, or each distinct label and its total weight;
        weight None: all are 1.
    rows : the number of rows.
    times : int64 (n), the number of rows with each label; None: each row has its own entry.
    unit : as in Dataset.
    """

    label: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    rows: int
    times: NDArray[np.int64] | None = None
    unit: tuple[float, float] = NO_UNIT

    @property
    def targets(self) -> NDArray[np.float64]:
        """The labels as losses see them."""
        return LabelUnit(*self.unit).of(self.label)


class TrainingRows:
    """Rows in memory, in one shard.

    Attributes
    ----------
    data : Dataset; one of the shards if there are several.
    fields : the field of each feature, for solvers that use fields; None: not known.
    every_row : int32, the numbers of training rows and held-out rows; None: all rows of the data.
    divides : whether further rows can be held out; see `holding_out`.
    """

    divides: bool = True

    def __init__(
        self,
        data: Dataset,
        rows: RowNumbers,
        fields: Counted | None = None,
        every_row: RowNumbers | None = None,
    ) -> None:
        self.data, self.fields, self.every_row, self._number = data, fields, every_row, len(rows)
        self._rows = rows if len(rows) < data.rows else None  # the numbers of all rows would waste memory
        self._numbers: Callable[[], RowNumbers | None] = lambda: None  # the numbers of all rows, while they are in use

    @property
    def rows(self) -> RowNumbers:
        """The numbers of the training rows in `data`, increasing."""
        if self._rows is not None:
            return self._rows
        numbers = self._numbers()
        if numbers is None:
            numbers = numbers_to(self.data.rows)
            numbers.flags.writeable = False
            self._numbers = ref(numbers)
        return numbers

    @property
    def rows_here(self) -> int:
        """The number of training rows in `data`."""
        return self._number

    def numbered(self, places: NDArray[np.int64] | None) -> RowNumbers:
        """Return the numbers in `data` of the training rows at some positions among the training rows; None: at all."""
        if places is None:
            return self.rows
        return places.astype(np.int32) if self._rows is None else self._rows[places]

    @property
    def sizes(self) -> list[int]:
        """The number of training rows of each shard."""
        return [self._number]

    @property
    def count(self) -> int:
        """The number of training rows."""
        return sum(self.sizes)

    @property
    def visits(self) -> int:
        """The number of training rows that an epoch visits."""
        return self.count

    @property
    def nonzeros(self) -> int:
        """The number of entries of the training rows."""
        return int(self.data.nnz if self._rows is None else self.data.entries_of_rows(self._rows))

    @property
    def all_rows(self) -> int:
        """The number of rows, including held-out rows."""
        return int(self.data.rows) if self.every_row is None else len(self.every_row)

    @property
    def all_nonzeros(self) -> int:
        """The number of entries of all rows, including held-out rows."""
        return int(self.data.nnz if self.every_row is None else self.data.entries_of_rows(self.every_row))

    @property
    def longest(self) -> int:
        """The largest number of entries of a row."""
        return int(self.data.longest)

    @property
    def longest_square(self) -> float:
        """The largest squared norm of a row."""
        return float(self.data.longest_square(self.every_row))

    @property
    def total_weight(self) -> float:
        """The sum of the weights of the training rows."""
        return float(self.data.total_weight(self._rows))

    @property
    def labels(self) -> RowLabels:
        """The labels of the training rows."""
        label, weight, rows = self.data.label, self.data.weight, self._rows
        if rows is not None:
            label, weight = label[rows], None if weight is None else weight[rows]
        return RowLabels(label, weight, self._number, unit=self.data.unit)

    @property
    def shard_bytes(self) -> int:
        """The memory of the shards in training in bytes, without `data`."""
        return 0

    @property
    def distinguishing(self) -> list[NDArray[np.generic]]:
        """Arrays that differ if the rows differ."""
        return [*self.data.arrays, self.rows, *(self.fields or [])]

    @property
    def in_memory(self) -> bool:
        """Whether `data` has all rows."""
        return True

    def occurrences(self, threads: int) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
        """Return two arrays (features): whether each feature occurs in the training rows, and the number of training
        rows that have it; the second array is None if it would be larger than the rows."""
        if self.data.features > self.data.nnz:
            return self.data.seen(self.rows), None
        counts = self.data.counts(self.rows, threads)
        return counts > 0, counts

    @property
    def all_numbers(self) -> RowNumbers:
        """The numbers of all rows, including held-out rows."""
        return numbers_to(self.data.rows) if self.every_row is None else self.every_row

    @property
    def numbers(self) -> RowNumbers:
        """The numbers of the training rows, in the order of the text."""
        return self.rows

    @property
    def label_of_each(self) -> NDArray[np.float64]:
        """(rows) the label of each training row, in the order of `numbers`."""
        return np.asarray(self.data.label[self.rows], np.float64)

    def whole(self) -> TrainingRows:
        """Return all rows, including held-out rows."""
        return self.only(self.all_numbers)

    def only(self, rows: RowNumbers, every: RowNumbers | None = None) -> TrainingRows:
        """Return the training rows with these numbers, increasing, out of all rows, or out of the rows `every`."""
        return TrainingRows(self.data, rows, self.fields, self.every_row if every is None else every)

    def holding_out(self, held: RowNumbers) -> tuple[TrainingRows, Dataset]:
        """Hold out rows. Returns the other rows and the held-out rows. held : numbers in the order of the text,
        increasing."""
        every = self.all_numbers
        return self.only(every.compress(~np.isin(every, held))), self.data.take(held)

    def shards(self, order: Sequence[int]) -> Iterator[tuple[Dataset, RowNumbers]]:
        """Return the shards with these numbers, in this order: the data, and the numbers of the training rows; the
        caller may reorder the numbers."""
        rows = self._rows
        return ((self.data, numbers_to(self.data.rows) if rows is None else rows.copy()) for _ in order)

    def every(self) -> Iterator[tuple[Dataset, RowNumbers]]:
        """Return all shards that have training rows."""
        return self.shards([shard for shard, size in enumerate(self.sizes) if size])

    def each(self, of: Callable[[Dataset, RowNumbers], T]) -> Iterator[T]:
        """Yield the results of `of(data, rows)` for each shard and its training rows."""
        return (of(data, rows) for data, rows in self.every())
