"""Rounds: one step for a round of many samples, which threads share without any effect on the result.

All gradients of a round are computed from the parameters before it; then, each parameter row that the round touches is
updated once, by the sum of its gradients and the sum of their squares. In the beginning, when every step changes the
slopes of the next samples much, each sample has its own step.

Rows in memory stay in the same rounds, whose entries are in buckets by feature only once. Rows in a cache are divided
anew in every epoch, because grouped entries take up to four times the space of the rows, so reading them would
take at least as long as that. No round has rows of two shards of the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import BadInputError
from fmcli.models.workspace import Workspace
from fmcli.registry.streams import ROUND_STREAM, generator
from fmcli.solvers.stochastic.round_loop import RoundLoop
from fmcli.solvers.stochastic.rows import RowEpochs
from fmcli.solvers.stochastic.sample_rounds import BucketRoom, SampleRounds
from fmcli.system.machine import cpu_count

if TYPE_CHECKING:
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task

# Rounds of n samples begin after this many times n samples. With 64, training was slower.
SAMPLES_BEFORE = 256
# Rows are copied in the order of training, and grouped, in pieces of this many, which fit in a cache.
PIECE = 1 << 15


def round_ends(rows: int, size: int) -> NDArray[np.int64]:
    """Return the first row of each round of `size` rows, and the end of the last round, which may be smaller."""
    return np.append(np.arange(0, rows, size, dtype=np.int64), rows)


def piece_size(size: int) -> int:
    """Return the number of rows of a piece, in rounds of `size` rows."""
    return math.ceil(PIECE / size) * size


def round_bytes(task: Task) -> int:
    """Return bytes of the rows that are copied into rounds at a time, and of their entries in buckets by feature."""
    data, source, size = task.data, task.source, int(task.spec.values["round_size"])
    # If rows are in a cache, each thread groups a piece during the training on the piece before.
    rows = source.count if source.in_memory else min(max(source.sizes), (threads_of(task) + 1) * piece_size(size))
    return int(rows / max(1, data.rows) * (data.nbytes + SampleRounds.bytes_needed(data)))


def threads_of(task: Task) -> int:
    """Return how many threads share the steps: no more than there are processors, because threads wait for each other
    twice a round, which takes long if one of them is not running."""
    return min(task.threads, cpu_count())


class RoundEpochs:
    """The epochs of a task by rounds.

    Parameters
    ----------
    task : its option round_size is the number of samples of a round.
    mean_weight : mean of the rows' weights.

    Attributes
    ----------
    seen : samples of all completed epochs, including epochs of earlier runs whose state is kept.
    unit : an epoch can be divided after multiples of this number of samples, at the end of the round.
    """

    def __init__(self, task: Task, solver: Solver, loss: Loss, mean_weight: float) -> None:
        self.task, self.size = task, int(task.spec.values["round_size"])
        self.divisor = mean_weight if solver.averages_weights else 1.0
        self.seen, self.unit, self._first = 0, 1, 0
        self._kept: dict[tuple[int, int], SampleRounds] = {}
        self.rows = RowEpochs(task, solver, loss, mean_weight)
        self.threads = threads_of(task)
        self.loop = RoundLoop(task.model, solver, loss, self.threads)
        self.rooms = [BucketRoom(task.data.features) for _ in range(self.threads)]

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Return bytes of the rounds, of a round's gradients, and of the threads."""
        model, size, longest = task.model, int(task.spec.values["round_size"]), task.source.longest
        threads, entries = threads_of(task), min(task.source.nonzeros, size * longest)
        rooms = threads * BucketRoom.bytes_needed(task.data.features, entries)
        workspaces = threads * Workspace.bytes_needed(model, longest)
        steps = RowEpochs.bytes_needed(task) + RoundLoop.bytes_needed(model, size, entries)
        return round_bytes(task) + steps + rooms + workspaces

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        """Divide an epoch into single rows, which come first, and rounds.

        With rows in memory, the order of the epoch in which the first round begins determines the rounds of all later
        epochs, in which their order is random.

        last : whether no epoch follows, so nothing needs to be kept.
        done : the number of samples of the epoch that are done already: single rows, or whole rounds.
        """
        source, single = self.task.source, SAMPLES_BEFORE * self.size
        rows, epoch = source.count, self.task.epochs_before + number
        first = epoch
        if source.in_memory and self.seen >= single:
            # The epoch in which the first round begins. It is the same in a run that resumes with as many rows.
            first = max(1, epoch - 1 - (self.seen - single) // rows)
        self._single = max(0, min(rows, single - self.seen + (epoch - first) * rows))
        if self._first != first:
            self._first, self._kept = first, {}
            self.rows.begin(first - self.task.epochs_before, pool, True, min(done, self._single))
        self._keep, self._pool = source.in_memory and not last, pool
        self._arranged = self._in_order(self._single, pool)
        if first < epoch:
            scheduled, self._single = [*self._pieces(0, self._single), *self._pieces(self._single, rows)], 0
            random = generator(self.task.spec, ROUND_STREAM, epoch) if self.task.spec.values["shuffle"] else None
            self._arranged = self._arrange(scheduled, random, pool)
        self._done, self._next, self._ends = min(done, self._single), 0, np.zeros(0, dtype=np.int64)
        self.rows.done = self._done
        while self._done < done:
            if self._next == len(self._ends):
                self._begin_piece()
            self._next = int(np.searchsorted(self._ends, done, side="right"))
            self._done = int(self._ends[self._next - 1]) if self._next else self._done
            if self._next < len(self._ends) and self._done < done:  # `done` may come from a file
                raise BadInputError(f"the checkpoint is not valid: no round of rows ends after {done} rows; remove it")

    def end(self) -> None:
        """Count the samples of an epoch, which the deadline may have cut short; as for rows, forget its generators."""
        self.seen += self.task.source.count
        self._arranged = iter(())
        self.rows.forget()

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return (start, stop) of each contiguous run of rows."""
        step = piece_size(self.size)
        return [(at, min(at + step, stop)) for at in range(start, stop, step)]

    def _in_order(self, done: int, pool: Executor) -> Iterator[tuple[SampleRounds, NDArray[np.int32]]]:
        """Yield the rounds of each piece in the order of the epoch, after its first `done` rows, and their order."""
        while done < self.task.source.count:
            if done == self.rows.stop:
                self.rows.next_shard()
            yield from self._arrange(self._pieces(done - self.rows.start, len(self.rows.order)), None, pool)
            done = self.rows.stop

    def _arrange(
        self, scheduled: list[tuple[int, int]], random: np.random.Generator | None, pool: Executor
    ) -> Iterator[tuple[SampleRounds, NDArray[np.int32]]]:
        """Yield the rounds of each piece, and their order. Each thread arranges a piece."""
        if random:
            random.shuffle(scheduled)
        in_order = map if self.threads == 1 else pool.map
        for first in range(0, len(scheduled), self.threads):
            for rounds in in_order(self._rounds_of, scheduled[first : first + self.threads], self.rooms):
                order = np.arange(len(rounds), dtype=np.int32)
                if random:
                    random.shuffle(order)
                yield rounds, order

    def _rounds_of(self, piece: tuple[int, int], room: BucketRoom) -> SampleRounds:
        """Return the rows of a piece, copied in their order, and their grouped entries."""
        if piece in self._kept:
            return self._kept[piece]
        rows, by_sample = self.rows.order[slice(*piece)], self.task.model.pair_block >= 0
        rounds = SampleRounds(
            self.rows.data.take(rows),
            round_ends(len(rows), self.size),
            mean_weight=self.divisor,
            by_sample=by_sample,
            room=room,
        )
        if self._keep:
            self._kept[piece] = rounds
        return rounds

    def advance(self, stop: int, total: float) -> tuple[int, float, float]:
        """Train on the next rows and rounds, up to the round that contains sample `stop`.

        Returns how many samples of the epoch are done then, the weight of the new ones, and `total` plus their weighted
        losses.
        """
        weight = 0.0
        if self._done < self._single:
            self._done, weight, total = self.rows.advance(min(stop, self._single), total)
        while self._done < stop:
            if self._next == len(self._ends):
                self._begin_piece()
            last = min(int(np.searchsorted(self._ends, stop)) + 1, len(self._ends))
            total = self.loop.train_on(self._pool, self._rounds, self._order, self._next, last, total)
            weight += self._weight(self._order[self._next : last])
            self._next, self._done = last, int(self._ends[last - 1])
        return self._done, weight, total

    def _begin_piece(self) -> None:
        self._rounds, self._order = next(self._arranged)
        self._ends = self._done + np.cumsum(np.diff(self._rounds.ends)[self._order])
        self._next = 0

    def _weight(self, rounds: NDArray[np.int32]) -> float:
        """Return the total weight of some rounds of the current piece."""
        by_row, ends = self._rounds.data.weight, self._rounds.ends
        by_round = np.diff(ends) if by_row is None else np.add.reduceat(by_row, ends[:-1])
        return float(by_round[rounds].sum())
