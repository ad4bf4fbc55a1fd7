"""The scale of columns: divisors that bring their values near 1, and columns that are far from it.

Nothing is shifted, so that a value of 0 stays 0 and rows stay sparse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset

NONE, STANDARD, MAX_ABS = "none", "standard", "max-abs"
# The option's name, and the divisors' in model files and exported arrays.
SCALE = "scale"
# Step sizes and start values are made for values near 1: larger ones than this make training diverge or crawl.
LARGE = 1e3
# Columns whose largest values differ by more than this factor cannot all learn at one step size.
MOST_RATIO = 1e3

Divisors = NDArray[np.float32]


@dataclass(frozen=True)
class OddColumns:
    """Columns whose values lie far from 1 or from each other's.

    large : how many columns have values beyond LARGE.
    widest, highest : the column with the largest absolute value, and that value.
    narrowest, lowest : the column whose largest absolute value is the smallest one, and that value.
    """

    large: int
    widest: int
    highest: float
    narrowest: int
    lowest: float


def is_scaled(options: Mapping[str, Any]) -> bool:
    """Whether a model with these options divides columns."""
    return bool(options[SCALE] != NONE)


def scale_array(divisors: Divisors | None) -> dict[str, Divisors]:
    """The divisors by the name that they have among a model's arrays; without any, nothing."""
    return {} if divisors is None else {SCALE: divisors}


def learn(data: Dataset, rows: NDArray[np.int32], method: str) -> Divisors | None:
    """What to divide columns by, learned from the rows of these numbers; None: nothing is divided.

    Columns that occur in none of them contribute to no score of a model of these rows. Their divisors come from the
    other rows, on which the model may be trained in the end; columns that do not occur at all have 1.
    """
    if method == NONE:
        return None
    divisors = divisors_of(data, rows, method)
    if len(rows) < data.rows:
        everything = np.arange(data.rows, dtype=np.int32)
        divisors = np.where(divisors > 0, divisors, divisors_of(data, everything, method))
    divisors[divisors == 0] = 1
    return divisors


def divisors_of(data: Dataset, rows: NDArray[np.int32], method: str) -> Divisors:
    """The divisors by some rows; 0 for columns that do not occur.

    max-abs : the largest absolute value of the column.
    standard : its standard deviation over all rows, zeros included. A column whose values other than 0 are all equal,
        such as an indicator, is divided by that value instead: by its deviation, a rare one would become huge.
    """
    largest, smallest = data.magnitudes(rows)
    if method == MAX_ABS:
        return largest
    deviation = data.deviations(rows).astype(np.float32)
    usable = (largest > smallest) & (deviation > 0)
    divisors: Divisors = np.where(usable, deviation, largest)
    return divisors


def odd_columns(data: Dataset, rows: NDArray[np.int32]) -> OddColumns | None:
    """Whether columns are of a scale that training will not like; None: they are not."""
    if data.value is None:
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
    return OddColumns(large, int(occurring[widest]), highest, int(occurring[narrowest]), lowest)
