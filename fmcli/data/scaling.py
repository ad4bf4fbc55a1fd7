"""Column scaling: divisors and centers that bring values near 1 or 0, and detection of columns that need scaling.

Only zscore shifts values, and only in columns that most rows have, so rows stay sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.column_values import centered, moments, scaled
from fmcli.data.dataset import Dataset
from fmcli.records import dataclass

NONE, STANDARD, MAX_ABS, ZSCORE = "none", "standard", "max-abs", "zscore"
# The methods that need the moments of columns.
BY_DEVIATION = (STANDARD, ZSCORE)
# The name of the option, and of the divisors in model files and exported arrays; the name of the centers there.
SCALE, CENTER = "scale", "center"
# zscore centers a column if at least this share of the rows has it. Centering at most doubles the number of entries.
MOST_ROWS = 0.5
# The default step sizes and initial values suit values near 1. Values above this number make training diverge or very
# slow.
LARGE = 1e3
# Columns whose largest values differ by more than this factor cannot share a step size.
MOST_RATIO = 1e3

Divisors = NDArray[np.float32]


@dataclass(frozen=True)
class Scaling:
    """How the values of columns are scaled: x becomes (x - center) / divisor.

    divisors : float32 (features).
    centers : float32 (features), 0 for columns that are not shifted; None: no column is shifted.
    """

    divisors: Divisors
    centers: NDArray[np.float32] | None = None

    def of(self, data: Dataset) -> Dataset:
        """Return the rows with scaled values."""
        if not self.centered:
            return scaled(data, self.divisors)
        assert self.centers is not None
        return centered(data, self.divisors, self.centers)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the arrays by name, as in a model file."""
        return {SCALE: self.divisors} | ({} if self.centers is None else {CENTER: self.centers})

    @property
    def centered(self) -> int:
        """The number of columns that are shifted."""
        return 0 if self.centers is None else int(np.count_nonzero(self.centers))

    def each(self, change: Callable[[NDArray[np.float32], float], NDArray[np.float32]]) -> Scaling:
        """Return the scaling with each array changed by a function of the array and the number that means no
        scaling."""
        return Scaling(change(self.divisors, 1), None if self.centers is None else change(self.centers, 0))

    def keep(self, earlier: Scaling, seen: NDArray[np.bool_]) -> None:
        """Take over an earlier run's scaling of the columns that it has seen."""
        np.copyto(self.divisors[: len(seen)], earlier.divisors, where=seen)
        if self.centers is not None and earlier.centers is not None:
            np.copyto(self.centers[: len(seen)], earlier.centers, where=seen)


def saved_scaling(method: str, arrays: Mapping[str, NDArray[Any]]) -> Scaling | None:
    """Return the scaling in the arrays of a model file, for this method; None if columns are not scaled."""
    names = names_of(method)
    return Scaling(*(arrays[name].astype(np.float32, copy=False) for name in names)) if names else None


def names_of(method: str) -> list[str]:
    """Return the names of the arrays of a method in a model file."""
    return [] if method == NONE else [SCALE, CENTER] if method == ZSCORE else [SCALE]


@dataclass(frozen=True)
class OddColumns:
    """Columns with values far from 1, or of very different scales.

    method : the current scaling of columns.
    large : the number of columns with absolute values above LARGE.
    widest, highest : the feature with the largest absolute value, and this value.
    narrowest, lowest : the feature with the smallest largest absolute value, and this value.
    """

    method: str
    large: int
    widest: int | str
    highest: float
    narrowest: int | str
    lowest: float

    @property
    def found(self) -> str:
        """The columns in words."""
        if self.large:
            others = f", and {self.large - 1:,} more columns have values beyond {LARGE:,.0f}" if self.large > 1 else ""
            return f"column {self.widest} has values up to {self.highest:.3g}{others}"
        return (
            f"columns differ in scale: column {self.widest} has values up to {self.highest:.3g}, column "
            f"{self.narrowest} only up to {self.lowest:.3g}"
        )

    def way_out(self, of: Callable[[str], str]) -> str:
        """Return the advice: a choice that helps, spelled by `of`."""
        scale = of(SCALE)
        if self.method in BY_DEVIATION:
            return f"use {scale} {MAX_ABS}"
        return f"use {scale} {STANDARD}, or {scale} {MAX_ABS} if columns are sparse"


def is_scaled(options: Mapping[str, Any]) -> bool:
    """Return whether a model with these options scales columns."""
    return bool(options[SCALE] != NONE)


def scale_arrays(scaling: Scaling | None) -> dict[str, NDArray[np.float32]]:
    """Return the arrays of a scaling by name, as in a model file; none without a scaling."""
    return {} if scaling is None else scaling.arrays()


@dataclass(frozen=True)
class ColumnStatistics:
    """The statistics of the columns of some rows.

    rows : the weight of the rows: a row of weight n stands for n equal rows.
    largest, smallest : float32 (features), the largest and the smallest absolute value of the entries; 0 without
        entries.
    mean, squares : float64 (features), the mean, and the sum of squared differences from the mean, including zeros.
        Empty if the method does not need them.
    times : float64 (features), the weight of the rows that have the column. Empty if the method does not need it.
    """

    rows: float
    largest: Divisors
    smallest: Divisors
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    times: NDArray[np.float64]

    @classmethod
    def of(cls, data: Dataset, rows: NDArray[np.int32], method: str) -> ColumnStatistics:
        """Return the statistics of these rows that the method needs."""
        by_deviation = moments(data, rows) if method in BY_DEVIATION else (np.zeros(0), np.zeros(0))
        times = data.weights(rows) if method == ZSCORE else np.zeros(0)
        return cls(data.total_weight(rows), *data.magnitudes(rows), *by_deviation, times.astype(np.float64))

    def merged(self, other: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics of these rows and others (Chan, Golub and LeVeque 1979)."""
        rows = self.rows + other.rows
        difference, share = other.mean - self.mean, other.rows / (rows or 1)
        either = np.where(self.smallest > 0, self.smallest, other.smallest)
        return ColumnStatistics(
            rows,
            np.maximum(self.largest, other.largest),
            np.where(other.smallest > 0, np.minimum(either, other.smallest), either),
            self.mean + difference * share,
            self.squares + other.squares + difference**2 * self.rows * share,
            self.times + other.times,
        )

    def divisors(self, method: str) -> Divisors:
        """Return the divisors of the columns; 0 for columns without entries.

        max-abs : the largest absolute value of the column.
        standard, zscore : the standard deviation of the column over all rows, including zeros. A column whose nonzero
            values are all equal, such as an indicator, is divided by this value instead: the standard deviation would
            make the values of a rare indicator huge.
        """
        if method == MAX_ABS:
            return self.largest
        divisors: Divisors = np.where(self.varies, self.deviation, self.largest)
        return divisors

    @property
    def deviation(self) -> Divisors:
        """float32 (features), the standard deviation over all rows."""
        return np.sqrt(self.squares / (self.rows or 1)).astype(np.float32)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """bool (features), whether a column has several nonzero values."""
        return (self.largest > self.smallest) & (self.deviation > 0)

    def centers(self) -> NDArray[np.float32]:
        """Return float32 (features), the mean of each column that at least MOST_ROWS of the rows have, unless it is an
        indicator; 0 for other columns."""
        return np.where(self.varies & (self.times >= MOST_ROWS * self.rows), self.mean, 0).astype(np.float32)


def learn(training: ColumnStatistics, everything: ColumnStatistics, method: str) -> Scaling:
    """Return the scaling of the columns, learned from the training rows.

    A column without entries in them gets its divisor from all rows, because a final model may train on all rows. A
    column without any entries has the divisor 1.
    """
    divisors = training.divisors(method)
    if everything is not training:
        divisors = np.where(divisors > 0, divisors, everything.divisors(method))
    divisors[divisors == 0] = 1
    return Scaling(divisors, training.centers() if method == ZSCORE else None)


def find_odd_columns(data: Dataset, rows: NDArray[np.int32], method: str) -> OddColumns | None:
    """Return the columns whose scale hinders training even with scaling by `method`; None if there are none."""
    if data.value is None and not data.relations:
        return None
    largest, _ = data.magnitudes(rows)
    occurring = np.flatnonzero(largest)
    if not len(occurring):
        return None
    sizes = largest[occurring]
    widest, narrowest = int(sizes.argmax()), int(sizes.argmin())
    highest, lowest = float(sizes[widest]), float(sizes[narrowest])
    if highest <= LARGE and highest <= MOST_RATIO * lowest:
        return None
    large = int(np.count_nonzero(sizes > LARGE))
    both = occurring[[widest, narrowest]]
    ids = both.tolist() if data.numbering is None else data.numbering.written(both)
    return OddColumns(method, large, ids[0], highest, ids[1], lowest)
