"""A selection of the rows of a cache, as a cache without the other rows; and the other rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import RowNumbers
from fmcli.data.stored.cache import CacheHeader, Located
from fmcli.data.text.pieces import concatenated
from fmcli.errors import BadInputError
from fmcli.records import dataclass


class SomeRows(Located):
    """A selection of the rows in the shards of a cache. The facts about the selected rows take a pass over the
    cache.

    numbers : the rows' numbers in the text, increasing.
    """

    def __init__(self, cache: Located, numbers: RowNumbers) -> None:
        self._cache, self._numbers = cache, numbers
        self.dictionary = cache.dictionary
        shard_of, place_of = cache.places(numbers)
        # The positions in a shard, which follow another order than the text, and the rows at these positions.
        order = np.lexsort((place_of, shard_of))
        bounds = np.searchsorted(shard_of[order], np.arange(len(cache.shards) + 1))
        self._shard_of, self._place_of = shard_of, np.empty_like(place_of)
        self._place_of[order] = np.arange(len(order)) - np.repeat(bounds[:-1], np.diff(bounds))
        self._kept = [place_of[order[first:last]] for first, last in pairwise(bounds.tolist())]
        self.table = np.concatenate([cache.table.ravel(), numbers])
        self.counts = np.zeros_like(cache.counts)
        whole = cache.facts
        self.facts = CacheHeader(format=whole.format, fields=whole.fields, names=whole.names)
        for shard, rows in enumerate(self._kept):
            if len(rows):
                data = self.load(shard)
                self.facts.add(data)
                self.counts += data.counts(np.arange(data.rows, dtype=np.int32))
        labels = self.facts.labels
        self.facts = replace(
            self.facts, features=whole.features, longest=whole.longest, labels=labels and dict(sorted(labels.items()))
        )

    @property
    def shards(self) -> range:
        return range(len(self._kept))

    @property
    def fielded(self) -> bool:
        return self._cache.fielded

    @property
    def shard_bytes(self) -> int:
        return self._cache.shard_bytes

    def rows_of(self, shard: int) -> int:
        return len(self._kept[shard])

    def load(self, shard: int) -> Dataset:
        return self._cache.load(shard).take(self._kept[shard])

    def places(self, numbers: RowNumbers) -> tuple[NDArray[np.int32], RowNumbers]:
        return self._shard_of[numbers], self._place_of[numbers]

    def damaged(self, reason: str) -> BadInputError:
        return self._cache.damaged(reason)


def taken(
    cache: Located, numbers: RowNumbers, change: Callable[[Dataset], Dataset]
) -> Iterator[tuple[NDArray[np.intp], int, RowNumbers, Dataset]]:
    """Yield rows shard by shard: their indices in `numbers`, the shard, their positions there, and the changed rows.

    numbers : the rows' numbers in the text, increasing.
    """
    shard_of, place_of = cache.places(numbers)
    for shard in np.unique(shard_of).tolist():
        here = np.flatnonzero(shard_of == shard)
        yield here, shard, place_of[here], change(cache.load(shard)).take(place_of[here])


def without(cache: Located, numbers: RowNumbers, change: Callable[[Dataset], Dataset]) -> tuple[RowLocations, Dataset]:
    """Hold out rows: return the rows left in each shard, and the changed held-out rows in the order of the text.

    numbers : the held-out rows' numbers in the text, increasing.
    """
    found = list(taken(cache, numbers, change))
    in_text = np.argsort(np.concatenate([here for here, *_ in found])).astype(np.int32)
    some = {shard: place for _, shard, place, _ in found}
    rows = {shard: cache.rows_of(shard) for shard in some}
    return RowLocations(rows, some), concatenated([data for *_, data in found]).take(in_text)


@dataclass(frozen=True)
class RowLocations(Mapping[int, "RowNumbers"]):
    """Shard -> int32, the rows left in it.

    rows : the number of rows of each shard.
    some : shard -> int32, the numbers of the rows that are left out.
    """

    rows: Mapping[int, int]
    some: Mapping[int, RowNumbers]

    def __getitem__(self, shard: int) -> RowNumbers:
        return np.delete(np.arange(self.rows[shard], dtype=np.int32), self.some[shard])

    def __len__(self) -> int:
        return len(self.some)

    def __iter__(self) -> Iterator[int]:
        return iter(self.some)
