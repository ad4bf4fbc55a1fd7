"""Feature counts: how many training rows have each feature, and each pair of features. The model file keeps them.

A model has a score for every pair of features, even if no row has both. Only pairs that occur are worth showing: two
values of one categorical column never occur together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.mixing import mixed
from fmcli.base.scan import most_frequent
from fmcli.data.counts.pairs import first_fields, together
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.numbering import Numbering
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.records import dataclass

# Pairs of the MOST most frequent features are counted.
MOST = 100
# The largest number of pairs to count, which takes about a millisecond. In larger data, every n-th row is counted.
MOST_PAIRS = 1 << 20
# The names of the arrays in a model file.
TOGETHER, COUNTS = "together", "counts"
# Counts are stored in the first type that can represent all of them.
TYPES = (np.dtype(np.uint8), np.dtype(np.int32))
MOST_ROWS = np.iinfo(np.int32).max  # larger counts are stored as this number
# The number of checksums; the number of labels read at a time.
CHECKSUMS, ROWS_AT_ONCE = 1 << 32, 1 << 16


@dataclass(frozen=True)
class Occurrences:
    """The most frequent features in decreasing order of frequency, and the number of rows that have each feature.
    Features are given by their columns, except in a file.

    features, fields : int32 (n), the columns of the features, and the field of each feature's first entry (0 without
        fields).
    rows : int64 (n), the number of rows that have each feature; None: not known.
    together : int32 (n (n - 1) / 2), the number of examined rows that have both features, for the pairs of positions
        (0, 1), (0, 2), .., (1, 2), ..; None: not known.
    looked_at : the number of rows examined for pairs.
    counts : one of TYPES (all features), the number of rows that have each feature; None: known only for the most
        frequent features.
    total : the number of all rows; None: not known.
    labels : a checksum of the labels of the last run's rows, to recognize the same rows; None: not known.
    """

    features: NDArray[np.int32]
    fields: NDArray[np.int32]
    rows: NDArray[np.int64] | None = None
    together: NDArray[np.int32] | None = None
    looked_at: int = 0
    counts: NDArray[Any] | None = None
    labels: int | None = None
    total: int | None = None

    @property
    def covered(self) -> int:
        """The number of all rows, or its lower bound; 0 if only the most frequent features are known."""
        if self.counts is None:
            return 0
        return int(self.counts.max(initial=0)) if self.total is None else self.total

    def entries(self, numbering: Numbering | Dictionary | None) -> dict[str, Any]:
        """Return the entries for the metadata of a model file. `numbering` : of the columns."""
        known = None
        features = self.features if numbering is None else numbering.features_of(self.features)
        if self.rows is not None:
            known = {"rows": self.rows.tolist(), "looked_at": self.looked_at, "labels": self.labels}
            known |= {} if self.total is None else {"total": self.total}
        return {"frequent": np.stack([features, self.fields], axis=1).tolist(), "occurrences": known}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays for a model file, by name."""
        arrays = {TOGETHER: self.together, COUNTS: self.counts}
        return {name: array for name, array in arrays.items() if array is not None}

    def rows_of(self, features: list[int]) -> list[int | None]:
        """Return the number of rows that have each of these features; None if it is not known."""
        if self.counts is not None:
            return [int(self.counts[j]) for j in features]
        known = {} if self.rows is None else dict(zip(self.features.tolist(), self.rows.tolist(), strict=True))
        return [known.get(j) for j in features]


UNKNOWN = Occurrences(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


def bytes_needed(features: int, *, resumed: bool) -> int:
    """Return the bytes that `count` takes per feature: a count, a position, and a sum with the warm-start model's
    count."""
    count, place, total = np.dtype(np.int32).itemsize, 1, np.dtype(np.int64).itemsize
    return features * (2 * count + place + (total if resumed else 0))


def count(
    data: Dataset,
    rows: NDArray[np.int32],
    previous: Occurrences = UNKNOWN,
    times: NDArray[np.int32] | None = None,
    total: int | None = None,
    labels: int | None = None,
) -> Occurrences:
    """Count the features of the rows with these indices.

    Parameters
    ----------
    previous : the counts of the warm start. They are added if they cover all features, unless the rows are the same
        as before.
    times : int32 (features), the number of the run's rows that have each feature, if known.
    total, labels : the number of the run's rows, and the checksum of their labels, if `rows` are only some of them.
    """
    times = data.counts(rows) if times is None else times
    labels = checksum(data, rows) if labels is None else labels
    before, total = previous.counts, len(rows) if total is None else total
    if have_counts(previous, times) and labels == previous.labels:
        before = None
    if before is not None:
        times = added(times, before)
        total += previous.covered
    features = most_frequent(times, MOST)
    some = np.ascontiguousarray(rows[:: stride(data.nnz, data.rows)])
    found = Occurrences(
        features,
        first_fields(data, rows, features),
        times[features].astype(np.int64),
        together(data.joined(some), features),
        len(some),
        compact(times),
        labels,
        total,
    )
    return found if before is None else with_earlier(found, previous)


def stride(entries: int, rows: int) -> int:
    """Return n: every n-th row is examined for pairs."""
    length = entries / max(rows, 1)
    return max(1, round(entries * min(length, MOST) / 2 / MOST_PAIRS))


def added(counts: NDArray[Any], others: NDArray[Any]) -> NDArray[np.int32]:
    """Return the sums of two arrays of counts as int32; the second array may be shorter."""
    total = counts.astype(np.int64)
    total[: len(others)] += others
    return np.minimum(total, MOST_ROWS, out=total).astype(np.int32)


def checksum(data: Dataset, rows: NDArray[np.int32]) -> int:
    """Return the checksum of the labels of rows, a sum of hashes. The order of the rows does not matter."""
    total = 0
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        total += int(hashes(data.label[rows[begin : begin + ROWS_AT_ONCE]]).sum())
    return total % CHECKSUMS


def hashes(label: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash of each label; -0 counts as 0."""
    return mixed((label + 0.0).view(np.uint64))


def checksum_of(source: TrainingRows) -> int:
    """Return the checksum of the labels of the training rows, wherever they are. A cache that knows the number of rows
    of each label is not read."""
    if source.in_memory:
        return checksum(source.data, source.rows)
    labels = source.labels
    if labels.times is not None:
        return int((hashes(labels.label) * labels.times.astype(np.uint64)).sum()) % CHECKSUMS
    return sum(source.each(checksum)) % CHECKSUMS


def have_counts(previous: Occurrences, times: NDArray[np.int32]) -> bool:
    """Return whether `times` are the counts of a warm-start model, which may have fewer features."""
    before = previous.counts
    if before is None or len(before) > len(times):
        return False
    return np.array_equal(times[: len(before)], before) and not times[len(before) :].any()


def compact(times: NDArray[np.int32]) -> NDArray[Any]:
    """Return the counts in the smallest type that can represent them."""
    highest = times.max(initial=0)
    return times.astype(next(kind for kind in TYPES if highest <= np.iinfo(kind).max))


def with_earlier(found: Occurrences, previous: Occurrences) -> Occurrences:
    """Add a warm-start model's counts of pairs whose features are among the most frequent features of both. Features
    without a field here get the model's fields."""
    if previous.together is None:
        return found
    size, places = len(previous.features), {j: place for place, j in enumerate(previous.features.tolist())}
    place = np.array([places.get(j, size) for j in found.features.tolist()], dtype=np.intp)
    table = np.zeros((size + 1, size + 1), dtype=np.int32)  # the last row and column stand for all other features
    table[np.triu_indices(size, 1)] = previous.together
    one, other = np.triu_indices(len(place), 1)
    before = np.maximum(table, table.T)[place[one], place[other]]
    known = np.append(previous.fields, 0)[place]
    return replace(
        found,
        fields=np.where(found.fields == 0, known, found.fields).astype(np.int32),
        together=added(before, found.together if found.together is not None else before[:0]),
        looked_at=found.looked_at + previous.looked_at,
    )


def kept(
    meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], numbering: Numbering | Dictionary | None
) -> Occurrences:
    """Return the counts in a valid model file with this numbering of columns; imported models have none."""
    frequent = np.array(meta["frequent"], dtype=np.int32).reshape(-1, 2)
    features, fields = np.ascontiguousarray(frequent.T)
    if numbering is not None:
        features = numbering.columns_of(features)
    known = meta["occurrences"]
    if known is None:
        return Occurrences(features, fields)
    rows = np.array(known["rows"], dtype=np.int64)
    return Occurrences(
        features,
        fields,
        rows,
        arrays[TOGETHER],
        known["looked_at"],
        arrays.get(COUNTS),
        known.get("labels"),
        known.get("total"),
    )
