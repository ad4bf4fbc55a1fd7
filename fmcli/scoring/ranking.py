"""Metrics of the order of rows within groups, such as the documents of a query or the items of a user.

A metric is the unweighted mean over the groups in which it is defined. Rows with equal scores have no order: half of
their pairs count as correct, and other metrics have their expected value over the orders of such rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import Relevance

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class OfGroups(NamedTuple):
    """A metric of each group.

    numerator, denominator : (groups); the metric is their ratio. A group with denominator 0 has no value.
    """

    numerator: Floats
    denominator: Floats

    @classmethod
    def concatenated(cls, several: Sequence[OfGroups]) -> OfGroups:
        """Concatenate the metrics of several sets of groups."""
        return cls(*map(np.concatenate, zip(*several, strict=True)))

    def mean(self) -> float:
        """Return the mean over the groups with a value; NaN if there are none."""
        defined = self.denominator > 0
        if not defined.any():
            return math.nan
        mean = float((self.numerator[defined] / self.denominator[defined]).mean())
        return 1.0 if mean > 1 else mean  # rounding may make it exceed 1; NaN stays


class Others(NamedTuple):
    """Further rows of each group. None is relevant, and none has the score of a relevant row.

    size : (groups) the number of further rows, in the order of the groups' numbers.
    ahead : (rows) the number of further rows with a larger score than each row.
    """

    size: NDArray[np.int64]
    ahead: NDArray[np.int64]


class RankedRows:
    """Rows in the order of their groups, and within a group from the highest score to the lowest.

    Parameters
    ----------
    label, score : (rows); there is at least one row.
    group : (rows) integers; rows with the same number form a group.
    relevance : which rows are relevant.
    others : further rows of the groups.

    Attributes
    ----------
    label, score : (rows), in ranked order.
    relevant : (rows) whether each row is relevant.
    group : (rows) the position of each row's group: 0, 1, ...
    starts : (groups) the position of each group's first row.
    place : (rows) the place of each row among the labeled rows of its group, from 0.
    rank : (rows) the place of each row among all rows of its group, from 0.
    tie : (rows) the run of rows with the same group and score that each row belongs to: 0, 1, ...
    """

    def __init__(
        self,
        label: Floats,
        score: Floats,
        group: NDArray[np.integer],
        relevance: Relevance = Relevance(),  # noqa: B008
        others: Others | None = None,
    ) -> None:
        order = np.lexsort((-score, group))
        self.label, self.score, group = label[order], score[order], group[order]
        self.relevant = relevance.of(self.label)
        if not relevance.graded:
            self.label = self.relevant.astype(np.float64)
        begins = np.concatenate(([True], group[1:] != group[:-1]))
        self.group = np.cumsum(begins) - 1
        self.starts = np.flatnonzero(begins)
        self.place = np.arange(len(group)) - self.starts[self.group]
        self.others = others if others is None else others._replace(ahead=others.ahead[order])
        self.rank = self.place if self.others is None else self.place + self.others.ahead
        self.tie = np.cumsum(begins | np.concatenate(([True], self.score[1:] != self.score[:-1]))) - 1

    def sums(self, values: NDArray[np.float64] | NDArray[np.int64]) -> Floats:
        """Return (groups) the sum of the values (rows) of each group."""
        return np.asarray(np.add.reduceat(values, self.starts), np.float64)

    @property
    def without_relevant(self) -> int:
        """The number of groups without a relevant row."""
        return int((self.sums(self.relevant.astype(np.float64)) == 0).sum())

    def mean_of_ties(self, values: Floats) -> Floats:
        """Return (rows) the mean of the values (rows) over the rows with the same group and score."""
        return np.asarray((np.bincount(self.tie, values) / np.bincount(self.tie))[self.tie])


def group_auc(rows: RankedRows) -> OfGroups:
    """Return the share of a group's pairs with different labels whose scores are in the order of the labels. With
    further rows, whose labels are unknown, a pair is a relevant row and a row that is not relevant."""
    values, place = np.unique(rows.label if rows.others is None else rows.relevant, return_inverse=True)
    same = np.unique(rows.group * len(values) + place, return_counts=True)
    size, alike = np.bincount(rows.group), np.bincount(same[0] // len(values), same[1].astype(np.float64) ** 2)
    pairs = (size.astype(np.float64) ** 2 - alike) / 2
    # Equal scores in the best order make all of their pairs correct; in the worst order, none.
    correct = [pairs_in_order(rows.group, place[order], len(values)) for order in tie_orders(rows, place)]
    in_order = (correct[0] + correct[1]) / 2
    if rows.others is not None:
        count = rows.others.size[rows.group]
        pairs += rows.sums(rows.relevant * count)
        in_order += rows.sums(rows.relevant * (count - rows.others.ahead))
    return OfGroups(in_order, pairs)


def tie_orders(rows: RankedRows, place: Places) -> tuple[Places, Places]:
    """Return the rows with ties in the best order of `place` (the order of the labels), and in the worst order."""
    return np.lexsort((-place, rows.tie)), np.lexsort((place, rows.tie))


def pairs_in_order(group: Places, place: Places, values: int) -> Floats:
    """Return (groups) the number of pairs of a group's rows in which the first row has the larger place.

    group : (rows), not decreasing.
    place : (rows) from 0 to values - 1.

    A pair of different places is counted at the first binary digit in which they differ, among the group's rows with
    the same leading digits. These rows keep their order.
    """
    correct = np.zeros(group[-1] + 1)
    for digit in reversed(range((values - 1).bit_length())):
        before = group * ((values >> (digit + 1)) + 1) + (place >> (digit + 1))
        order = np.argsort(before, kind="stable")
        before, larger = before[order], (place[order] >> digit & 1).astype(np.bool_)
        ones = np.concatenate(([0], np.cumsum(larger)))
        starts = np.flatnonzero(np.concatenate(([True], before[1:] != before[:-1])))
        lengths = np.diff(np.append(starts, len(before)))
        larger_before = ones[:-1] - np.repeat(ones[starts], lengths)
        correct += np.bincount(group[order], np.where(larger, 0, larger_before), len(correct))
    return correct


def ndcg(rows: RankedRows, places: int | None = None) -> OfGroups:
    """Return the sum of gain * discount, and its largest value over all orders of the rows. The gain of a row is
    2^label - 1, or 0 for negative labels; the discount is 1 / log2(place + 1) for the first `places` places, from
    1."""
    gain = np.exp2(np.maximum(rows.label, 0.0)) - 1.0

    def discount(rank: Places) -> Floats:
        return np.where(rank < (np.inf if places is None else places), 1.0 / np.log2(rank + 2.0), 0.0)

    best = gain[np.lexsort((-gain, rows.group))]
    found = rows.sums(gain * rows.mean_of_ties(discount(rows.rank)))
    return OfGroups(found, rows.sums(best * discount(rows.place)))


def mean_average_precision(rows: RankedRows) -> OfGroups:
    """Return the mean, over a group's relevant rows, of the share of relevant rows among the rows with at least the
    same score."""
    relevant = rows.relevant
    found = np.cumsum(relevant)
    before: NDArray[np.intp] = (found - relevant)[rows.starts][rows.group]
    last = (np.append(np.flatnonzero(np.diff(rows.tie)), len(found) - 1))[rows.tie]  # the last row with this score
    precision = (found[last] - before) / (rows.rank[last] + 1)
    return OfGroups(rows.sums(np.where(relevant, precision, 0.0)), rows.sums(relevant.astype(np.float64)))


def found_in(rows: RankedRows, places: int) -> Floats:
    """Return (groups) the mean number of relevant rows in the first places, over the orders of ties."""
    return rows.sums(rows.relevant * rows.mean_of_ties((rows.rank < places).astype(np.float64)))


def recall(rows: RankedRows, places: int) -> OfGroups:
    """Return the share of a group's relevant rows that are in its first places."""
    return OfGroups(found_in(rows, places), rows.sums(rows.relevant.astype(np.float64)))


def precision(rows: RankedRows, places: int) -> OfGroups:
    """Return the share of a group's first places that have a relevant row, for groups with relevant rows."""
    return OfGroups(
        found_in(rows, places), np.where(rows.sums(rows.relevant.astype(np.float64)) > 0, float(places), 0.0)
    )


def hit(rows: RankedRows, places: int) -> OfGroups:
    """Return whether a group's first places have a relevant row, for groups with relevant rows; with ties, the
    probability."""
    first = FirstRelevant(rows)
    return OfGroups(first.sums(first.probability * (first.place <= places)), first.exists)


def reciprocal_rank(rows: RankedRows, places: int | None = None) -> OfGroups:
    """Return 1 / the place of a group's first relevant row, from 1; 0 if the row is beyond the first places."""
    first = FirstRelevant(rows)
    within = np.ones(len(first.place)) if places is None else first.place <= places
    return OfGroups(first.sums(first.probability * within / first.place), first.exists)


class FirstRelevant:
    """The possible places of each group's first relevant row, if the order of ties is random: the places of the first
    run of equal scores with a relevant row.

    group : the group of each place; place : from 1; probability : that the first relevant row is there.
    exists : (groups), 1 if the group has a relevant row, else 0.
    """

    def __init__(self, rows: RankedRows) -> None:
        from scipy.special import gammaln

        def log_choices(n: Floats, k: Floats) -> Floats:
            """Return the logarithm of the number of ways to choose k of n; -inf if k > n."""
            with np.errstate(invalid="ignore"):
                found = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)
            return np.where(k <= n, found, -np.inf)

        begins = np.flatnonzero(np.concatenate(([True], np.diff(rows.tie) > 0)))
        size, relevant = np.diff(np.append(begins, len(rows.tie))), np.add.reduceat(rows.relevant.astype(int), begins)
        group = rows.group[begins]
        runs = np.flatnonzero(relevant)
        runs = runs[np.concatenate(([True], np.diff(group[runs]) > 0))] if len(runs) else runs
        self.exists = np.zeros(len(rows.starts))
        self.exists[group[runs]] = 1
        sizes = size[runs]
        at = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # position in the run, from 0
        n, r = (np.repeat(numbers[runs], sizes).astype(np.float64) for numbers in (size, relevant))
        self.group = np.repeat(group[runs], sizes)
        self.place = np.repeat(rows.rank[begins[runs]], sizes) + at + 1
        self.probability = np.exp(log_choices(n - at - 1, r - 1) - log_choices(n, r))

    def sums(self, values: Floats) -> Floats:
        """Return (groups) the sums of values over places."""
        return np.asarray(np.bincount(self.group, values, minlength=len(self.exists)), np.float64)
