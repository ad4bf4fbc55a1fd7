"""Which rows of each partition are held out. Client and workers draw them alike, so that nobody sends their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from fmcli.data.shards.training_rows import RowNumbers
from fmcli.records import dataclass
from fmcli.registry.streams import HOLDOUT_STREAM, PREPARE_STREAM
from fmcli.training.setup.hold_out import drawn, in_proportion


@dataclass(frozen=True)
class HeldOut(Mapping[int, RowNumbers]):
    """Partition -> int32, the rows of it that are not held out.

    seed : of the run.
    rows, held : the number of rows of each partition, and of those that are held out.
    """

    seed: int
    rows: tuple[int, ...]
    held: tuple[int, ...]

    def __getitem__(self, partition: int) -> RowNumbers:
        return self.split(partition)[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.rows)))

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each partition that are not held out."""
        return [rows - held for rows, held in zip(self.rows, self.held, strict=True)]

    def split(self, partition: int) -> tuple[RowNumbers, RowNumbers]:
        """Return the rows of a partition that are held out, and the others."""
        return _split(self.seed, partition, self.rows[partition], self.held[partition])

    def sample(self, partition: int, number: int) -> RowNumbers:
        """Return some of the others: the rows of a partition that are a sample of those to train on, together with
        those of other partitions. `number` : of them in all partitions."""
        left = self[partition]
        count = min(len(left), in_proportion(number, tuple(self.sizes))[partition])
        random = np.random.default_rng([self.seed, PREPARE_STREAM, partition, 1])
        return left[drawn(len(left), count, random)[0]]


@lru_cache(maxsize=8)
def _split(seed: int, partition: int, rows: int, held: int) -> tuple[RowNumbers, RowNumbers]:
    return drawn(rows, held, np.random.default_rng([seed, HOLDOUT_STREAM, partition]))
