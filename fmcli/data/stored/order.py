"""The order of the rows in a chunk of a cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CACHE_SEED = 0x66_6D  # the permutation is the same for every seed of a run


def permuted(chunk: int, rows: int) -> NDArray[np.int32]:
    """Return the numbers of the rows of a chunk in their random order."""
    every = np.arange(rows, dtype=np.int32)
    np.random.default_rng([CACHE_SEED, chunk]).shuffle(every)
    return every


def inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the position of each number in an order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place
