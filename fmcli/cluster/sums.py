"""Sums by parameter row, and their addition over partitions in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.solvers.rounds.distinct import distinct
from fmcli.solvers.rounds.row_sums import BlockSums


class GradientSums(NamedTuple):
    """The contribution of some rows to a loss and its gradient.

    loss : the weighted sum of the losses, or the rows' part of the mean loss.
    weight : the sum of the weights of the rows.
    blocks : for each block of the model, int32 (n), increasing row ids, and arrays (n, ..) with the sums of each
        row id.
    """

    loss: float
    weight: float
    blocks: Sequence[tuple[NDArray[Any], ...]]

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.nbytes for block in self.blocks for array in block)


class ShareSums(NamedTuple):
    """The contributions of the rows of several shares.

    losses, weights : float64 (shares), the weighted sums of the losses, and the sums of the weights.
    blocks : for each block of the model, the concatenated sums of the shares, and the number of parameter rows of each
        share, int64 (shares). So few arrays are sent.
    """

    losses: NDArray[np.float64]
    weights: NDArray[np.float64]
    blocks: Sequence[tuple[BlockSums, NDArray[np.int64]]]

    @property
    def nbytes(self) -> int:
        """The size of the sums in bytes."""
        return sum(array.nbytes for sums, _ in self.blocks for array in sums)

    def of_share(self, share: int, block: int) -> BlockSums:
        """Return the sums of a share in a block."""
        sums, counts = self.blocks[block]
        last = int(counts[: share + 1].sum())
        return BlockSums._make(array[last - int(counts[share]) : last] for array in sums)


def added(shares: Sequence[GradientSums]) -> GradientSums:
    """Return the sums of some shares, in their order."""
    blocks = [_added([share.blocks[b] for share in shares]) for b in range(len(shares[0].blocks))]
    return GradientSums(sum(share.loss for share in shares), sum(share.weight for share in shares), blocks)


def _added(shares: Sequence[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
    if all(np.array_equal(share[0], shares[0][0]) for share in shares[1:]):
        rows = shares[0][0]
        places: list[Any] = [slice(None)] * len(shares)
    else:
        rows, all_places = distinct(np.concatenate([share[0] for share in shares]))
        places = np.split(all_places, np.cumsum([len(share[0]) for share in shares])[:-1])
    totals = []
    for number, like in enumerate(shares[0][1:], start=1):
        total = np.zeros((len(rows), *like.shape[1:]), dtype=like.dtype)
        for share, place in zip(shares, places, strict=True):
            total[place] += share[number]
        totals.append(total)
    return rows, *totals
