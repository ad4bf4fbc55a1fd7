"""Coordinate descent: epochs over rows of parameters, in as many threads as rows permit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli._core.data import Dataset
from fmcli._core.descent import Descent
from fmcli._core.loss import Loss
from fmcli._core.model import Model
from fmcli._core.penalty import Penalty
from fmcli._core.visitor import Visitor

# Entries between two looks at the clock and at Ctrl-C, some 30 ms of work; and of rows without common samples, so many
# that it pays to share them among threads.
ENTRIES_A_TASK, ENTRIES_TO_SHARE = 1 << 21, 1 << 13
# Samples whose losses are summed apart, so that the sum is the same for any number of threads.
SAMPLES_A_TASK = 1 << 14


class Stretch(NamedTuple):
    """Rows order[begin:end] of a block, to be visited one after the other, or at once: no two enter the same sample."""

    begin: int
    end: int
    at_once: bool


class CoordinateDescent:
    """Cyclic descent on the mean loss plus penalty; see _core.descent.Descent.

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
        self.descent = Descent(model, loss, penalty, data, by_gradient=by_gradient)
        self.visitors = [Visitor(self.descent) for _ in range(threads)]
        self.blocks = [number for number, layout in enumerate(model.layout) if layout.trained]
        self.orders: dict[int, NDArray[np.int64]] = {}
        self.stretches: dict[int, list[Stretch]] = {}
        self._plan()

    @staticmethod
    def bytes_needed(model: Model, data: Dataset) -> int:
        """Bytes that columns take, and about what records of the samples do."""
        lengths = np.diff(data.indptr).astype(float)
        entries, rows = data.nnz, 0
        for layout in model.layout:
            rows += layout.rows(model.features)
            if layout.touched == "own":  # of a feature those for each anchor or for each field that it meets; or pairs
                each = np.minimum(layout.others, lengths) if layout.by_feature else lengths / 2
                entries += int((lengths * each).sum())
        return 8 * entries + 16 * rows + data.rows * Descent.record_needed(model)

    def _plan(self) -> None:
        for number in self.blocks:
            if number not in self.stretches or self.model.layout[number].touched == "own":
                order = self.descent.order(number)
                self.orders[number] = order[self.descent.columns[number].entries(order) > 0]
                self.stretches[number] = list(self._stretches(number))
        lengths = [self.descent.columns[number].entries(self.orders[number]).sum() for number in self.blocks]
        self.entries = max(1, self.model.outputs * int(sum(lengths)))

    def _stretches(self, number: int) -> Iterator[Stretch]:
        """A block's rows in order, in stretches of a task's size."""
        order, columns = self.orders[number], self.descent.columns[number]
        ends = np.concatenate([[0], np.cumsum(columns.entries(order))])
        begins = [0] if self.threads == 1 or columns.same else columns.apart(order, self.data.rows)
        done = 0
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
            if len(begins) > 1 and ends[end] - ends[begin] >= ENTRIES_TO_SHARE and end - begin > 1:
                yield from cut(ends, done, begin, ENTRIES_A_TASK, at_once=False)
                yield from cut(ends, begin, end, ENTRIES_A_TASK * self.threads, at_once=True)
                done = end
        yield from cut(ends, done, len(order), ENTRIES_A_TASK, at_once=False)

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
                    self._plan()
                # Also begins the next epoch from exact scores.
                if after(*self.objective(pool)):
                    break

    def objective(self, pool: ThreadPoolExecutor) -> tuple[float, float]:
        """(mean loss, penalty) of the parameters as they are."""
        rows = self.data.rows
        starts = range(0, rows, SAMPLES_A_TASK)

        def some(thread: int) -> list[float]:
            visitor = self.visitors[thread]
            return [visitor.measure(at, min(at + SAMPLES_A_TASK, rows)) for at in starts[thread :: self.threads]]

        parts = list(pool.map(some, range(self.threads)))
        in_order = [parts[task % self.threads][task // self.threads] for task in range(len(starts))]
        return sum(in_order), self.descent.penalty_value()

    def epoch(self, pool: ThreadPoolExecutor, epoch: int) -> None:
        """Visit every row once."""
        done = 0
        for output in range(self.model.outputs):
            for number in self.blocks:
                if self.model.layout[number].penalty == "l2":
                    # Where kernels vanish, what is left of them in caches is rounding, and no step of their weights is
                    # too long on it.
                    self.objective(pool)
                    self.descent.weigh_kernels()
                ends = np.cumsum(self.descent.columns[number].entries(self.orders[number]))
                for stretch in self.stretches[number]:
                    self._visit(pool, number, output, stretch)
                    self.on_rows(epoch, int((done + ends[stretch.end - 1]) * self.data.rows // self.entries))
                done += int(ends[-1])

    def _visit(self, pool: ThreadPoolExecutor, number: int, output: int, stretch: Stretch) -> None:
        order = self.orders[number]
        if not stretch.at_once:
            self.visitors[0].run(number, output, order, stretch.begin, stretch.end)
            return
        lengths = self.descent.columns[number].entries(order[stretch.begin : stretch.end])
        ends = np.cumsum(lengths)
        bounds = stretch.begin + np.searchsorted(ends, ends[-1] * np.arange(self.threads + 1) / self.threads)
        bounds[-1] = stretch.end

        def part(thread: int) -> None:
            self.visitors[thread].run(number, output, order, bounds[thread], bounds[thread + 1])

        list(pool.map(part, range(self.threads)))


def cut(ends: NDArray[np.int64], begin: int, end: int, entries: int, *, at_once: bool) -> Iterator[Stretch]:
    """Rows begin:end in stretches of so many entries or little more; row j's are those from ends[j] on."""
    while begin < end:
        stop = min(end, max(begin + 1, int(np.searchsorted(ends, ends[begin] + entries))))
        yield Stretch(begin, stop, at_once)
        begin = stop
