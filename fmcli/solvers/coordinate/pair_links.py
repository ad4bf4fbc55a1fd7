"""The links between the users and the items of observed pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.shards.observed_rows import Sides
from fmcli.models.layout import REAL_TYPE
from fmcli.records import dataclass


@dataclass(frozen=True)
class PairLinks:
    """The observed pairs of parts, which are contexts and then items. Each pair counts twice, for either part.

    contexts : the number of contexts.
    begin : int64 (parts + 1), where the pairs of each part begin; pairs of contexts come before pairs of items.
    other : int32 (2 pairs), the other part of each pair.
    share : float32 (2 pairs), its share of the weight of all pairs.
    """

    contexts: int
    begin: NDArray[np.int64]
    other: NDArray[np.int32]
    share: NDArray[np.floating[Any]]

    @classmethod
    def of(cls, sides: Sides, shares: NDArray[np.float64]) -> PairLinks:
        """Return the links of pairs with these shares of the weight."""
        contexts, items, count = sides.contexts.rows, sides.items.rows, len(shares)
        sizes = [np.bincount(sides.context, minlength=contexts), np.bincount(sides.item, minlength=items)]
        other, share = np.empty(2 * count, dtype=np.int32), np.empty(2 * count, dtype=REAL_TYPE)
        for place, mine, others in (
            (slice(count), sides.context, sides.item + contexts),
            (slice(count, None), sides.item, sides.context),
        ):
            order = np.argsort(mine, kind="stable")
            other[place], share[place] = others[order], shares[order]
        begin = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        return cls(contexts, begin.astype(np.int64), other, share)

    @staticmethod
    def bytes_needed(count: int) -> int:
        """Return the bytes of the links of a number of pairs while they are made."""
        return count * (2 * (np.dtype(np.int32).itemsize + REAL_TYPE.itemsize) + 4 * np.dtype(np.int64).itemsize)

    @property
    def count(self) -> int:
        """The number of pairs."""
        return len(self.other) // 2
