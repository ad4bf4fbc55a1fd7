"""Sequential training on pairs of rows: a step for each pair, or for each batch of pairs."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING

from fmcli.data.shards.paired_rows import PairedRows
from fmcli.models.workspace import Workspace
from fmcli.registry.streams import PAIR_STREAM, generator
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.rows import RowEpochs

if TYPE_CHECKING:
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
