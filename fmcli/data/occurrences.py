"""Which features occur how often, and which of them together: counted at training, kept in the model file.

A score says what a pair of features would add, whether or not any row has both. Only pairs that rows do have are worth
showing: two values of one column never meet.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset, most_frequent

# Features of which pairs are counted, the most frequent ones.
MOST = 100
# Pairs that may be counted, about: a millisecond's work. Of larger data every n-th row is looked at.
MOST_PAIRS = 1 << 20
# The arrays' names in model files.
TOGETHER, COUNTS = "together", "counts"
# Counts of all features are kept if they take at most so many bytes, or such a part of what the parameters take.
SMALL, PART = 1 << 20, 1 / 4
# What they are kept as: the first type that holds them all.
TYPES = (np.dtype(np.uint8), np.dtype(np.int32))
MOST_ROWS = np.iinfo(np.int32).max  # more rows than that are not told from it


@dataclass(frozen=True)
class Occurrences:
    """The most frequent features, those in the most rows first, and in how many rows each feature is.

    features, fields : int32 (n), their numbers, and the field of each one's first entry (0 without fields).
    rows : int64 (n), in how many rows each occurs; None: not known.
    together : int32 (n (n - 1) / 2), how many of the rows looked at have both features, for the pairs of places (0, 1),
        (0, 2), .., (1, 2), ..; None: not known.
    looked_at : how many rows that were.
    counts : one of TYPES (all features), in how many rows each occurs; None: known of the most frequent ones alone.
    labels : a checksum of the labels of the last run's rows, by which the same rows are known again; None: not known.
    """

    features: NDArray[np.int32]
    fields: NDArray[np.int32]
    rows: NDArray[np.int64] | None = None
    together: NDArray[np.int32] | None = None
    looked_at: int = 0
    counts: NDArray[Any] | None = None
    labels: int | None = None

    def entries(self) -> dict[str, Any]:
        """What the metadata of a model file say of this."""
        known = None
        if self.rows is not None:
            known = {"rows": self.rows.tolist(), "looked_at": self.looked_at, "labels": self.labels}
        return {"frequent": np.stack([self.features, self.fields], axis=1).tolist(), "occurrences": known}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file has of this."""
        arrays = {TOGETHER: self.together, COUNTS: self.counts}
        return {name: array for name, array in arrays.items() if array is not None}

    def rows_of(self, features: list[int]) -> list[int | None]:
        """In how many rows each of some features occurs; None where that is not known."""
        if self.counts is not None:
            return [int(self.counts[j]) for j in features]
        known = {} if self.rows is None else dict(zip(self.features.tolist(), self.rows.tolist(), strict=True))
        return [known.get(j) for j in features]


UNKNOWN = Occurrences(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


def bytes_needed(features: int, *, resumed: bool) -> int:
    """Bytes that `count` takes: a count and a place for each feature, and sums with what an earlier model counted."""
    count, place, total = np.dtype(np.int32).itemsize, 1, np.dtype(np.int64).itemsize
    return features * (2 * count + place + (total if resumed else 0))


def count(data: Dataset, rows: NDArray[np.int32], parameters: int, earlier: Occurrences = UNKNOWN) -> Occurrences:
    """Count the rows of these numbers.

    Parameters
    ----------
    parameters : the bytes that the model's parameters take in its file.
    earlier : what an earlier model has counted, which is added if it knows all features' counts and these rows are not
        the same again.
    """
    times, labels, before = data.counts(rows), zlib.crc32(data.label[rows].data), earlier.counts
    if before is not None and labels == earlier.labels and np.array_equal(times, before):
        before = None
    if before is not None:
        times = added(times, before)
    features = most_frequent(times, MOST)
    some = np.ascontiguousarray(rows[:: stride(data.nnz, data.rows)])
    found = Occurrences(
        features,
        data.first_fields(rows, features),
        times[features].astype(np.int64),
        data.together(some, features),
        len(some),
        compact(times, max(SMALL, int(PART * parameters))),
        labels,
    )
    return found if before is None else joined(found, earlier)


def stride(entries: int, rows: int) -> int:
    """Every how many rows one is looked at for pairs."""
    length = entries / max(rows, 1)
    return max(1, round(entries * min(length, MOST) / 2 / MOST_PAIRS))


def added(counts: NDArray[Any], others: NDArray[Any]) -> NDArray[np.int32]:
    """int32: the sums of two arrays of counts, of which the second may be shorter."""
    total = counts.astype(np.int64)
    total[: len(others)] += others
    return np.minimum(total, MOST_ROWS, out=total).astype(np.int32)


def compact(times: NDArray[np.int32], room: int) -> NDArray[Any] | None:
    """The counts in the smallest type that holds them; None where that takes more bytes than there is room for."""
    highest = times.max(initial=0)
    kind = next(kind for kind in TYPES if highest <= np.iinfo(kind).max)
    return times.astype(kind) if kind.itemsize * len(times) <= room else None


def joined(found: Occurrences, earlier: Occurrences) -> Occurrences:
    """With an earlier model's pairs added, of features that are among the most frequent ones of both, and its fields of
    features that only it has met."""
    if earlier.together is None:
        return found
    size, places = len(earlier.features), {j: place for place, j in enumerate(earlier.features.tolist())}
    place = np.array([places.get(j, size) for j in found.features.tolist()], dtype=np.intp)
    table = np.zeros((size + 1, size + 1), dtype=np.int32)  # the last ones are of all other features
    table[np.triu_indices(size, 1)] = earlier.together
    one, other = np.triu_indices(len(place), 1)
    before = np.maximum(table, table.T)[place[one], place[other]]
    known = np.append(earlier.fields, 0)[place]
    return replace(
        found,
        fields=np.where(found.fields == 0, known, found.fields).astype(np.int32),
        together=added(before, found.together if found.together is not None else before[:0]),
        looked_at=found.looked_at + earlier.looked_at,
    )


def kept(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Occurrences:
    """What a valid model file has kept; files of earlier versions know the features alone."""
    frequent = np.array(meta["frequent"], dtype=np.int32).reshape(-1, 2)
    features, fields = np.ascontiguousarray(frequent.T)
    known = meta["occurrences"]
    if known is None:
        return Occurrences(features, fields)
    rows = np.array(known["rows"], dtype=np.int64)
    return Occurrences(
        features, fields, rows, arrays[TOGETHER], known["looked_at"], arrays.get(COUNTS), known.get("labels")
    )
