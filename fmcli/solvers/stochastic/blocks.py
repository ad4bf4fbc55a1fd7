"""Block steps: one step for a block of many samples, which threads share without any effect on the result.

All gradients of a block are computed from the parameters before it; then, each parameter row that the block touches is
updated once, by the sum of its gradients and the sum of their squares. Blocks grow during training, because in the
beginning every step changes the slopes of the next samples much.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.model import Workspace
from fmcli.registry.streams import BLOCK_STREAM, PAIR_STREAM, SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.block_loop import BlockLoop, SampleBlocks
from fmcli.system.parallel import in_parallel

if TYPE_CHECKING:
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task

# A block has at most a sample for this many samples that training has seen before it. With 64, training was slower.
SAMPLES_BEFORE = 256
# Numbers for each entry of a block, grouped by feature: its own, and its row's, if no other entry has it; then also its
# value and weight. And those of the work space to group them.
GROUPED, GROUPED_WITH_VALUES, GROUPING = 3, 5, 5
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
        self.task, self.solver, self.loss = task, solver, loss
        self.divisor = mean_weight if solver.averages_weights else 1.0
        self.seen, self.unit, self._key = 0, 1, (-1, False)
        self._arranged: list[tuple[SampleBlocks, BlockLoop]] = []
        product = mean_product(task.data, task.rows, generator(task.spec, PAIR_STREAM))
        self.curvature = loss.smoothness * product

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Bytes of the copied rows, of their entries grouped by feature, of a block's gradients, and of the threads."""
        data, model, size = task.data, task.model, int(task.spec.values["block_size"])
        number, share = np.dtype(np.int32).itemsize, len(task.rows) / max(1, task.data.rows)
        numbers = GROUPED if data.value is None else GROUPED_WITH_VALUES
        rows = int(share * (data.nbytes + numbers * number * data.nnz))
        entries = min(data.nnz, size * data.longest)
        thread = number * (data.features + GROUPING * entries) + Workspace.bytes_needed(model, data.longest)
        return int(rows + BlockLoop.bytes_needed(model, size, entries) + task.threads * thread)

    @property
    def blocks(self) -> SampleBlocks:
        """The blocks of this epoch."""
        return self._arranged[0][0]

    @property
    def loop(self) -> BlockLoop:
        """The loop through them."""
        return self._arranged[0][1]

    def begin(self, number: int, pool: Executor) -> None:
        """Arrange the rows of an epoch.

        Once blocks no longer grow, all epochs have the same blocks, in a new random order.
        """
        task, rows, size = self.task, len(self.task.rows), self.task.spec.values["block_size"]
        epoch = task.epochs_before + number
        full = self.seen >= growing(size)
        # The first epoch of complete blocks. It is the same in a run that resumes with as many rows.
        first = max(1, epoch - (self.seen - growing(size)) // rows) if full else epoch
        if self._key != (first, full):
            self._key = (first, full)
            self._arrange(first)
        self.order = np.arange(len(self.blocks), dtype=np.int32)
        if full and task.spec.values["shuffle"]:
            generator(task.spec, BLOCK_STREAM, epoch).shuffle(self.order)
        self.ends, self.next, self.pool = np.cumsum(np.diff(self.blocks.ends)[self.order]), 0, pool
        self.seen += rows

    def _arrange(self, epoch: int) -> None:
        """Copy the rows in the random order of an epoch, and group the entries of its blocks."""
        task, threads = self.task, self.task.threads
        order = task.rows.copy()
        if task.spec.values["shuffle"]:
            generator(task.spec, SHUFFLE_STREAM, epoch).shuffle(order)
        self._arranged.clear()  # frees the memory of the last epoch's rows
        ends = block_ends(len(order), self.seen, task.spec.values["block_size"])
        blocks = SampleBlocks(
            task.data.take(order, threads), ends, mean_weight=self.divisor, by_sample=task.model.pair_block >= 0
        )
        parts = [len(blocks) * part // threads for part in range(threads + 1)]
        in_parallel(lambda part: blocks.group(parts[part], parts[part + 1]), range(threads), threads)
        loop = BlockLoop(task.model, self.solver, self.loss, blocks, self.curvature, threads)
        self._arranged.append((blocks, loop))

    def train(self, stop: int, total: float) -> tuple[int, float]:
        """Train on the next blocks, up to the one that contains sample `stop`; return how many samples of the epoch are
        done then, and `total` plus the weighted losses."""
        last = int(np.searchsorted(self.ends, stop)) + 1
        total = self.loop.run(self.pool, self.order, self.next, last, total)
        self.next = last
        return int(self.ends[last - 1]), total

    def weight(self, start: int, stop: int) -> float:
        """The total weight of the samples start .. stop - 1 of the epoch, which are whole blocks."""
        data = self.blocks.data
        if data.weight is None:
            return float(stop - start)
        by_block = np.add.reduceat(data.weight, self.blocks.ends[:-1])[self.order]
        return float(by_block[(self.ends > start) & (self.ends <= stop)].sum())
