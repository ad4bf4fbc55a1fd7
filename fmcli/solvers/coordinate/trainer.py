"""Coordinate descent: epochs over rows of parameters, in as many threads as rows permit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model, Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.coordinate.columns import most_entries
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.solvers.trainer import Observer, Trainer

# Entries between two looks at the clock, some 30 ms of work; and of rows without common samples, so many
# that it pays to share them among threads.
ENTRIES_A_TASK, ENTRIES_TO_SHARE = 1 << 21, 1 << 13
# Samples whose losses are summed apart, so that the sum is the same for any number of threads.
SAMPLES_A_TASK = 1 << 14
# Numbers that a row takes in the order of updates: itself, and where its entries end; and others while a sweep is made,
# more of them where rows are sorted because features have several.
NUMBERS_A_ROW, NUMBERS_BEING_MADE, NUMBERS_BEING_SORTED = 2, 1, 3


class Chunk(NamedTuple):
    """Rows order[begin:end] of a block, to be updated one after the other, or at once: no two enter the same sample."""

    begin: int
    end: int
    conflict_free: bool


class Sweep(NamedTuple):
    """A block's rows that enter samples, in the order of updates.

    order : int64, the rows.
    ends : int64 (rows + 1), how many entries the rows before each one have.
    """

    order: NDArray[np.int64]
    ends: NDArray[np.int64]
    chunks: list[Chunk]


class CoordinateTrainer(Trainer):
    """Trains by coordinate descent."""

    def bytes_needed(self) -> int:
        task = self.task
        return CoordinateDescent.bytes_needed(task.model, task.data, task.threads) + task.copy_needed()

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task = self.task
        self.descent = CoordinateDescent(task.model, loss, penalty, task.training_data(), task.threads, observer.rows)

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        self.descent.run(epochs, after)


class CoordinateDescent:
    """Cyclic descent on the mean loss plus penalty; see descent.Descent.

    Threads share runs of rows that enter no sample in common, such as those of one field of one-hot features: the
    result is the same for any number of threads.

    Parameters
    ----------
    model : Model, allocated without state and started.
    loss, penalty : as the run has them.
    data : Dataset with labels, to train on.
    threads : how many.
    on_rows : called several times a second with the epoch (from 1) and what part of it is done, in rows.
    by_gradient : see Descent.
    """

    def __init__(
        self,
        model: Model,
        loss: Loss,
        penalty: Penalty,
        data: Dataset,
        threads: int = 1,
        on_rows: Callable[[int, int], None] = lambda epoch, rows: None,
        by_gradient: bool = False,
    ) -> None:
        model.freeze()
        self.model, self.loss, self.data, self.threads, self.on_rows = model, loss, data, threads, on_rows
        self.penalty = penalty
        self.descent = Descent(model, loss, penalty, data, by_gradient=by_gradient)
        self.updaters = [CoordinateUpdater(self.descent) for _ in range(threads)]
        self.blocks = blocks_in_order(model)
        self.sweeps = {number: self._sweep(number) for number in self.blocks}

    @staticmethod
    def bytes_needed(model: Model, data: Dataset, threads: int) -> int:
        """Bytes that the states of samples, columns, the order of updates and the threads' rooms take."""
        rows = [layout.rows(model.features) for layout in model.layout]
        most = [min(pair) for pair in zip(rows, most_entries(model, data), strict=True)]  # that enter samples
        updates = sum(entered for entered, layout in zip(most, model.layout, strict=True) if layout.trained)
        making = max(
            (NUMBERS_BEING_SORTED if layout.by_feature and layout.others > 1 else NUMBERS_BEING_MADE) * entered
            for entered, layout in zip(most, model.layout, strict=True)
        )
        numbers = NUMBERS_A_ROW * updates + making + data.rows
        rooms = threads * Workspace.bytes_needed(model, data.longest)
        return Descent.bytes_needed(model, data) + np.dtype(np.int64).itemsize * numbers + rooms

    def _sweep(self, number: int) -> Sweep:
        columns, order = self.descent.columns[number], self.descent.order(number)
        ends = np.zeros(len(order) + 1, dtype=np.int64)
        np.cumsum(columns.entries(order), out=ends[1:])
        begins = [0] if self.threads == 1 or columns.same else columns.apart(order, self.data.rows)
        return Sweep(order, ends, list(self._chunks(ends, begins)))

    def _chunks(self, ends: NDArray[np.int64], begins: list[int]) -> Iterator[Chunk]:
        """Rows in chunks of a task's size; `begins` are those of runs of which no two enter the same sample."""
        done, rows = 0, len(ends) - 1
        for begin, end in zip(begins, [*begins[1:], rows], strict=True):
            if len(begins) > 1 and ends[end] - ends[begin] >= ENTRIES_TO_SHARE and end - begin > 1:
                yield from cut(ends, done, begin, ENTRIES_A_TASK, conflict_free=False)
                yield from cut(ends, begin, end, ENTRIES_A_TASK * self.threads, conflict_free=True)
                done = end
        yield from cut(ends, done, rows, ENTRIES_A_TASK, conflict_free=False)

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Descend; `after` is called with mean loss and penalty after every epoch and tells whether to stop."""
        self.model.end_epoch()  # it has been seen which rows enter samples at all
        with ThreadPoolExecutor(self.threads) as pool:
            self.objective(pool)
            for epoch in range(1, epochs + 1):
                self.epoch(pool, epoch)
                self.model.end_epoch()
                if self.model.steps_apart and self.model.step_apart(
                    self.data, self.loss, lambda: sum(self.objective(pool))
                ):
                    self.descent.look_again()
                    own = [number for number in self.blocks if self.model.layout[number].touched == "own"]
                    self.sweeps.update({number: self._sweep(number) for number in own})
                if self.penalty.end_epoch():
                    self.descent.weigh()
                # Also begins the next epoch from exact scores.
                if after(*self.objective(pool)):
                    break

    def objective(self, pool: ThreadPoolExecutor) -> tuple[float, float]:
        """(mean loss, penalty) of the parameters as they are."""
        rows = self.data.rows
        starts = range(0, rows, SAMPLES_A_TASK)

        def some(thread: int) -> list[float]:
            updater = self.updaters[thread]
            return [updater.measure(at, min(at + SAMPLES_A_TASK, rows)) for at in starts[thread :: self.threads]]

        parts = list(pool.map(some, range(self.threads)))
        in_order = [parts[task % self.threads][task // self.threads] for task in range(len(starts))]
        return sum(in_order), self.descent.penalty_value()

    def epoch(self, pool: ThreadPoolExecutor, epoch: int) -> None:
        """Update every row once."""
        done, entries = 0, self.model.outputs * sum(int(sweep.ends[-1]) for sweep in self.sweeps.values())
        for output in range(self.model.outputs):
            for number, sweep in self.sweeps.items():
                if self.model.layout[number].role == "kernel weights":
                    self.descent.weigh_kernels()
                for chunk in sweep.chunks:
                    self._update(pool, number, output, sweep, chunk)
                    self.on_rows(epoch, (done + int(sweep.ends[chunk.end])) * self.data.rows // entries)
                done += int(sweep.ends[-1])

    def _update(self, pool: ThreadPoolExecutor, number: int, output: int, sweep: Sweep, chunk: Chunk) -> None:
        if not chunk.conflict_free:
            self.updaters[0].run(number, output, sweep.order, chunk.begin, chunk.end)
            return
        # In parts of about as many entries each.
        first, last = sweep.ends[chunk.begin], sweep.ends[chunk.end]
        bounds = np.searchsorted(sweep.ends, first + (last - first) * np.arange(self.threads + 1) / self.threads)

        def part(thread: int) -> None:
            self.updaters[thread].run(number, output, sweep.order, bounds[thread], bounds[thread + 1])

        list(pool.map(part, range(self.threads)))


def blocks_in_order(model: Model) -> list[int]:
    """The blocks that move, in the order of updates: fitted weights of kernels come before the factors, so that their
    start does not decide which signs they end with ([PN] 9.1).

    An epoch then also begins with them while the caches are exact: where kernels vanish, what earlier updates leave of
    them in caches is rounding, on which no step of their weights would be too long.
    """
    moved = [number for number, layout in enumerate(model.layout) if layout.trained]
    return sorted(moved, key=lambda number: model.layout[number].role != "kernel weights")


def cut(ends: NDArray[np.int64], begin: int, end: int, entries: int, *, conflict_free: bool) -> Iterator[Chunk]:
    """Rows begin:end in chunks of so many entries or little more; row j's are those from ends[j] on."""
    while begin < end:
        stop = min(end, max(begin + 1, int(np.searchsorted(ends, ends[begin] + entries))))
        yield Chunk(begin, stop, conflict_free)
        begin = stop
