"""Whether ids that are numbers need a dictionary: very large numbers, compared with their count."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import of_numbers
from fmcli.data.numbering import occurring

# Numbers need a dictionary if the largest one exceeds their count times the first of these, plus the second.
SPARSITY, MOST_SPARSE = 4, 1 << 20

S = TypeVar("S", bound=Sized)


def if_sparse(features: int, numbers: Callable[[], S]) -> S | None:
    """Return the numbers below `features` that occur if they need a dictionary; None: they do not.

    numbers : returns them, each once. It is called only if the answer depends on their count.
    """
    if not is_sparse(features, 0):
        return None
    found = numbers()
    return found if is_sparse(features, len(found)) else None


def is_sparse(features: int, count: int) -> bool:
    """Return whether numbers below `features`, of which so many occur, need a dictionary."""
    return features - 1 > SPARSITY * count + MOST_SPARSE


def with_dictionary(data: Dataset, into: NDArray[np.int32] | None = None) -> Dataset:
    """Return rows whose column j is feature j, with the columns of a dictionary instead if their features need one.

    into : as in Dataset.renumbered.
    """
    numbering = if_sparse(data.features, lambda: occurring(data.index, data.features))
    if numbering is None:
        return data
    return data.renumbered(numbering, into).changed(numbering=of_numbers(numbering))
