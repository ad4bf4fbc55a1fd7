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
    """Partition -> int32, the numbers of its held-out rows in its text.

    seed : the seed of the run.
    """

    seed: int

    @classmethod
    def of(cls, rows: Sequence[int], numbers: NDArray[np.int64], seed: int) -> Self:
        """Hold out rows. `rows` are the sizes of the partitions, `numbers` the rows' numbers in the text of all
        partitions, increasing."""
        ends = np.cumsum(rows)
        parts = np.split(numbers, np.searchsorted(numbers, ends[:-1]))
        some = [(part - (end - count)).astype(np.int32) for part, end, count in zip(parts, ends, rows, strict=True)]
        return cls(dict(enumerate(rows)), dict(enumerate(some)), seed)

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each partition that are not held out."""
        return [self.rows[partition] - len(held) for partition, held in self.some.items()]

    def sample(self, partition: int, left: RowNumbers, number: int) -> RowNumbers:
        """Draw a partition's part of a sample of `number` training rows from all partitions. `left` : the numbers of
        the partition's training rows."""
        count = min(len(left), in_proportion(number, tuple(self.sizes))[partition])
        random = np.random.default_rng([self.seed, PREPARE_STREAM, partition, 1])
        return left[drawn(len(left), count, random)[0]]
