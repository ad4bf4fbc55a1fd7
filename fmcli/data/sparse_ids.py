"""Whether numeric ids need a dictionary: if they are very large compared with the number of ids."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import of_numbers
from fmcli.data.numbering import occurring

# Ids need a dictionary if the largest id exceeds SPARSITY times the number of ids, plus MOST_SPARSE.
SPARSITY, MOST_SPARSE = 4, 1 << 20

S = TypeVar("S", bound=Sized)


def if_sparse(features: int, numbers: Callable[[], S]) -> S | None:
    """Return the ids that occur if they need a dictionary; otherwise None. features : above all ids.

    numbers : returns the ids that occur, each once. It is called only if the answer depends on their count.
    """
    if not is_sparse(features, 0):
        return None
    found = numbers()
    return found if is_sparse(features, len(found)) else None


def is_sparse(features: int, count: int) -> bool:
    """Return whether ids below `features` need a dictionary if `count` of them occur."""
    return features - 1 > SPARSITY * count + MOST_SPARSE


def with_dictionary(data: Dataset, into: NDArray[np.int32] | None = None) -> Dataset:
    """Return the rows with the columns of a dictionary if their features need one. In `data`, column j is feature j.

    into : as in Dataset.renumbered.
    """
    numbering = if_sparse(data.features, lambda: occurring(data.index, data.features))
    if numbering is None:
        return data
    return data.renumbered(numbering, into).changed(numbering=of_numbers(numbering))
