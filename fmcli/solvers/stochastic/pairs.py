"""Sequential training on pairs of rows: a step for each pair, or for each batch of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np

from fmcli.data.shards.observed_rows import DrawnPairs
from fmcli.data.shards.paired_rows import PairedRows
from fmcli.models.workspace import Workspace
from fmcli.registry.streams import PAIR_STREAM, SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.rows import RowEpochs

if TYPE_CHECKING:
    from fmcli.data.dataset import Dataset
    from fmcli.data.shards.training_rows import RowNumbers
    from fmcli.solvers.trainer import Task


class PairEpochs(RowEpochs):
    """The epochs of a task whose rows are trained on in pairs. Each row that an epoch visits gets a partner, drawn anew
    for each epoch: that depends on the seed, the epoch and the row only, not on the order of the rows."""

    pairs = True

    @staticmethod
    def bytes_needed(task: Task) -> int:
        model, longest, rows = task.model, task.source.longest, 2 * task.spec.values["batch_size"]
        merged = Batch.bytes_needed(model, rows, longest)
        return 2 * Workspace.bytes_needed(model, longest) + model.update_needed(rows) + merged

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        assert isinstance(self.task.source, PairedRows)
        epoch = self.task.epochs_before + number
        self.partner = self.task.source.partners(generator(self.task.spec, PAIR_STREAM, epoch))
        super().begin(number, pool, last, done)

    def _run(self, first: int, last: int, total: float) -> float:
        return self.loop.train_on(self.order, first, last, total, self.partner)


class DrawnEpochs(PairEpochs):
    """The epochs of a task whose observed pairs are trained on beside drawn ones. These depend on the seed, the epoch
    and the place in the epoch only."""

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        RowEpochs.begin(self, number, pool, True, done)  # no epoch is drawn ahead, which would take memory

    def _in_order(self, number: int) -> Iterator[tuple[Dataset, RowNumbers]]:
        assert isinstance(self.task.source, DrawnPairs)
        spec, epoch, start = self.task.spec, self.task.epochs_before + number, 0
        order = self.task.source.order(generator(spec, SHUFFLE_STREAM, epoch) if spec.values["shuffle"] else None)
        for shard, size in enumerate(self.task.source.sizes):
            drawn = generator(spec, PAIR_STREAM, epoch, shard)
            yield self.task.source.with_negatives(order[start : start + size], drawn), np.arange(size, dtype=np.int32)
            start += size

    def next_shard(self) -> None:
        super().next_shard()
        pairs = len(self.order)
        self.partner = np.roll(np.arange(2 * pairs, dtype=np.int32), pairs)
