"""Sequential training: a step for each row, or for each batch of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

import numpy as np

from fmcli.models.workspace import Workspace
from fmcli.registry.streams import SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.loop import RowLoop

if TYPE_CHECKING:
    from fmcli.data.dataset import Dataset
    from fmcli.data.shards.training_rows import RowNumbers
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task


# Short rows in a random order are copied before training, this number of entries at a time, because a loop that only
# copies waits for several rows of memory at once. Long rows, and data that fit in a cache, do not gain.
WINDOW_NONZEROS, LONG_ROW, CACHED_BYTES = 1 << 19, 64, 1 << 22


def window_of(task: Task) -> int:
    """Return how many rows of a task are copied at a time, a multiple of the batch size; 0: none are."""
    data, batch = task.data, int(task.spec.values["batch_size"])
    rows, entries = max(1, data.rows), max(data.nnz, data.rows)
    if not task.spec.values["shuffle"] or entries > LONG_ROW * rows or data.nbytes <= CACHED_BYTES:
        return 0
    return math.ceil(WINDOW_NONZEROS * rows / entries / batch) * batch


def window_bytes(task: Task) -> int:
    """Return bytes of the rows that are copied: some are trained on, while another thread copies the next ones."""
    rows = min(window_of(task), task.data.rows)
    return min(task.threads, 2) * rows * (task.data.nbytes // max(1, task.data.rows) + np.dtype(np.int32).itemsize)


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
        self._pool: Executor | None = None
        self._size = 0 if self.pairs else window_of(task)
        self._in_place = np.arange(self._size, dtype=np.int32)
        # Windows, and their numbers: the one that is trained on, and the one that is being copied.
        self._current: tuple[int, Dataset] = -1, task.data
        self._next: tuple[int, Future[Dataset] | None] = -1, None
        self.loop = RowLoop(task.model, solver, loss, task.data, self.unit, mean_weight, longest, pairs=self.pairs)

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Return bytes of an update, and of the rows that are copied."""
        model, longest, batch = task.model, task.source.longest, task.spec.values["batch_size"]
        merged = Batch.bytes_needed(model, batch, longest) if batch > 1 else 0
        return Workspace.bytes_needed(model, longest) + model.update_needed(batch) + merged + window_bytes(task)

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        """Draw the order of an epoch after its first `done` rows: the order of the shards, if there are several, and
        the order of the rows of each shard.

        pool : if it has several threads, one copies the next rows meanwhile, and one draws the order of the next epoch
            if the rows are in memory.
        last : whether no epoch follows by rows.
        """
        ahead, self._ahead = self._ahead, None
        self._shards = iter(ahead.result()) if ahead else self._in_order(number)
        if self.task.threads > 1 and self.task.source.in_memory and not last:
            self._ahead = pool.submit(list, self._in_order(number + 1))
        self._pool = pool if self.task.threads > 1 else None
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
        self._forget_windows()
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
        if not self._size:
            return self.loop.train_on(self.order, first, last, total)
        for number in range(first // self._size, math.ceil(last / self._size)):
            begin, rows = number * self._size, self._window(number)
            order = self._in_place[: rows.rows]
            total = self.loop.train_on(order, max(first - begin, 0), min(last - begin, rows.rows), total)
        return total

    def _window(self, number: int) -> Dataset:
        """Return some rows of this shard, copied in the order of the epoch; they are trained on next."""
        current, rows = self._current
        if number != current:
            of_next, copied = self._next
            rows = copied.result() if copied and of_next == number else self._copied(number)
            self.loop.take(rows)
            self._current, self._next = (number, rows), (number + 1, None)
            if self._pool and (number + 1) * self._size < len(self.order):
                self._next = number + 1, self._pool.submit(self._copied, number + 1)
        return rows

    def _copied(self, number: int) -> Dataset:
        return self.data.take(self.order[number * self._size : (number + 1) * self._size])

    def _forget_windows(self) -> None:
        self._current, self._next = (-1, self.task.data), (-1, None)

    def end(self) -> None:
        """End an epoch, which the deadline may have cut short, and free its order."""
        self.forget()
        self._forget_windows()
        self.order = self.order[:0].copy()

    def forget(self) -> None:
        """Forget the generator of the order, which refers to this object, so the model's memory is free as soon as
        the run is."""
        self._shards = iter(())
