"""Columns of tables to predict whose cells are unlike the training cells: other spellings of names, other units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.scaling import BY_DEVIATION, SCALE
from fmcli.data.tables.schema import CATEGORY, NUMBER, Schema
from fmcli.data.transform import Transform
from fmcli.records import dataclass
from fmcli.scoring.scorer import Scorer
from fmcli.text import escaped, figure

# Fewer rows may well all be unusual.
FEW_ROWS = 10
# A column of names is spelled otherwise if at most this share of the rows have a name of training.
FEW_KNOWN = 0.02
# A column of numbers is unlike that of training if its mean is this many standard deviations from the mean there; or if
# mean and deviation are both UNIT times as large, or as small, and agree up to a factor of ALIKE, in MANY_ROWS or more.
FAR, UNIT, ALIKE, MANY_ROWS = 10, 8, 2, 30
# The most rows of a table in memory that are compared.
MOST_ROWS = 1 << 16


class PieceSums(NamedTuple):
    """The sums over the entries of some rows: features, in how many entries each occurs, the sums of its values and of
    their squares; and the numbers of rows and of entries whose feature did not occur in training."""

    features: NDArray[Any]
    times: NDArray[np.int64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    rows: int
    unseen: int


def sums_of(data: Dataset, unseen: int) -> PieceSums:
    """Return the sums of rows with the columns of the model."""
    if data.features <= data.nnz:
        place: NDArray[Any] = data.index
        features = occurring = np.flatnonzero(np.bincount(place))
    else:  # much slower, but needs no memory for all features
        features, place = np.unique(data.index, return_inverse=True)
        occurring = np.arange(len(features))
    value = np.ones(data.nnz) if data.value is None else data.value.astype(np.float64)
    sums: NDArray[Any] = np.bincount(place, value)[occurring]
    squares: NDArray[Any] = np.bincount(place, value**2)[occurring]
    return PieceSums(features, np.bincount(place)[occurring], sums, squares, data.rows, unseen)


def is_sampled(number: int) -> bool:
    """Return whether the piece of an input with this number belongs to the sample: 0, 1, 2, 4, 8, .., so that a long
    sorted input costs little, and yet its beginning does not stand for all of it."""
    return number & (number - 1) == 0


@dataclass
class Sample:
    """The sums of a sample of the rows, by piece."""

    pieces: list[PieceSums] = field(default_factory=list)

    @classmethod
    def of(cls, transform: Transform, data: Dataset) -> Sample:
        """Return the sums of evenly spaced rows of a table that is in memory."""
        some = data.take(np.linspace(0, data.rows - 1, min(data.rows, MOST_ROWS)).astype(np.int32))
        known = transform.in_columns(some)
        return cls([sums_of(known, some.nnz - known.nnz)])

    def add(self, other: Sample) -> None:
        """Add the pieces of further rows."""
        self.pieces += other.pieces


def doubts(scorer: Scorer, sample: Sample) -> Iterator[str]:
    """Yield, for each column of a table that is unlike the column in training, what is unlike."""
    schema, numbering = scorer.transform.table, scorer.numbering
    rows = sum(piece.rows for piece in sample.pieces)
    if rows <= FEW_ROWS or schema is None or not isinstance(numbering, Dictionary):
        return
    features, place = np.unique(np.concatenate([piece.features for piece in sample.pieces]), return_inverse=True)
    times, sums, squares = (
        np.bincount(place, np.concatenate(arrays), minlength=len(features))
        for arrays in zip(*[(piece.times, piece.sums, piece.squares) for piece in sample.pieces], strict=True)
    )
    if sum(piece.unseen for piece in sample.pieces) >= (1 - FEW_KNOWN) * rows:
        names = map(str, numbering.written(features))
        yield from other_names(scorer, schema, dict(zip(names, times.astype(int).tolist(), strict=True)), rows)
    if scorer.meta["options"][SCALE] in BY_DEVIATION:
        moments = {
            feature: (mean, max(square - mean**2, 0) ** 0.5)
            for feature, mean, square in zip(
                *(each.tolist() for each in (features, sums / rows, squares / rows)), strict=True
            )
        }
        yield from other_numbers(scorer, schema, numbering, moments, rows)


def other_names(scorer: Scorer, schema: Schema, times: dict[str, int], rows: int) -> Iterator[str]:
    """Yield what is unlike in columns of names. times : feature -> the number of rows that have it."""
    known = dict.fromkeys([name for name in schema.features if schema.kinds[name] == CATEGORY], 0)
    for place, number in zip(schema.columns_of(times), times.values(), strict=True):
        if place is not None and (name := schema.features[place]) in known:
            known[name] += number
    usual = [str(id) for id in scorer.ids(scorer.occurrences.features)]
    for name, count in known.items():
        if count <= FEW_KNOWN * rows:
            begin, have = f"{escaped(name)}=", "has" if count < 2 else "have"
            example = next((f", such as {id.removeprefix(begin)}" for id in usual if id.startswith(begin)), "")
            yield (
                f"column {name}: {f'only {count:,}' if count else 'none'} of {rows:,} rows {have} a value that "
                f"occurred in training{example}: is it spelled in another way here?"
            )


def other_numbers(
    scorer: Scorer, schema: Schema, numbering: Dictionary, moments: dict[int, tuple[float, float]], rows: int
) -> Iterator[str]:
    """Yield what is unlike in columns of numbers. moments : feature -> the mean and the deviation of its values."""
    assert scorer.transform.scale is not None
    divisors = scorer.transform.scale.divisors
    for name in schema.numbers:
        feature = numbering.ids.find(escaped(name).encode()) if schema.kinds[name] == NUMBER else None
        if feature not in moments or not schema.means.get(name):
            continue
        (mean, deviation), (before,), spread = moments[feature], schema.means[name], float(divisors[feature])
        is_far = abs(mean - before) > FAR * spread
        if is_far or (rows >= MANY_ROWS and of_other_unit((mean, deviation), (before, spread))):
            yield (
                f"column {name}: its mean is {figure(mean)} in {rows:,} rows, but was {figure(before)} in training, "
                f"with a standard deviation of {figure(spread)}: are its numbers in the same unit?"
            )


def of_other_unit(here: tuple[float, float], before: tuple[float, float]) -> bool:
    """Return whether numbers have another unit, by mean and deviation here and in training."""
    if not (all(before) and here[1]):
        return False
    low, high = sorted(one / other for one, other in zip(here, before, strict=True))
    return (low >= UNIT or 0 < high <= 1 / UNIT) and high <= ALIKE * low
