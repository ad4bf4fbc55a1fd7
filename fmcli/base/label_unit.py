"""The unit of labels that are numbers: training sees them centered and divided by their standard deviation, and scores
of a model are converted back, so that neither depends on the unit that the user has chosen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmcli.records import dataclass

Floats = NDArray[np.float64]

# Centers at most this many scales from 0: scores in the user's unit then have enough digits as numbers of 32 bits.
NEAR = 16
# Digits of a number of 32 bits, relative to the scale, and a scale whose multiples such a number may not hold.
DIGITS, LARGE = 7, 1e30


@dataclass(frozen=True)
class LabelUnit:
    """Training sees (label - center) / scale, and predictions are center + scale * score."""

    center: float = 0.0
    scale: float = 1.0

    @property
    def pair(self) -> tuple[float, float]:
        """The center and the scale, as a Dataset has them."""
        return self.center, self.scale

    @property
    def is_one(self) -> bool:
        """Whether numbers stay as they are."""
        return self.center == 0 and self.scale == 1

    @property
    def needs_doubles(self) -> bool:
        """Whether numbers of 32 bits have too few digits, or too small a range, for scores in the user's unit."""
        return abs(self.center) > NEAR * self.scale or not 1 / LARGE < self.scale < LARGE

    def of(self, numbers: Floats) -> Floats:
        """Return labels or scores in the user's unit as training sees them."""
        return numbers if self.is_one else (numbers - self.center) / self.scale

    def undo(self, scores: Floats) -> Floats:
        """Return scores of a model in the user's unit."""
        return scores if self.is_one else self.center + self.scale * scores

    def differences(self, numbers: Floats) -> Floats:
        """Return differences of scores, or parts of them, in the user's unit."""
        return numbers if self.is_one else self.scale * numbers

    def rounded(self, numbers: Floats) -> Floats:
        """Return numbers in the user's unit, rounded to the digits that parameters of 32 bits determine."""
        return np.round(numbers, DIGITS - math.floor(math.log10(self.scale))) + 0.0


ONE = LabelUnit()


@dataclass(frozen=True)
class Moments:
    """The weight, the mean, and the standard deviation of some labels."""

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
            apart = apart / largest  # whose squares do not overflow
            mean = weighted(apart, weight) / total
            deviation = math.sqrt(weighted((apart - mean) ** 2, weight) / total)
        return Moments(total, first + largest * mean, largest * deviation)

    def combined(self, other: Moments) -> Moments:
        """Return the moments of the labels of both."""
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
        """Return the moments of these labels but others, which are some of them."""
        total = self.weight - other.weight
        if not total > 0:
            return Moments()
        mean = self.mean + (self.mean - other.mean) * (other.weight / total)
        largest = max(self.deviation, abs(self.mean - other.mean)) or 1.0  # so that squares do not overflow
        whole, part, apart = (number / largest for number in (self.deviation, other.deviation, other.mean - mean))
        shares = self.weight / total, other.weight / total, other.weight / self.weight
        square = whole**2 * shares[0] - part**2 * shares[1] - apart**2 * shares[2]
        return Moments(total, mean, largest * math.sqrt(max(square, 0.0)))

    def unit(self, *, centered: bool) -> LabelUnit:
        """Return the unit with this mean and standard deviation; not centered, with the root mean square."""
        found = LabelUnit(self.mean, self.deviation)
        if not centered:
            found = LabelUnit(0.0, math.hypot(self.mean, self.deviation))
        if not math.isfinite(found.center) or not math.isfinite(found.scale):
            return ONE  # labels that no number of 64 bits has the sum of
        return found if found.scale > 0 else replace(found, scale=1.0)


def weighted(numbers: Floats, weight: Floats | None) -> float:
    """Return the sum of numbers, multiplied by weights if there are some."""
    return float((numbers if weight is None else weight * numbers).sum())
