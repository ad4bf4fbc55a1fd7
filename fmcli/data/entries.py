"""The entries of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset


def rows_of_entries(data: Dataset) -> NDArray[np.int64]:
    """Return the number of the row of each entry."""
    return np.repeat(np.arange(data.rows), np.diff(data.indptr))


def values_of(data: Dataset) -> NDArray[np.float32]:
    """Return the value of each entry, also if all are 1 and so are not kept."""
    return np.ones(data.nnz, dtype=np.float32) if data.value is None else data.value
