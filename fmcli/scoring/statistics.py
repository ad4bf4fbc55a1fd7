"""Statistics of rows, from which metrics are computed. Statistics of parts of the rows combine to the statistic of all.

Sums of weights are exact if all weights are 1; other sums equal the sums over all rows at once except for rounding.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import Relevance
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.scoring.ranking import RankedRows


class Sums(NamedTuple):
    """The weighted sum of a value over rows, and the sum of the weights."""

    total: float
    weight: float

    def mean(self) -> float:
        """Return the weighted mean; nan without rows."""
        return self.total / self.weight if self.weight else math.nan

    def root(self) -> float:
        """Return the square root of the mean."""
        return math.sqrt(self.mean())

    def combined(self, other: Sums) -> Sums:
        """Return the sums over both parts."""
        return Sums(self.total + other.total, self.weight + other.weight)


class Residuals(NamedTuple):
    """The weight of rows, the mean label, the sum of squared distances of the labels from the mean, and the sum of
    squared errors."""

    weight: float
    mean: float
    squares: float
    errors: float

    def combined(self, other: Residuals) -> Residuals:
        """Return the sums over both parts."""
        weight, apart = self.weight + other.weight, other.mean - self.mean
        squares = self.squares + other.squares + apart * apart * self.weight * other.weight / weight
        return Residuals(weight, self.mean + apart * other.weight / weight, squares, self.errors + other.errors)


class ClassWeights(NamedTuple):
    """The weight of the rows by class. Each array has the shape (classes)."""

    correct: Floats  # rows whose label and prediction are this class
    labeled: Floats
    predicted: Floats

    def present(self) -> ClassWeights:
        """Return the figures of the classes that occur as a label or a prediction."""
        present = (self.labeled > 0) | (self.predicted > 0)
        return ClassWeights(*(weight[present] for weight in self))

    def combined(self, other: ClassWeights) -> ClassWeights:
        """Return the weights of both parts."""
        return ClassWeights(*map(np.add, self, other))


class Ranking(NamedTuple):
    """The distinct scores in increasing order, and the weight of the rows with each score. Each array has the shape
    (scores)."""

    score: Floats
    positive: Floats  # rows with label +1
    negative: Floats

    @classmethod
    def of(cls, score: Floats, positive: Floats, negative: Floats) -> Ranking:
        """Return the sums of weights by score; the rows may be in any order."""
        order = np.argsort(score, kind="stable")  # the order of equal scores decides the last bits of the sums
        score = score[order]
        starts = np.flatnonzero(np.concatenate(([True], score[1:] != score[:-1])))
        return cls(score[starts], *(np.add.reduceat(weight[order], starts) for weight in (positive, negative)))

    def combined(self, other: Ranking) -> Ranking:
        """Return the weights of both parts."""
        return Ranking.of(*map(np.concatenate, zip(self, other, strict=True)))


@dataclass(frozen=True)
class GroupedRows:
    """The rows themselves, because the rows of a group may be in several parts.

    label, score : (rows).
    group : (rows) integers; rows with the same number form a group. None: there are no groups.
    relevance : which rows are relevant in rankings.
    """

    label: Floats
    score: Floats
    group: NDArray[np.integer] | None
    relevance: Relevance

    @cached_property
    def ranked(self) -> RankedRows | None:
        """The rows of each group by score; None if there are no groups."""
        return None if self.group is None else RankedRows(self.label, self.score, self.group, self.relevance)

    def combined(self, other: GroupedRows) -> GroupedRows:
        """Return the rows of both parts."""
        label, score = np.concatenate([self.label, other.label]), np.concatenate([self.score, other.score])
        group = None if self.group is None or other.group is None else np.concatenate([self.group, other.group])
        return GroupedRows(label, score, group, self.relevance)
