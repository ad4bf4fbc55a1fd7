"""Rows that refer to the rows of relations without being joined with them. The relations' entries count as theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.numbering import Numbering, occurring
from fmcli.data.related.joining import joined
from fmcli.records import dataclass

RowNumbers = NDArray[np.int32]


@dataclass(frozen=True)
class Relation:
    """A relation, and the relation row of each row of other data.

    data : the rows of the relation, with the columns of the other data.
    row : int32 (rows of the other data), the number of the relation row.
    """

    data: Dataset
    row: RowNumbers

    def weight(self, rows: RowNumbers, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (rows of the relation) the total weight of the given rows that refer to each. rows : their indices."""
        return np.bincount(self.row[rows], weights[rows], self.data.rows).astype(np.float64)

    def used(self, rows: RowNumbers | None = None) -> NDArray[np.int64]:
        """Return (rows of the relation) the number of given rows that refer to each; None: of all rows."""
        chosen = self.row if rows is None else self.row[rows]
        return np.bincount(chosen, minlength=self.data.rows)


class RelatedRows(Dataset):
    """Rows with relations. The arrays have their own entries; `nnz` and the methods also count the relations' entries.

    Only the compiled loops of coordinate descent and of scoring know the relations; other loops see the own entries.
    A column is in the own rows or in one relation, never in two of them.
    """

    def __init__(self, own: Dataset, relations: Sequence[Relation]) -> None:
        super().__init__(
            own.indptr,
            own.index,
            own.value,
            own.label,
            own.features,
            own.field,
            own.weight,
            group=own.group,
            trusted=True,
            numbering=own.numbering,
            unit=own.unit,
        )
        self._relations = tuple(relations)

    @property
    def relations(self) -> tuple[Relation, ...]:
        return self._relations

    @property
    def nnz(self) -> int:
        return self.entries_of_rows(np.arange(self.rows, dtype=np.int32))

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """All arrays that take memory."""
        parts = [[*relation.data.arrays, relation.row] for relation in self.relations]
        return [*super().arrays, *(array for part in parts for array in part)]

    def changed(self, **arrays: Any) -> RelatedRows:
        columns = {name: arrays[name] for name in ("features", "numbering") if name in arrays}
        return self._with(super().changed(**arrays), lambda data: data.changed(**columns) if columns else data)

    def take(self, rows: RowNumbers) -> RelatedRows:
        chosen = np.asarray(rows, dtype=np.int32)
        relations = [replace(relation, row=relation.row[chosen]) for relation in self.relations]
        return RelatedRows(super().take(chosen), relations)

    def compacted(self, in_place: bool = False) -> RelatedRows:
        if self.numbering is not None:
            return self
        index = [self.index, *(relation.data.index for relation in self.relations)]
        return self.renumbered(occurring(np.concatenate(index), self.features))

    def within(self, features: int) -> RelatedRows:
        return self._with(super().within(features), lambda data: data.within(features))

    def renumbered(self, numbering: Numbering | Dictionary, *arguments: Any, **keywords: Any) -> RelatedRows:
        own = super().renumbered(numbering, *arguments, **keywords)
        return self._with(own, lambda data: data.renumbered(numbering))

    def only(self, features: NDArray[np.bool_]) -> RelatedRows:
        return self._with(super().only(features), lambda data: data.only(features))

    def seen(self, rows: RowNumbers | None = None) -> NDArray[np.bool_]:
        seen = super().seen(rows)
        for relation in self.relations:
            seen |= relation.data.seen(np.flatnonzero(relation.used(rows)).astype(np.int32))
        return seen

    def counts(self, rows: RowNumbers, threads: int = 1) -> NDArray[np.int32]:
        counts = super().counts(rows, threads)
        for relation in self.relations:
            data = relation.data
            times = np.repeat(relation.used(rows), np.diff(data.indptr))
            counts += np.bincount(data.index, weights=times, minlength=self.features).astype(np.int32)
        return counts

    def weights(self, rows: RowNumbers, threads: int = 1) -> NDArray[Any]:
        if self.weight is None:
            return self.counts(rows, threads)
        total = super().weights(rows, threads)
        for relation in self.relations:
            data, weights = relation.data, relation.weight(rows, self.weight)
            total += np.bincount(data.index, np.repeat(weights, np.diff(data.indptr)), self.features)
        return total

    def entries_of_rows(self, rows: RowNumbers) -> int:
        joined_entries = (relation.used(rows) @ np.diff(relation.data.indptr) for relation in self.relations)
        return int(super().entries_of_rows(rows)) + sum(map(int, joined_entries))

    def magnitudes(self, rows: RowNumbers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        largest, smallest = super().magnitudes(rows)
        for relation in self.relations:
            others = relation.data.magnitudes(np.flatnonzero(relation.used(rows)).astype(np.int32))
            largest, smallest = largest + others[0], smallest + others[1]  # one of the two terms is 0
        return largest, smallest

    def longest_square(self, rows: RowNumbers | None = None) -> float:
        """Return an upper bound of the largest squared norm of these rows; None: of all rows."""
        return float(super().longest_square(rows)) + sum(relation.data.longest_square() for relation in self.relations)

    def joined(self, rows: RowNumbers) -> Dataset:
        """Return these rows with the entries of their relation rows."""
        own = super().take(rows)
        return joined(own, [(relation.data, relation.row[rows]) for relation in self.relations])

    def _with(self, own: Dataset, change: Callable[[Dataset], Dataset]) -> RelatedRows:
        return RelatedRows(own, [replace(relation, data=change(relation.data)) for relation in self.relations])
