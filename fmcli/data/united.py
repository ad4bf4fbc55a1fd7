"""Rows made of two parts, such as a context and an item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.entries import rows_of_entries, values_of

Rows = NDArray[np.int32]


def united(first: Dataset, second: Dataset, one: Rows, other: Rows) -> Dataset:
    """Join rows: row one[i] of the first data set with row other[i] of the second. The two share no feature."""
    parts = first.take(one), second.take(other)
    counts = sum(np.diff(part.indptr) for part in parts)
    row = [rows_of_entries(part) for part in parts]
    index = np.concatenate([part.index for part in parts])
    # Both parts are in order, so a stable sort merges them.
    order = np.argsort((np.concatenate(row) << 32) + index, kind="stable")
    value = None
    if any(part.value is not None for part in parts):
        value = np.concatenate([values_of(part) for part in parts])[order]
    fields = [part.field for part in parts if part.field is not None]
    return Dataset(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        index[order],
        value,
        None,
        max(part.features for part in parts),
        np.concatenate(fields)[order] if len(fields) == len(parts) else None,
        trusted=True,
    )
