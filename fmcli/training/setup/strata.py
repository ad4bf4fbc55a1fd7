"""Shares of classes among rows that are held out: rare classes have theirs exactly, and others by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import FEW_CLASSES, Labels
from fmcli.records import dataclass
from fmcli.registry.specs import Spec
from fmcli.registry.streams import HOLDOUT_STREAM, generator

Numbers = NDArray[np.int64]

# A class with more held-out rows on average has its share by chance, but for some per cent. Its rows need not
# be known one by one, which takes a pass over a cache.
ENOUGH_BY_CHANCE = 1_000
# More classes have their shares by chance.
MOST_CLASSES = 4096
# The rarer one of two classes should have this many held-out rows: fewer choose an epoch by chance.
ENOUGH_OF_CLASS = 20
# Distinguishes the random numbers of classes from random numbers of ranges of rows.
OF_CLASSES = 1


@dataclass(frozen=True)
class Strata:
    """The rows of each class.

    counts : label -> how many rows have it.
    numbers_of : returns, for some labels, the numbers of the rows that have each, increasing.
    """

    counts: Mapping[float, int]
    numbers_of: Callable[[Sequence[float]], Mapping[float, Numbers]]

    @property
    def rarer(self) -> int | None:
        """The number of rows of the rarer one of two classes; None: there are more, or fewer."""
        return min(self.counts.values()) if len(self.counts) == 2 else None

    def drawn(self, rows: int, count: int, spec: Spec) -> list[Numbers]:
        """Return the numbers of random rows of each class with few held-out rows, if `count` of all rows are held out,
        and the numbers of all others that have these classes, in this order: held out, and not."""
        rare = {label: size for label, size in self.counts.items() if size * count < ENOUGH_BY_CHANCE * rows}
        if not rare:
            return [np.empty(0, dtype=np.int64)] * 2
        sizes = np.array(list(rare.values()))
        shares = in_shares(round(count * int(sizes.sum()) / rows), sizes)
        numbers = self.numbers_of(list(rare))
        found: list[tuple[Numbers, Numbers]] = []
        for place, (label, share) in enumerate(zip(rare, shares.tolist(), strict=True)):
            order = generator(spec, HOLDOUT_STREAM, place, OF_CLASSES).permutation(numbers[label])
            found.append((order[:share], order[share:]))
        return [np.sort(np.concatenate(some)) for some in zip(*found, strict=True)]


def strata_of(labels: Labels, label: NDArray[np.float64]) -> Strata | None:
    """Return the classes of rows in memory with these labels; None: they have none, or too many."""
    if labels.classes is None or len(labels.classes) > MOST_CLASSES:
        return None
    if len(labels.classes) <= FEW_CLASSES:
        counts = {value: int(np.count_nonzero(label == value)) for value in labels.classes}
    else:
        values, times = np.unique(label, return_counts=True)
        counts = dict(zip(values.tolist(), times.tolist(), strict=True))
    return Strata(counts, lambda wanted: {value: np.flatnonzero(label == value) for value in wanted})


def in_shares(total: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of `total` rows each class has, in proportion to the sizes of classes: at least one of a class
    with several rows, if there are as many, and none of a class with one row, if others have them."""
    several = np.where(sizes > 1, sizes, 0)
    sizes = several if several.sum() > total else sizes
    quota = total * sizes / max(1, sizes.sum())
    found: Numbers = quota.astype(np.int64)
    largest = np.argsort(found - quota, kind="stable")
    found[largest[: total - int(found.sum())]] += 1
    for empty in np.flatnonzero((found == 0) & (sizes > 1)).tolist():
        richest = int(found.argmax())
        if found[richest] > 1:
            found[[empty, richest]] += [1, -1]
    return found


def spread(classes: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.intp]:
    """Return a random order of rows in which consecutive rows have their share of each class."""
    order = random.permutation(len(classes))
    values, of_row, sizes = np.unique(classes[order], return_inverse=True, return_counts=True)
    by_class = np.argsort(of_row, kind="stable")
    place = np.empty(len(order))
    place[by_class] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if len(values) > 1:
        place = (place + random.random(len(values))[of_row]) / sizes[of_row]
    return np.asarray(order[np.argsort(place, kind="stable")])
