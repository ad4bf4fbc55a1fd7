"""Which rows of each partition are held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.stored.some_rows import RowLocations
from fmcli.records import dataclass
from fmcli.registry.streams import PREPARE_STREAM
from fmcli.training.setup.hold_out import drawn, in_proportion

if TYPE_CHECKING:
    from typing import Self

    from fmcli.data.shards.training_rows import RowNumbers


@dataclass(frozen=True)
class HeldOut(RowLocations):
    """Partition -> int32, the rows of it that are not held out, by their numbers in its text.

    seed : of the run.
    """

    seed: int

    @classmethod
    def of(cls, rows: Sequence[int], numbers: NDArray[np.int64], seed: int) -> Self:
        """Return the hold-out of rows with these numbers in the text of all partitions, increasing; `rows` are in
        each."""
        ends = np.cumsum(rows)
        parts = np.split(numbers, np.searchsorted(numbers, ends[:-1]))
        some = [(part - (end - count)).astype(np.int32) for part, end, count in zip(parts, ends, rows, strict=True)]
        return cls(dict(enumerate(rows)), dict(enumerate(some)), seed)

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each partition that are not held out."""
        return [self.rows[partition] - len(held) for partition, held in self.some.items()]

    def sample(self, partition: int, left: RowNumbers, number: int) -> RowNumbers:
        """Return some of the rows of a partition that are not held out, which are a sample together with those of other
        partitions. `number` : of them in all partitions."""
        count = min(len(left), in_proportion(number, tuple(self.sizes))[partition])
        random = np.random.default_rng([self.seed, PREPARE_STREAM, partition, 1])
        return left[drawn(len(left), count, random)[0]]
