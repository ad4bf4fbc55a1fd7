"""The unit of labels that are numbers. Training sees labels centered and divided by their standard deviation, and a
model's scores are converted back, so neither depends on the unit that the user has chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fmcli.records import dataclass

Floats = NDArray[np.float64]

# The largest distance of a center from 0 in scales: closer centers leave enough digits in 32-bit scores.
NEAR = 16
# The digits of a 32-bit number, relative to the scale; and a scale whose multiples a 32-bit number may not hold.
DIGITS, LARGE = 7, 1e30


@dataclass(frozen=True)
class LabelUnit:
    """Training sees (label - center) / scale, and predictions are center + scale * score."""

    center: float = 0.0
    scale: float = 1.0

    @property
    def pair(self) -> tuple[float, float]:
        """The center and the scale, as in Dataset.unit."""
        return self.center, self.scale

    @cached_property
    def is_one(self) -> bool:
        """Whether the unit changes nothing."""
        return self.center == 0 and self.scale == 1

    @property
    def needs_doubles(self) -> bool:
        """Whether 32-bit numbers have too few digits, or too small a range, for scores in the user's unit."""
        return abs(self.center) > NEAR * self.scale or not 1 / LARGE < self.scale < LARGE

    def of(self, numbers: Floats) -> Floats:
        """Convert labels or scores from the user's unit to the unit of training."""
        return numbers if self.is_one else (numbers - self.center) / self.scale

    def undo(self, scores: Floats) -> Floats:
        """Convert scores of a model to the user's unit."""
        return scores if self.is_one else self.center + self.scale * scores

    def differences(self, numbers: Floats) -> Floats:
        """Convert differences of scores, or parts of scores, to the user's unit."""
        return numbers if self.is_one else self.scale * numbers

    def rounded(self, numbers: Floats) -> Floats:
        """Round numbers in the user's unit to the digits that 32-bit parameters determine."""
        return np.round(numbers, DIGITS - math.floor(math.log10(self.scale))) + 0.0


ONE = LabelUnit()


@dataclass(frozen=True)
class Moments:
    """The total weight, the mean, and the standard deviation of some labels."""

    weight: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0

    @staticmethod
    def of(label: Floats, weight: Floats | None) -> Moments:
        """Return the moments of labels, at least one. weight : (labels); None: all are 1."""
        total = float(len(label)) if weight is None else float(weight.sum())
        if not total > 0:
            return Moments()
        first = float(label[0])
        with np.errstate(over="ignore", invalid="ignore"):
            apart = label - first  # exactly 0 if all labels are the same
            largest = float(np.abs(apart).max()) or 1.0
            apart = apart / largest  # its squares do not overflow
            mean = weighted(apart, weight) / total
            deviation = math.sqrt(weighted((apart - mean) ** 2, weight) / total)
        return Moments(total, first + largest * mean, largest * deviation)

    def combined(self, other: Moments) -> Moments:
        """Return the moments of both sets of labels together."""
        total = self.weight + other.weight
        if not total > 0:
            return self
        ours, theirs, apart = self.weight / total, other.weight / total, other.mean - self.mean
        return Moments(
            total,
            self.mean + apart * theirs,
            math.hypot(
                self.deviation * math.sqrt(ours), other.deviation * math.sqrt(theirs), apart * math.sqrt(ours * theirs)
            ),
        )

    def without(self, other: Moments) -> Moments:
        """Return the moments of these labels without `other`, a part of them."""
        total = self.weight - other.weight
        if not total > 0:
            return Moments()
        mean = self.mean + (self.mean - other.mean) * (other.weight / total)
        largest = max(self.deviation, abs(self.mean - other.mean)) or 1.0  # keeps squares from overflowing
        whole, part, apart = (number / largest for number in (self.deviation, other.deviation, other.mean - mean))
        shares = self.weight / total, other.weight / total, other.weight / self.weight
        square = whole**2 * shares[0] - part**2 * shares[1] - apart**2 * shares[2]
        return Moments(total, mean, largest * math.sqrt(max(square, 0.0)))

    def unit(self, *, centered: bool) -> LabelUnit:
        """Return the unit with this mean and standard deviation; or, not centered, with the root mean square as its
        scale."""
        found = LabelUnit(self.mean, self.deviation)
        if not centered:
            found = LabelUnit(0.0, math.hypot(self.mean, self.deviation))
        if not math.isfinite(found.center) or not math.isfinite(found.scale):
            return ONE  # the sum of the labels overflows a double
        return found if found.scale > 0 else replace(found, scale=1.0)


def weighted(numbers: Floats, weight: Floats | None) -> float:
    """Return the sum of numbers, multiplied by their weights if there are weights."""
    return float((numbers if weight is None else weight * numbers).sum())
