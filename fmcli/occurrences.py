"""Which features occur most, and which of them occur together: counted at training, kept in the model file.

A score says what a pair of features would add, whether or not any row has both. Only pairs that rows do have are worth
showing: two values of one column never meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli._core.data import Dataset

# Features that are counted, the most frequent ones.
MOST = 100
# Pairs that may be counted, about: a millisecond's work. Of larger data every n-th row is looked at.
MOST_PAIRS = 1 << 20
# The array's name in model files.
TOGETHER = "together"


@dataclass(frozen=True)
class Occurrences:
    """The most frequent features, those in the most rows first.

    features, fields : int32 (n), their numbers, and the field of each one's first entry (0 without fields).
    rows : int64 (n), in how many rows each occurs; None: not known.
    together : int32 (n (n - 1) / 2), how many of the rows looked at have both features, for the pairs of places (0, 1),
        (0, 2), .., (1, 2), ..; None: not known.
    looked_at : how many rows that were.
    """

    features: NDArray[np.int32]
    fields: NDArray[np.int32]
    rows: NDArray[np.int64] | None = None
    together: NDArray[np.int32] | None = None
    looked_at: int = 0

    def entries(self) -> dict[str, Any]:
        """What the metadata of a model file say of this."""
        known = None if self.rows is None else {"rows": self.rows.tolist(), "looked_at": self.looked_at}
        return {"frequent": np.stack([self.features, self.fields], axis=1).tolist(), "occurrences": known}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file has of this."""
        return {} if self.together is None else {TOGETHER: self.together}


UNKNOWN = Occurrences(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


def count(data: Dataset, rows: NDArray[np.int32]) -> Occurrences:
    """Count the rows of these numbers. Takes 4 bytes for each feature, and of each row a look at its entries."""
    features, fields, times = data.frequent(rows, MOST)
    some = np.ascontiguousarray(rows[:: stride(data.nnz, data.rows)])
    return Occurrences(features, fields, times, data.together(some, features), len(some))


def stride(entries: int, rows: int) -> int:
    """Every how many rows one is looked at for pairs."""
    length = entries / max(rows, 1)
    return max(1, round(entries * min(length, MOST) / 2 / MOST_PAIRS))


def kept(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Occurrences:
    """What a valid model file has kept; files of earlier versions know the features alone."""
    frequent = np.array(meta["frequent"], dtype=np.int32).reshape(-1, 2)
    features, fields = np.ascontiguousarray(frequent.T)
    known = meta["occurrences"]
    if known is None:
        return Occurrences(features, fields)
    return Occurrences(features, fields, np.array(known["rows"], dtype=np.int64), arrays[TOGETHER], known["looked_at"])
