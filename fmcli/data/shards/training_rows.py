"""The rows to train on, in shards; here they are in memory, in one shard."""

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

    label, weight : float64 (n), the label and the weight of each row, or each label once and its total weight; weight
        None: all are 1.
    rows : the number of rows.
    times : int64 (n), how many rows have each label; None: each has a label of its own.
    unit : of the rows; see Dataset.
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
    data : Dataset; if there are several shards, one of them.
    fields : the field of each feature, for solvers that know them; None: not known.
    every_row : int32, the numbers of the rows to train on and of those that are held out; None: all rows of the data.
    divides : whether others of the rows can be held out; see `holding_out`.
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
        self._rows = rows if len(rows) < data.rows else None  # the numbers of all rows would take memory throughout
        self._numbers: Callable[[], RowNumbers | None] = lambda: None  # those numbers, while they are in use

    @property
    def rows(self) -> RowNumbers:
        """The numbers of the rows of `data` that are trained on, increasing."""
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
        """How many these are."""
        return self._number

    def numbered(self, places: NDArray[np.int64] | None) -> RowNumbers:
        """Return the numbers of the rows of `data` to train on that are at some places among these; None: of all."""
        if places is None:
            return self.rows
        return places.astype(np.int32) if self._rows is None else self._rows[places]

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each shard to train on."""
        return [self._number]

    @property
    def count(self) -> int:
        """The number of rows to train on."""
        return sum(self.sizes)

    @property
    def visits(self) -> int:
        """How many of them an epoch visits."""
        return self.count

    @property
    def nonzeros(self) -> int:
        """The number of their entries."""
        return int(self.data.nnz if self._rows is None else self.data.entries_of_rows(self._rows))

    @property
    def all_rows(self) -> int:
        """The number of rows, including held-out rows."""
        return int(self.data.rows) if self.every_row is None else len(self.every_row)

    @property
    def all_nonzeros(self) -> int:
        """The number of the entries of all rows."""
        return int(self.data.nnz if self.every_row is None else self.data.entries_of_rows(self.every_row))

    @property
    def longest(self) -> int:
        """The most entries of a row."""
        return int(self.data.longest)

    @property
    def longest_square(self) -> float:
        """The largest squared norm of a row."""
        return float(self.data.longest_square(self.every_row))

    @property
    def total_weight(self) -> float:
        """The sum of the weights of the rows to train on."""
        return float(self.data.total_weight(self._rows))

    @property
    def labels(self) -> RowLabels:
        """The labels of the rows to train on."""
        label, weight, rows = self.data.label, self.data.weight, self._rows
        if rows is not None:
            label, weight = label[rows], None if weight is None else weight[rows]
        return RowLabels(label, weight, self._number, unit=self.data.unit)

    @property
    def shard_bytes(self) -> int:
        """Bytes that shards take in training, apart from `data`."""
        return 0

    @property
    def distinguishing(self) -> list[NDArray[np.generic]]:
        """Arrays that differ if the rows do."""
        return [*self.data.arrays, self.rows, *(self.fields or [])]

    @property
    def in_memory(self) -> bool:
        """Whether `data` has all rows."""
        return True

    def occurrences(self, threads: int) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
        """Two arrays (features): whether each feature occurs in the rows to train on, and how many of them have it; the
        second one is None if it would be larger than the rows."""
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
        """The numbers of the rows to train on, in the order of the text."""
        return self.rows

    @property
    def label_of_each(self) -> NDArray[np.float64]:
        """(rows) the label of each row to train on, in the order of `numbers`."""
        return np.asarray(self.data.label[self.rows], np.float64)

    def whole(self) -> TrainingRows:
        """Return all rows, including held-out rows."""
        return self.only(self.all_numbers)

    def only(self, rows: RowNumbers) -> TrainingRows:
        """Return these of all rows, whose numbers increase."""
        return TrainingRows(self.data, rows, self.fields, self.every_row)

    def holding_out(self, held: RowNumbers) -> tuple[TrainingRows, Dataset]:
        """Return all rows without some, and these. held : their numbers in the order of the text, increasing."""
        every = self.all_numbers
        return self.only(every.compress(~np.isin(every, held))), self.data.take(held)

    def shards(self, order: Sequence[int]) -> Iterator[tuple[Dataset, RowNumbers]]:
        """Return the shards with these numbers, in this order: the data, and the rows to train on, whose order may be
        changed."""
        rows = self._rows
        return ((self.data, numbers_to(self.data.rows) if rows is None else rows.copy()) for _ in order)

    def every(self) -> Iterator[tuple[Dataset, RowNumbers]]:
        """Return all shards that have rows to train on."""
        return self.shards([shard for shard, size in enumerate(self.sizes) if size])

    def each(self, of: Callable[[Dataset, RowNumbers], T]) -> Iterator[T]:
        """Yield the results of a function for each shard, and the rows of it to train on."""
        return (of(data, rows) for data, rows in self.every())
