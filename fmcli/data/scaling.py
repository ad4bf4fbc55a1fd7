"""Column scaling: divisors that bring the values near 1, and the detection of columns that need it.

Values are not shifted, so that a value of 0 stays 0 and rows stay sparse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.registry.options import OPTIONS

NONE, STANDARD, MAX_ABS = "none", "standard", "max-abs"
# The name of the option, and of the divisors in model files and exported arrays.
SCALE = "scale"
# The default step sizes and initial values suit values near 1: with larger values than this, training diverges or is
# very slow.
LARGE = 1e3
# Columns whose largest values differ by more than this factor cannot all learn with the same step size.
MOST_RATIO = 1e3

Divisors = NDArray[np.float32]


@dataclass(frozen=True)
class OddColumns:
    """Columns with values far from 1, or of very different scales.

    method : how columns are scaled already.
    large : the number of columns with absolute values above LARGE.
    widest, highest : the feature with the largest absolute value, and that value.
    narrowest, lowest : the feature whose largest absolute value is the smallest, and that value.
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

    @property
    def way_out(self) -> str:
        """The option that helps."""
        flag = OPTIONS[SCALE].flag
        if self.method == STANDARD:
            return f"use {flag} {MAX_ABS}"
        return f"use {flag} {STANDARD}, or {flag} {MAX_ABS} if columns are sparse"


def is_scaled(options: Mapping[str, Any]) -> bool:
    """Whether a model with these options scales columns."""
    return bool(options[SCALE] != NONE)


def scale_array(divisors: Divisors | None) -> dict[str, Divisors]:
    """The divisors by their name among the arrays of a model; empty if there are none."""
    return {} if divisors is None else {SCALE: divisors}


@dataclass(frozen=True)
class ColumnStatistics:
    """What is known about the columns of some rows.

    rows : the number of rows.
    largest, smallest : float32 (features), the largest and the smallest absolute value of the entries; 0 without any.
    mean, squares : float64 (features), the mean, and the sum of the squares of the differences from it; zeros count.
        Empty if the method does not need them.
    """

    rows: int
    largest: Divisors
    smallest: Divisors
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, data: Dataset, rows: NDArray[np.int32], method: str) -> ColumnStatistics:
        """The statistics of the rows with these indices, as far as the method needs them."""
        moments = data.moments(rows) if method == STANDARD else (np.zeros(0), np.zeros(0))
        return cls(len(rows), *data.magnitudes(rows), *moments)

    def merged(self, other: ColumnStatistics) -> ColumnStatistics:
        """The statistics of these rows and others (Chan, Golub and LeVeque 1979)."""
        rows = self.rows + other.rows
        difference, share = other.mean - self.mean, other.rows / max(rows, 1)
        either = np.where(self.smallest > 0, self.smallest, other.smallest)
        return ColumnStatistics(
            rows,
            np.maximum(self.largest, other.largest),
            np.where(other.smallest > 0, np.minimum(either, other.smallest), either),
            self.mean + difference * share,
            self.squares + other.squares + difference**2 * self.rows * share,
        )

    def divisors(self, method: str) -> Divisors:
        """The divisors of the columns; 0 for those without entries.

        max-abs : the largest absolute value of the column.
        standard : the standard deviation of the column over all rows, zeros included. A column whose nonzero values are
            all equal, such as an indicator, is divided by that value instead: divided by its standard deviation, a rare
            indicator would become huge.
        """
        if method == MAX_ABS:
            return self.largest
        deviation = np.sqrt(self.squares / max(self.rows, 1)).astype(np.float32)
        usable = (self.largest > self.smallest) & (deviation > 0)
        divisors: Divisors = np.where(usable, deviation, self.largest)
        return divisors


def learn(training: ColumnStatistics, everything: ColumnStatistics, method: str) -> Divisors:
    """The divisors of the columns, from the rows to train on.

    A column that does not occur in them gets its divisor from all rows, because a final model may be trained on these.
    A column that does not occur at all has the divisor 1.
    """
    divisors = training.divisors(method)
    if everything is not training:
        divisors = np.where(divisors > 0, divisors, everything.divisors(method))
    divisors[divisors == 0] = 1
    return divisors


def find_odd_columns(data: Dataset, rows: NDArray[np.int32], method: str) -> OddColumns | None:
    """The columns whose scale hinders training, although they are scaled by this method; None if there are none."""
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
