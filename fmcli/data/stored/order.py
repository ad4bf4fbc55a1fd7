"""The order of the rows in a cache: from the number of a row in the text to its place in a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.pieces import concatenated
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.data.dataset import Dataset
    from fmcli.data.shards.training_rows import RowNumbers
    from fmcli.data.stored.cache import Cache, Located

CACHE_SEED = 0x66_6D  # of the permutation, which is the same for every seed of a run


def permuted(chunk: int, rows: int) -> NDArray[np.int32]:
    """Return the numbers of the rows of a chunk in their random order."""
    every = np.arange(rows, dtype=np.int32)
    np.random.default_rng([CACHE_SEED, chunk]).shuffle(every)
    return every


def inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the place of each number in an order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place


def places(cache: Cache, numbers: RowNumbers) -> tuple[NDArray[np.int32], RowNumbers]:
    """Return the shard of each of some rows, and its place there. numbers : of the rows in the text, increasing."""
    shard_of, start_of = starts(cache)
    shards, found = np.empty(len(numbers), dtype=np.int32), np.empty(len(numbers), dtype=np.int32)
    first = 0
    for chunk, strips in enumerate(np.split(np.arange(len(cache.table)), cache.chunks)):
        bounds = np.concatenate([[0], np.cumsum(cache.rows_of_strips[strips])])
        here = slice(*np.searchsorted(numbers, [first, first + bounds[-1]]))
        place = numbers[here] - first
        if cache.shuffled:
            place = inverse(permuted(chunk, int(bounds[-1])))[place].astype(np.int64)
        strip = np.searchsorted(bounds, place, side="right") - 1
        shards[here] = shard_of[strips[strip]]
        found[here] = start_of[strips[strip]] + place - bounds[strip]
        first += int(bounds[-1])
    return shards, found


def taken(
    cache: Located, numbers: RowNumbers, change: Callable[[Dataset], Dataset]
) -> Iterator[tuple[NDArray[np.intp], int, RowNumbers, Dataset]]:
    """Yield some rows shard by shard: which of them these are, the shard, their places there, and the rows, changed.

    numbers : of the rows in the text, increasing.
    """
    shard_of, place_of = cache.places(numbers)
    for shard in np.unique(shard_of).tolist():
        here = np.flatnonzero(shard_of == shard)
        yield here, shard, place_of[here], change(cache.load(shard)).take(place_of[here])


def without(cache: Located, numbers: RowNumbers, change: Callable[[Dataset], Dataset]) -> tuple[Others, Dataset]:
    """Return the rows that are left of each shard without some rows, and these, changed, in the order of the text.

    numbers : of the rows in the text, increasing.
    """
    found = list(taken(cache, numbers, change))
    in_text = np.argsort(np.concatenate([here for here, *_ in found])).astype(np.int32)
    some = {shard: place for _, shard, place, _ in found}
    rows = {shard: cache.rows_of(shard) for shard in some}
    return Others(rows, some), concatenated([data for *_, data in found]).take(in_text)


def starts(cache: Cache) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (strips) the shard of each strip, and the place of its first row there."""
    shard_of, start_of = np.empty((2, len(cache.table)), dtype=np.int64)
    for shard, parts in enumerate(cache.shards):
        strips = np.concatenate([np.arange(first, last) for first, last in parts])
        rows = cache.rows_of_strips[strips]
        shard_of[strips], start_of[strips] = shard, np.cumsum(rows) - rows
    return shard_of, start_of


@dataclass(frozen=True)
class Others(Mapping[int, "RowNumbers"]):
    """Shard -> int32, its rows without some.

    rows : the number of rows of each shard.
    some : shard -> int32, the numbers of these rows.
    """

    rows: Mapping[int, int]
    some: Mapping[int, RowNumbers]

    def __getitem__(self, shard: int) -> RowNumbers:
        return np.delete(np.arange(self.rows[shard], dtype=np.int32), self.some[shard])

    def __len__(self) -> int:
        return len(self.some)

    def __iter__(self) -> Iterator[int]:
        return iter(self.some)
