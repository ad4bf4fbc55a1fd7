"""Block steps: one step for a block of many samples, which threads share without any effect on the result.

All gradients of a block are computed from the parameters before it; then, each parameter row that the block touches is
updated once, by the sum of its gradients and the sum of their squares. Blocks grow during training, because in the
beginning every step changes the slopes of the next samples much.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.model import Workspace
from fmcli.registry.streams import BLOCK_STREAM, PAIR_STREAM, SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.block_loop import BlockLoop
from fmcli.solvers.stochastic.sample_blocks import GroupingRoom, SampleBlocks

if TYPE_CHECKING:
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task

# A block has at most a sample for this many samples that training has seen before it. With 64, training was slower.
SAMPLES_BEFORE = 256
# Rows are copied in the order of training, and grouped, in pieces of this many, which fit in a cache.
PIECE = 1 << 15
# Pairs of rows whose products are averaged.
PAIRS = 20_000


def block_ends(rows: int, before: int, size: int) -> NDArray[np.int64]:
    """The first sample of each block in an epoch, and the end of the last block: int64 (blocks + 1).

    Block sizes are the largest powers of two of at most a 256th of the samples seen, and of at most `size`.

    Parameters
    ----------
    rows : samples in the epoch.
    before : samples of all epochs before.
    """
    parts, at = [np.zeros(1, dtype=np.int64)], 0
    while at < rows:
        seen = max(1, (before + at) // SAMPLES_BEFORE)
        power = 1 << (seen.bit_length() - 1)
        width = min(power, size)
        last = 2 * power * SAMPLES_BEFORE - before if power < size else rows  # where larger blocks begin
        stop = min(rows, last)
        parts.append(np.arange(at + width, stop + width, width, dtype=np.int64).clip(max=stop))
        at = stop
    return np.concatenate(parts)


def growing(size: int) -> int:
    """The number of samples after which all blocks have `size` samples."""
    return SAMPLES_BEFORE << (size - 1).bit_length()


def mean_product(data: Dataset, rows: NDArray[np.int32], random: np.random.Generator) -> float:
    """The root mean square of 1 + <x, y> over pairs of different rows: the effect that an update by one row has on the
    score of another. Each column is divided by the root mean square of its entries."""
    if len(rows) < 2:
        return 1.0
    first = random.integers(len(rows), size=PAIRS)
    second = (first + random.integers(1, len(rows), size=PAIRS)) % len(rows)
    products = data.products(rows[first], rows[second])
    return math.sqrt(float(np.mean((1 + products) ** 2)))


class Piece:
    """Consecutive blocks of an epoch.

    Parameters
    ----------
    rows : int32, the indices of the rows in the order of training.
    ends : int64 (blocks + 1), the first row of each block among them, and their number.
    repeats : whether later epochs have the same blocks.

    Attributes
    ----------
    blocks : the rows and their grouped entries, if they are kept.
    """

    def __init__(self, rows: NDArray[np.int32], ends: NDArray[np.int64], repeats: bool) -> None:
        self.rows, self.ends, self.repeats = rows, ends, repeats
        self.blocks: SampleBlocks | None = None


def pieces(rows: NDArray[np.int32], ends: NDArray[np.int64], repeats: bool = True) -> list[Piece]:
    """The pieces of rows with these ends of blocks, each of PIECE rows and the rest of a block."""
    bounds = np.unique([*np.searchsorted(ends, np.arange(0, len(rows), PIECE)), len(ends) - 1])
    return [
        Piece(rows[ends[first] : ends[last]], ends[first : last + 1] - ends[first], repeats)
        for first, last in itertools.pairwise(bounds)
    ]


class BlockEpochs:
    """The epochs of a task by block steps.

    Parameters
    ----------
    task : its option block_size is the size of blocks when they no longer grow.
    mean_weight : mean of the rows' weights.

    Attributes
    ----------
    seen : samples of all epochs so far, including those of earlier runs whose state is kept.
    unit : the number of samples, by multiples of which an epoch can be divided; the end of the block comes after it.
    """

    def __init__(self, task: Task, solver: Solver, loss: Loss, mean_weight: float) -> None:
        self.task, self.size = task, int(task.spec.values["block_size"])
        self.divisor = mean_weight if solver.averages_weights else 1.0
        self.seen, self.unit, self._first = 0, 1, 0
        product = mean_product(task.data, task.rows, generator(task.spec, PAIR_STREAM))
        self.loop = BlockLoop(task.model, solver, loss, loss.smoothness * product, task.threads)
        self.rooms = [GroupingRoom(task.data.features) for _ in range(task.threads)]

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Bytes of the copied rows, of their entries grouped by feature, of a block's gradients, and of the threads."""
        data, model, size = task.data, task.model, int(task.spec.values["block_size"])
        entries = min(data.nnz, size * data.longest)
        rooms = task.threads * GroupingRoom.bytes_needed(data.features, entries)
        workspaces = task.threads * Workspace.bytes_needed(model, data.longest)
        copied = len(task.rows) / max(1, data.rows) * (data.nbytes + SampleBlocks.bytes_needed(data))
        return int(copied) + BlockLoop.bytes_needed(model, size, entries) + rooms + workspaces

    def begin(self, number: int, pool: Executor, last: bool) -> None:
        """Divide an epoch into blocks.

        Once blocks no longer grow, all epochs have the same blocks in a new random order, namely those of the epoch in
        which they stopped growing.

        last : whether no epoch follows, so that nothing needs to be kept.
        """
        rows, shuffle, complete = len(self.task.rows), self.task.spec.values["shuffle"], growing(self.size)
        epoch = self.task.epochs_before + number
        # The epoch in which blocks stop growing. It is the same in a run that resumes with as many rows.
        first = max(1, epoch - 1 - (self.seen - complete) // rows) if self.seen >= complete else epoch
        grown = max(0, min(rows, complete - self.seen + (epoch - first) * rows))  # rows of that epoch before they do
        if self._first != first:
            self._first, self._order = first, self.task.rows.copy()
            if shuffle:
                generator(self.task.spec, SHUFFLE_STREAM, first).shuffle(self._order)
            parts = self._order[:grown], self._order[grown:]
            self._complete = [pieces(part, block_ends(len(part), complete, self.size)) for part in parts]
        early, late = self._complete
        if first == epoch:
            early = pieces(self._order[:grown], block_ends(grown, self.seen, self.size), repeats=False)
        random = generator(self.task.spec, BLOCK_STREAM, epoch) if shuffle and first < epoch else None
        self._keep, self._arranged, self._pool = not last, self._arrange([*early, *late], random, pool), pool
        self._next, self._ends = 0, np.zeros(1, dtype=np.int64)
        self.seen += rows

    def _arrange(
        self, scheduled: list[Piece], random: np.random.Generator | None, pool: Executor
    ) -> Iterator[tuple[SampleBlocks, NDArray[np.int32]]]:
        """The blocks of each piece of an epoch, and their order. Each thread arranges a piece."""
        if random:
            random.shuffle(scheduled)
        threads = self.task.threads
        in_order = map if threads == 1 else pool.map
        for first in range(0, len(scheduled), threads):
            for blocks in in_order(self._blocks_of, scheduled[first : first + threads], self.rooms):
                order = np.arange(len(blocks), dtype=np.int32)
                if random:
                    random.shuffle(order)
                yield blocks, order

    def _blocks_of(self, piece: Piece, room: GroupingRoom) -> SampleBlocks:
        """The rows of a piece, copied in their order, and their grouped entries."""
        if piece.blocks:
            return piece.blocks
        by_sample = self.task.model.pair_block >= 0
        blocks = SampleBlocks(
            self.task.data.take(piece.rows), piece.ends, mean_weight=self.divisor, by_sample=by_sample, room=room
        )
        if piece.repeats and self._keep:
            piece.blocks = blocks
        return blocks

    def train(self, stop: int, total: float) -> tuple[int, float, float]:
        """Train on the next blocks, up to the one that contains sample `stop`.

        Returns how many samples of the epoch are done then, the weight of these blocks, and `total` plus their weighted
        losses.
        """
        weight = 0.0
        while (done := int(self._ends[self._next])) < stop:
            if self._next == len(self._ends) - 1:
                self._blocks, self._order = next(self._arranged)
                self._ends = done + np.cumsum([0, *np.diff(self._blocks.ends)[self._order]])
                self._next = 0
            last = min(int(np.searchsorted(self._ends, stop)), len(self._order))
            total = self.loop.run(self._pool, self._blocks, self._order, self._next, last, total)
            weight += self._weight(self._next, last)
            self._next = last
        return done, weight, total

    def _weight(self, first: int, last: int) -> float:
        """The total weight of the blocks first .. last - 1 of the current piece."""
        weight = self._blocks.data.weight
        if weight is None:
            return float(self._ends[last] - self._ends[first])
        return float(np.add.reduceat(weight, self._blocks.ends[:-1])[self._order[first:last]].sum())
