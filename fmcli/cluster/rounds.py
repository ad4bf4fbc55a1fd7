"""Row solvers on a cluster, in synchronous rounds.

The first steps change a model most. So the client fetches the first rows of a run, some of each partition at a time,
and makes a step for each row, as on one machine. Then rounds begin. A round takes the same share of every partition,
its next rows. The client sends parameters with the tasks; workers compute, for each parameter row that their rows
touch, the sums of the gradients and of the squared gradients. The client adds the sums in the order of the partitions
and makes one step for each parameter row. Workers keep no parameters: each task also returns the features of the next
round. So nothing can be out of date, and any worker can repeat a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fmcli.cluster import work
from fmcli.cluster.parameters import united_columns, values_of
from fmcli.cluster.shared import Columns, Place, Values
from fmcli.cluster.sums import ShareSums
from fmcli.data.text.pieces import concatenated
from fmcli.errors import BadInputError
from fmcli.registry.streams import ROUND_STREAM, generator
from fmcli.solvers.rounds.row_sums import added_sums, step_by_sums
from fmcli.solvers.stochastic.loop import RowLoop

if TYPE_CHECKING:
    from distributed import Future

    from fmcli.cluster.cache import PartitionedCache
    from fmcli.cluster.residents import Resident
    from fmcli.data.dataset import Dataset
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task

# An epoch has at least FEW_ROUNDS rounds, while a round has more than LEAST_ROWS rows: a round takes tens of
# milliseconds, and fewer steps learn more slowly. It has at most 2 MANY_ROUNDS, if rounds have at least USUAL_ROWS
# rows.
LEAST_ROWS, USUAL_ROWS = 1024, 16384
FEW_ROUNDS, MANY_ROUNDS = 50, 500
# A round has at most this share of the rows trained on before it. Before the first round, each row has its own step.
GROWTH = 1 / 64
# The number of rows that the client fetches at a time, and bytes of an entry: feature, value and field.
BROUGHT_ROWS, ENTRY_BYTES = 32768, 12


def round_size(rows: int) -> int:
    """Return the largest number of rows of a round, for an epoch of `rows` rows."""
    return max(LEAST_ROWS, min(USUAL_ROWS, power_of_two(rows / FEW_ROUNDS)), power_of_two(rows / MANY_ROUNDS))


def power_of_two(most: float) -> int:
    """Return the largest power of two up to `most`, and at least 1."""
    return 1 << int(math.log2(max(1, most)))


class RowsInPartitions(Protocol):
    """Training rows in partitions. sizes : the number of rows of each partition."""

    partitions: PartitionedCache
    sizes: list[int]

    def goal(self, task: Task, weight: float) -> Resident:
        """Return the facts that the workers need for training."""
        ...


class Rounds:
    """The epochs of a task in rounds; takes the arguments of RowEpochs.

    unit : an epoch can be divided after any round.
    """

    unit = 1

    def __init__(self, task: Task, solver: Solver, loss: Loss, mean_weight: float) -> None:
        self.task, self.solver, self.loss = task, solver, loss
        source: RowsInPartitions = task.source  # type: ignore[assignment]
        self.partitions, self.sizes = source.partitions, source.sizes
        self.shared = source.goal(task, mean_weight if solver.averages_weights else 1.0)
        self.next: dict[tuple[int, ...], Columns] = {}
        self.coming: list[tuple[tuple[int, ...], Future]] = []  # the rows of the next step-by-step part, while fetched
        self.epoch, self.round, self.ends = 0, 0, [0]
        self.divisor = mean_weight
        self.loop: RowLoop | None = None

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Return the larger of two sizes in bytes: the parameters, sums and states of a round in which no two entries
        have the same feature; and the fetched rows, as they come, joined, and of the next fetch."""
        rows, model = min(largest_round(task), task.source.count), task.model
        entries = task.source.nonzeros / max(1, task.source.count)  # of a row
        features = min(model.features, rows * entries)
        numbers = sum(model.outputs * layout.rows(int(features)) * (3 * layout.lanes + 8) for layout in model.layout)
        brought = 3 * int(min(BROUGHT_ROWS, task.source.count) * entries) * ENTRY_BYTES
        return max(2 * np.dtype(np.float64).itemsize * numbers, brought)

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        """Begin an epoch after its first `done` rows. Raises BadInputError if no round ends there."""
        self.epoch = self.task.epochs_before + number
        self.ends = ends_of_rounds(self.task, self.epoch)
        ends = [self.done_after(end) for end in self.ends]
        if done not in ends:
            raise BadInputError(f"the checkpoint is not valid: no round ends after {done} rows; remove it")
        self.round = ends.index(done)

    def done_after(self, end: int) -> int:
        """Return the number of rows of an epoch that all partitions have done after a round that ends at `end`."""
        return sum(rows * end // self.task.source.count for rows in self.sizes)

    @property
    def place(self) -> Place:
        """The next round."""
        return self._place(self.epoch, self.ends, self.round)

    @property
    def following(self) -> Place:
        """The round after the next one; it may be in the next epoch."""
        if self.round + 2 < len(self.ends):
            return self._place(self.epoch, self.ends, self.round + 1)
        return self._place(self.epoch + 1, ends_of_rounds(self.task, self.epoch + 1), 0)

    def _place(self, epoch: int, ends: list[int], number: int) -> Place:
        return Place(epoch, ends[number], ends[number + 1], self.task.source.count)

    def advance(self, stop: int, total: float) -> tuple[int, float, float]:
        """Train on the next fetched rows, or for a round.

        Returns the number of rows done in the epoch, the weight of the new rows, and `total` plus their weighted
        losses.
        """
        weight, total = self._by_rows(total) if self._is_brought(self.place) else self._by_sums(total)
        self.round += 1
        return self.done_after(self.ends[self.round]), weight, total

    def _is_brought(self, place: Place) -> bool:
        """Return whether the client fetches the rows of a round and makes a step for each."""
        return (place.epoch - 1) * self.task.source.count + place.last <= rows_before(self.task)

    def _by_rows(self, total: float) -> tuple[float, float]:
        """Make a step for each of the next rows, as RowEpochs does, while the rows after them are fetched. Returns
        their weight, and `total` plus their losses."""
        found: dict[int, Dataset] = {}
        for numbers, parts in self._results(self.coming or self._sent(work.rows_of, self.place)):
            found.update(zip(numbers, parts, strict=True))
        more = self.round + 2 < len(self.ends) and self._is_brought(self.following)
        self.coming = self._sent(work.rows_of, self.following) if more else []
        data = concatenated([found[number] for number in sorted(found)])
        order = np.arange(data.rows, dtype=np.int32)
        if self.task.spec.values["shuffle"]:
            generator(self.task.spec, ROUND_STREAM, self.epoch, self.round).shuffle(order)
        if self.loop is None:
            longest = self.task.source.longest
            self.loop = RowLoop(self.task.model, self.solver, self.loss, data, 1, self.divisor, longest)
        self.loop.take(data)
        return data.total_weight(order), self.loop.train_on(order, 0, data.rows, total)

    def _by_sums(self, total: float) -> tuple[float, float]:
        """Make a step for each parameter row of a round. Returns the weight of its rows, and `total` plus their
        losses."""
        model, cluster = self.task.model, self.partitions.cluster
        if not self.next:
            self.next = dict(self._results(self._sent(work.columns_in, self.place)))
        known = all(numbers in self.next for _, numbers in self._groups())

        def values(numbers: tuple[int, ...]) -> tuple[Place, Values]:
            given = values_of(model, self.next[numbers] if known else every)
            cluster.sent += given.nbytes
            return self.following, given

        every = None if known else united_columns(self.next.values())
        shares: dict[int, tuple[ShareSums, int]] = {}
        following: dict[tuple[int, ...], Columns] = {}
        for numbers, (sums, columns) in self._results(self._sent(work.sums_in, self.place, values)):
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
        self.next = following
        weight = sum(float(sums.weights[share]) for sums, share in in_order)
        return weight, total + sum(float(sums.losses[share]) for sums, share in in_order)

    def end(self) -> None:
        """End an epoch."""

    def _groups(self) -> list[tuple[str | None, tuple[int, ...]]]:
        """Return the partitions with training rows, grouped by threads of workers: (worker, partitions)."""
        groups = self.partitions.groups(number for number, size in enumerate(self.sizes) if size)
        return [(place, tuple(numbers)) for place, numbers in groups]

    def _sent(
        self,
        task: Callable[..., Any],
        place: Place,
        arguments: Callable[[tuple[int, ...]], tuple[Any, ...]] = lambda numbers: (),
    ) -> list[tuple[tuple[int, ...], Future]]:
        """Send a task on the rows of a round for each group of partitions. Returns the partitions and the futures."""
        cluster, partitions, sent = self.partitions.cluster, self.partitions, []
        for worker, numbers in self._groups():
            there = partitions.inputs.on(worker), self.shared.on(worker)
            sent.append((numbers, cluster.submit(task, *there, numbers, place, *arguments(numbers), worker=worker)))
        return sent

    def _results(self, sent: Sequence[tuple[tuple[int, ...], Future]]) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Return the partitions of each group with the result of its task."""
        futures = [future for _, future in sent]
        results = self.partitions.cluster.results(futures, f"round {self.round + 1} of epoch {self.epoch}")
        return zip((numbers for numbers, _ in sent), results, strict=True)


def largest_round(task: Task) -> int:
    """Return the largest number of rows of a round of a task."""
    chosen = int(task.spec.values["round_size"])
    return chosen if chosen > 1 else round_size(task.source.count)


def rows_before(task: Task) -> int:
    """Return the number of rows that have a step each, before the first round. The first round has about half the
    rows of the largest: small rounds take nearly as long, and fetched rows take less."""
    largest = largest_round(task)
    return int(max(min(LEAST_ROWS, largest), largest // 2) / GROWTH)


def ends_of_rounds(task: Task, epoch: int) -> list[int]:
    """Return 0, and the number of rows done after each fetch and each round of an epoch, as if partitions could be cut
    anywhere."""
    rows, largest, single, ends = task.source.count, largest_round(task), rows_before(task), [0]
    while ends[-1] < rows:
        before = (epoch - 1) * rows + ends[-1]
        size = min(largest, power_of_two(before * GROWTH)) if before >= single else min(BROUGHT_ROWS, single - before)
        ends.append(min(rows, ends[-1] + size))
    return ends
