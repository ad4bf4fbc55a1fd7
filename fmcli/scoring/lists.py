"""Metrics of the lists of items that users are recommended: how many items these are, and how popular."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.losses.links import Floats
from fmcli.records import dataclass

# The share of the items that are the head: those with the most users.
HEAD = 0.2

Numbers = NDArray[np.int64]


class Popularity(NamedTuple):
    """How popular items are in the pairs that were seen.

    counts : (items) the number of users with each item.
    users : the number of users.
    """

    counts: Numbers
    users: int

    @property
    def head(self) -> NDArray[np.bool_]:
        """(items) whether the item is one of the fifth with the most users, the first ones if several have as many."""
        flags = np.zeros(len(self.counts), dtype=np.bool_)
        flags[np.argsort(-self.counts, kind="stable")[: math.ceil(HEAD * len(flags))]] = True
        return flags


class Lists(NamedTuple):
    """The items that users are recommended, the best first.

    user, item, place : (pairs); the place is that of the item in the user's list, from 0.
    items : the number of all items.
    popularity : of all items; None: no pairs were seen.
    """

    user: Numbers
    item: Numbers
    place: Numbers
    items: int
    popularity: Popularity | None

    def first(self, places: int) -> Lists:
        """Return the first places of each list."""
        kept = self.place < places
        return self._replace(user=self.user[kept], item=self.item[kept], place=self.place[kept])

    def mean(self, of_item: Floats) -> float:
        """Return the mean over the users of the mean of a number (items) over the user's list; NaN without lists."""
        counts = np.bincount(self.user)
        means = np.bincount(self.user, of_item[self.item])[counts > 0] / counts[counts > 0]
        return float(means.mean()) if len(means) else math.nan


def coverage(lists: Lists) -> float:
    """Return the share of the items that are in a list."""
    return len(np.unique(lists.item)) / lists.items


def novelty(lists: Lists) -> float:
    """Return the mean of -log2 of the share of the users with the item. An item without users counts as if it had
    one."""
    assert lists.popularity is not None
    return lists.mean(np.log2(max(lists.popularity.users, 1) / np.maximum(lists.popularity.counts, 1)))


def popularity(lists: Lists) -> float:
    """Return the share of a list that is of the head."""
    assert lists.popularity is not None
    return lists.mean(lists.popularity.head.astype(np.float64))


@dataclass(frozen=True)
class ListMetric:
    """A metric of lists.

    of : returns the metric of lists that have only their first places.
    of_popularity : whether it needs the popularity of items.
    """

    of: Callable[[Lists], float]
    larger_is_better: bool
    of_popularity: bool


LIST_METRICS = {
    "coverage": ListMetric(coverage, larger_is_better=True, of_popularity=False),
    "novelty": ListMetric(novelty, larger_is_better=True, of_popularity=True),
    "popularity": ListMetric(popularity, larger_is_better=False, of_popularity=True),
}


def list_metric(name: str) -> tuple[ListMetric, int] | None:
    """Return the metric with a name, such as "coverage@10", and its number of places; None for another name."""
    base, _, places = name.partition("@")
    if base not in LIST_METRICS or not places.isdecimal() or not int(places):
        return None
    return LIST_METRICS[base], int(places)
