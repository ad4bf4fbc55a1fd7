"""Row solvers on a cluster: synchronous.

A round takes the next rows of each partition, a fixed share. Workers compute, for each parameter row that these touch,
the sums of the gradients and of their squares, from parameters that the client sends with the task. The client adds the
sums in the order of the partitions and makes one step for each row. Workers keep no parameters: the result of a task
says which ones the next round needs. So nothing can be out of date, and a task can be repeated by any worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fmcli.cluster import work
from fmcli.cluster.parameters import united_columns, values_of
from fmcli.cluster.shared import Columns, Values
from fmcli.cluster.sums import ShareSums
from fmcli.cluster.work import Place
from fmcli.errors import BadInputError
from fmcli.solvers.rounds.row_sums import added_sums, step_by_sums

if TYPE_CHECKING:
    from fmcli.cluster.rows import PartitionedRows
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task

# The least rows of a round, and about how many rounds an epoch has at least: a round takes tens of milliseconds, and
# fewer steps learn more slowly.
LEAST_ROWS, USUAL_ROUNDS = 1024, 2000

T = TypeVar("T")


def round_size(rows: int) -> int:
    """Return how many rows a round has, of so many."""
    return max(LEAST_ROWS, 1 << int(math.log2(max(1, rows / USUAL_ROUNDS))))


class Rounds:
    """The epochs of a task in rounds; as RowEpochs, whose arguments it takes.

    unit : an epoch can be divided after any round.
    """

    unit = 1

    def __init__(self, task: Task, solver: Solver, loss: Loss, mean_weight: float) -> None:
        self.task, self.solver, self.loss = task, solver, loss
        source: PartitionedRows = task.source  # type: ignore[assignment]
        self.partitions, self.sizes = source.partitions, source.sizes
        self.rounds = rounds_of(task)
        self.shared = source.goal(task, mean_weight if solver.averages_weights else 1.0)
        self.next: dict[tuple[int, ...], Columns] = {}
        self.place = Place(0, 0, self.rounds)

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Return bytes of the parameters, sums and states of a round, if no two entries are of the same feature."""
        rows, model = task.source.count / rounds_of(task), task.model
        features = min(model.features, rows * task.source.nonzeros / max(1, task.source.count))
        numbers = sum(model.outputs * layout.rows(int(features)) * (3 * layout.lanes + 8) for layout in model.layout)
        return 2 * np.dtype(np.float64).itemsize * numbers

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        """Begin an epoch, of which so many rows are done already. Raises BadInputError if these are not some rounds."""
        ends = [self.done_after(round) for round in range(self.rounds)]
        if done and done not in ends:
            raise BadInputError(f"the checkpoint is not valid: no round ends after {done} rows; remove it")
        self.place = Place(self.task.epochs_before + number, ends.index(done) + 1 if done else 0, self.rounds)
        if not self.next:
            self.next = dict(self._results(work.columns_in, self._groups()))

    def done_after(self, round: int) -> int:
        """Return the number of rows of an epoch that are done after a round."""
        return sum(rows * (round + 1) // self.rounds for rows in self.sizes)

    def advance(self, stop: int, total: float) -> tuple[int, float, float]:
        """Train for a round.

        Returns how many rows of the epoch are done then, the weight of the new ones, and `total` plus their weighted
        losses.
        """
        model, cluster = self.task.model, self.partitions.cluster
        groups = self._groups()
        known = all(numbers in self.next for _, numbers in groups)

        def values(numbers: tuple[int, ...]) -> tuple[Values]:
            given = values_of(model, self.next[numbers] if known else every)
            cluster.sent += given.nbytes
            return (given,)

        every = None if known else united_columns(self.next.values())
        shares: dict[int, tuple[ShareSums, int]] = {}
        following: dict[tuple[int, ...], Columns] = {}
        for numbers, (sums, columns) in self._results(work.sums_in, groups, values):
            shares.update((number, (sums, share)) for share, number in enumerate(numbers))
            following[numbers] = columns
            cluster.received += sums.nbytes + (0 if columns is None else columns.nbytes)
        in_order = [shares[number] for number in sorted(shares)]
        for block in range(len(model.layout)):
            total_sums = added_sums([sums.of_share(share, block) for sums, share in in_order])
            if model.anchored:
                model.anchored.entered(block, total_sums.rows)
            step_by_sums(model, self.solver, self.loss, block, total_sums)
        model.project()
        done = self.done_after(self.place.round)
        self.next, self.place = following, self.place.next
        weight = sum(float(sums.weights[share]) for sums, share in in_order)
        return done, weight, total + sum(float(sums.losses[share]) for sums, share in in_order)

    def end(self) -> None:
        """End an epoch."""

    def _groups(self) -> list[tuple[str | None, tuple[int, ...]]]:
        """Return the partitions with rows to train on, together for each thread of a worker, and the worker."""
        groups = self.partitions.groups(number for number, size in enumerate(self.sizes) if size)
        return [(place, tuple(numbers)) for place, numbers in groups]

    def _results(
        self,
        task: Callable[..., T],
        groups: Sequence[tuple[str | None, tuple[int, ...]]],
        arguments: Callable[[tuple[int, ...]], tuple[Any, ...]] = lambda numbers: (),
    ) -> Iterator[tuple[tuple[int, ...], T]]:
        """Return the partitions of each group, and the result of a task on them."""
        cluster, partitions = self.partitions.cluster, self.partitions
        futures = []
        for place, numbers in groups:
            there = partitions.inputs.on(place), self.shared.on(place)
            futures.append(cluster.submit(task, *there, numbers, self.place, *arguments(numbers), worker=place))
        results = cluster.results(futures, f"round {self.place.round + 1} of epoch {self.place.epoch}")
        return zip((numbers for _, numbers in groups), results, strict=True)


def rounds_of(task: Task) -> int:
    """Return how many rounds an epoch has."""
    rows = task.source.count
    chosen = int(task.spec.values["round_size"])
    return max(1, math.ceil(rows / (chosen if chosen > 1 else round_size(rows))))
