"""Sequential training: a step for each row, or for each batch of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

from fmcli.models.workspace import Workspace
from fmcli.registry.streams import SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.loop import RowLoop

if TYPE_CHECKING:
    from fmcli.data.dataset import Dataset
    from fmcli.data.training_rows import RowNumbers
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task


class RowEpochs:
    """The epochs of a task, row by row or batch by batch, each in a new random order.

    Parameters
    ----------
    mean_weight : mean of the rows' weights, by which solvers that average weights divide.

    Attributes
    ----------
    unit : the rows of a batch; an epoch can be divided after any number of batches. The last batch of a shard of rows
        may be smaller.
    data, order : the shard that is trained on, and int32, the numbers of its rows in the order of the epoch.
    start, stop : the number of rows of the epoch before this shard, and up to its end.
    done : how many rows of the epoch are done.
    pairs : whether a step is by pairs of rows.
    """

    pairs = False

    def __init__(self, task: Task, solver: Solver, loss: Loss, mean_weight: float) -> None:
        self.task, self.unit = task, int(task.spec.values["batch_size"])
        longest = task.source.longest
        self._ahead: Future[list[tuple[Dataset, RowNumbers]]] | None = None
        self.loop = RowLoop(task.model, solver, loss, task.data, self.unit, mean_weight, longest, pairs=self.pairs)

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Return bytes of an update."""
        model, longest, batch = task.model, task.source.longest, task.spec.values["batch_size"]
        merged = Batch.bytes_needed(model, batch, longest) if batch > 1 else 0
        return Workspace.bytes_needed(model, longest) + model.update_needed(batch) + merged

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        """Draw the order of an epoch, of which so many rows are done already: that of the shards, if there are several,
        and that of the rows of each.

        pool : if it has several threads and the rows are in memory, one draws the order of the next epoch meanwhile.
        last : whether no epoch follows by rows.
        """
        ahead, self._ahead = self._ahead, None
        self._shards = iter(ahead.result()) if ahead else self._in_order(number)
        if self.task.threads > 1 and self.task.source.in_memory and not last:
            self._ahead = pool.submit(list, self._in_order(number + 1))
        self.stop = 0
        self.next_shard()
        while self.stop < done:
            self.next_shard()
        self.done = done

    def _in_order(self, number: int) -> Iterator[tuple[Dataset, RowNumbers]]:
        """Yield the shards of an epoch, and the numbers of the rows of each, both in the order of the epoch."""
        order = [shard for shard, size in enumerate(self.task.source.sizes) if size]
        random = None
        if self.task.spec.values["shuffle"]:
            random = generator(self.task.spec, SHUFFLE_STREAM, self.task.epochs_before + number)
        if random and len(order) > 1:
            random.shuffle(order)
        for data, rows in self.task.source.shards(order):
            if random:
                random.shuffle(rows)
            yield data, rows

    def next_shard(self) -> None:
        """Go on to the next shard of the epoch."""
        self.data, self.order = next(self._shards)
        self.loop.take(self.data)
        self.start, self.stop = self.stop, self.stop + len(self.order)

    def advance(self, stop: int, total: float) -> tuple[int, float, float]:
        """Train on the next rows, before `stop`, or up to the end of the batch that contains it.

        Returns how many rows of the epoch are done then, the weight of the new ones, and `total` plus their weighted
        losses.
        """
        weight = 0.0
        while self.done < stop:
            if self.done == self.stop:
                self.next_shard()
            first, last = self.done - self.start, min(stop, self.stop) - self.start
            last = min(math.ceil(last / self.unit) * self.unit, len(self.order))
            total = self._run(first, last, total)
            weight += self.data.total_weight(self.order[first:last])
            self.done = self.start + last
        return self.done, weight, total

    def _run(self, first: int, last: int, total: float) -> float:
        """Train on some rows of the order of this shard; returns `total` plus their weighted losses."""
        return self.loop.train_on(self.order, first, last, total)

    def end(self) -> None:
        """End an epoch, which the deadline may have cut short, and free its order."""
        self.forget()
        self.order = self.order[:0].copy()

    def forget(self) -> None:
        """Forget the generator of the order, which refers to this object, so that the model's memory is free as soon as
        the run is."""
        self._shards = iter(())
