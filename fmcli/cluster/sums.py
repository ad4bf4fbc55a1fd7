"""Sums by parameter row, of which those of several partitions are added in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.solvers.rounds.distinct import distinct
from fmcli.solvers.rounds.row_sums import BlockSums


class Sums(NamedTuple):
    """The contribution of some rows to a loss and its gradient.

    loss : the weighted sum, or the part of the mean loss.
    weight : the sum of the weights of the rows.
    blocks : for each block of the model, int32 (n), increasing row ids, and arrays that have a number, or numbers, for
        each of these.
    """

    loss: float
    weight: float
    blocks: Sequence[tuple[NDArray[Any], ...]]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for block in self.blocks for array in block)


class PartSums(NamedTuple):
    """The contributions of the rows of several parts.

    losses, weights : float64 (parts), the weighted sums of the losses, and the sums of the weights.
    blocks : for each block of the model, the sums of one part after the other, and the number of parameter rows that
        each part has, int64 (parts). So there are few arrays to send.
    """

    losses: NDArray[np.float64]
    weights: NDArray[np.float64]
    blocks: Sequence[tuple[BlockSums, NDArray[np.int64]]]

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return sum(array.nbytes for sums, _ in self.blocks for array in sums)

    def of_part(self, part: int, block: int) -> BlockSums:
        """Return the sums of a part in a block."""
        sums, counts = self.blocks[block]
        last = int(counts[: part + 1].sum())
        return BlockSums._make(array[last - int(counts[part]) : last] for array in sums)


def added(parts: Sequence[Sums]) -> Sums:
    """Return the sums of some parts, in their order."""
    blocks = [_added([part.blocks[b] for part in parts]) for b in range(len(parts[0].blocks))]
    return Sums(sum(part.loss for part in parts), sum(part.weight for part in parts), blocks)


def _added(parts: Sequence[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
    if all(np.array_equal(part[0], parts[0][0]) for part in parts[1:]):
        rows = parts[0][0]
        places: list[Any] = [slice(None)] * len(parts)
    else:
        rows, all_places = distinct(np.concatenate([part[0] for part in parts]))
        places = np.split(all_places, np.cumsum([len(part[0]) for part in parts])[:-1])
    totals = []
    for number, like in enumerate(parts[0][1:], start=1):
        total = np.zeros((len(rows), *like.shape[1:]), dtype=like.dtype)
        for part, place in zip(parts, places, strict=True):
            total[place] += part[number]
        totals.append(total)
    return rows, *totals
