"""Hashes of rows, to find equal rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.mixing import mixed
from fmcli.data.dataset import Dataset

Hashes = NDArray[np.uint64]

FIELD = 1 << 32  # moves a field above the column in the hashed number
# Entries that are hashed at a time: temporary numbers take some 50 bytes for each.
ENTRIES_AT_ONCE = 1 << 18


def hashes(data: Dataset, kept: NDArray[np.bool_] | None = None) -> Hashes:
    """Return (rows) a hash of each row's set of entries in the kept columns; None: in all."""
    found = np.zeros(data.rows, dtype=np.uint64)
    starts = np.searchsorted(data.indptr, np.arange(0, data.nnz, ENTRIES_AT_ONCE))
    for begin, end in pairwise([*np.unique(starts).tolist(), data.rows]):
        found[begin:end] = _hashes(data, kept, begin, end)
    return found


def _hashes(data: Dataset, kept: NDArray[np.bool_] | None, begin: int, end: int) -> Hashes:
    """Return the hashes of rows begin:end."""
    indptr = data.indptr[begin : end + 1]
    entries = slice(int(indptr[0]), int(indptr[-1]))
    index = data.index[entries]
    value = np.ones(len(index), dtype=np.float32) if data.value is None else np.ascontiguousarray(data.value[entries])
    field = 0 if data.field is None else data.field[entries].astype(np.int64)
    of_entry = mixed((index.astype(np.int64) + field * FIELD).view(np.uint64))
    of_entry = mixed(of_entry ^ value.view(np.uint32).astype(np.uint64))
    if kept is not None:
        of_entry[~kept[index]] = 0
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(of_entry, dtype=np.uint64)])
    return np.asarray(sums[indptr[1:] - indptr[0]] - sums[indptr[:-1] - indptr[0]])


def places_in(known: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each wanted hash among the known hashes; -1 if it is not there."""
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    return np.where(known[order][at] == wanted, order[at], -1)


def equal_rows(known: Hashes, wanted: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of known rows in the order of their hashes; and for each wanted row where equal ones begin
    among these, and how many they are: none for rows without entries."""
    order = np.argsort(known, kind="stable")
    begin, end = (np.searchsorted(known[order], wanted, side=side) for side in ("left", "right"))
    return order, begin, np.where(wanted == 0, 0, end - begin)


def spread(begin: NDArray[np.int64], size: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all places of some ranges, one range after the other: the number of the range, and the place."""
    group = np.repeat(np.arange(len(size)), size)
    return group, np.arange(len(group)) + np.repeat(begin - (np.cumsum(size) - size), size)
