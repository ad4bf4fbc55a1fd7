"""Rows that refer to the rows of blocks, whose entries count as theirs, without being joined with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.numbering import Numbering, occurring
from fmcli.data.related.joining import joined

RowNumbers = NDArray[np.int32]


@dataclass(frozen=True)
class Relation:
    """A block, and which of its rows belongs to each row of other data.

    block : the rows of the block, with the columns of the other data.
    row : int32 (rows of the other data).
    """

    block: Dataset
    row: RowNumbers

    def used(self, rows: RowNumbers | None = None) -> NDArray[np.int64]:
        """Return (rows of the block) how many of the rows with these indices refer to each; None: of all rows."""
        chosen = self.row if rows is None else self.row[rows]
        return np.bincount(chosen, minlength=self.block.rows)


class RelatedRows(Dataset):
    """Rows with relations: the arrays have their own entries, `nnz` and the methods count those of the blocks, too.

    Compiled loops see the own entries only; those of coordinate descent and of scoring know the relations. No column
    occurs in two of the own rows and the blocks.
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
        parts = [[*relation.block.arrays, relation.row] for relation in self.relations]
        return [*super().arrays, *(array for part in parts for array in part)]

    def changed(self, **arrays: Any) -> RelatedRows:
        columns = {name: arrays[name] for name in ("features", "numbering") if name in arrays}
        return self._with(super().changed(**arrays), lambda block: block.changed(**columns) if columns else block)

    def take(self, rows: RowNumbers) -> RelatedRows:
        chosen = np.asarray(rows, dtype=np.int32)
        relations = [replace(relation, row=relation.row[chosen]) for relation in self.relations]
        return RelatedRows(super().take(chosen), relations)

    def compacted(self, in_place: bool = False) -> RelatedRows:
        if self.numbering is not None:
            return self
        index = [self.index, *(relation.block.index for relation in self.relations)]
        return self.renumbered(occurring(np.concatenate(index), self.features))

    def within(self, features: int) -> RelatedRows:
        return self._with(super().within(features), lambda block: block.within(features))

    def renumbered(self, numbering: Numbering | Dictionary, *arguments: Any, **keywords: Any) -> RelatedRows:
        own = super().renumbered(numbering, *arguments, **keywords)
        return self._with(own, lambda block: block.renumbered(numbering))

    def only(self, features: NDArray[np.bool_]) -> RelatedRows:
        return self._with(super().only(features), lambda block: block.only(features))

    def seen(self, rows: RowNumbers | None = None) -> NDArray[np.bool_]:
        seen = super().seen(rows)
        for relation in self.relations:
            seen |= relation.block.seen(np.flatnonzero(relation.used(rows)).astype(np.int32))
        return seen

    def counts(self, rows: RowNumbers, threads: int = 1) -> NDArray[np.int32]:
        counts = super().counts(rows, threads)
        for relation in self.relations:
            block = relation.block
            times = np.repeat(relation.used(rows), np.diff(block.indptr))
            counts += np.bincount(block.index, weights=times, minlength=self.features).astype(np.int32)
        return counts

    def entries_of_rows(self, rows: RowNumbers) -> int:
        blocks = (relation.used(rows) @ np.diff(relation.block.indptr) for relation in self.relations)
        return int(super().entries_of_rows(rows)) + sum(map(int, blocks))

    def magnitudes(self, rows: RowNumbers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        largest, smallest = super().magnitudes(rows)
        for relation in self.relations:
            others = relation.block.magnitudes(np.flatnonzero(relation.used(rows)).astype(np.int32))
            largest, smallest = largest + others[0], smallest + others[1]  # one of them is 0
        return largest, smallest

    def longest_square(self) -> float:
        """Return an upper bound of the largest squared norm of a row."""
        return float(super().longest_square()) + sum(relation.block.longest_square() for relation in self.relations)

    def joined(self, rows: RowNumbers) -> Dataset:
        """Return the rows with these indices, with the entries of the rows that they refer to."""
        own = super().take(rows)
        return joined(own, [(relation.block, relation.row[rows]) for relation in self.relations])

    def _with(self, own: Dataset, change: Callable[[Dataset], Dataset]) -> RelatedRows:
        return RelatedRows(own, [replace(relation, block=change(relation.block)) for relation in self.relations])
