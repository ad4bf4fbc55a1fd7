"""Training rows on a cluster, as the client sees them: training rows and held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.cluster import work
from fmcli.cluster.cache import PartitionedCache
from fmcli.cluster.gradients import Gradients
from fmcli.cluster.held_out import HeldOut
from fmcli.cluster.parameters import values_of
from fmcli.cluster.residents import Resident
from fmcli.cluster.rounds import Rounds
from fmcli.cluster.shared import Goal
from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.stored.stored_rows import StoredRows, Totals
from fmcli.data.text.pieces import concatenated
from fmcli.data.transform import Transform
from fmcli.records import dataclass
from fmcli.solvers.remote import OfModel, RemoteRows
from fmcli.solvers.trainer import Task
from fmcli.training.setup.stored import Change, DividedShards, Left, StoredShards

if TYPE_CHECKING:
    from fmcli.losses.loss import Loss

# Sample of rows from all partitions on the client: for metrics of training rows, and start values that depend on rows.
SAMPLE_ROWS = 1 << 16

T = TypeVar("T")


class PartitionedRows(StoredRows, RemoteRows):
    """Training rows in the partitions of a cluster. `data` is a sample of them from all partitions; the argument
    `sample` gives it if it is already known."""

    kind_of_epochs = Rounds
    divides = False  # workers know which rows are held out

    def __init__(
        self,
        cache: PartitionedCache,
        transform: Transform,
        totals: Totals,
        left: HeldOut,
        held_out: Dataset | None,
        sample: Dataset | None = None,
    ) -> None:
        self.transform, self.partitions, self._sample = transform, cache, sample
        super().__init__(cache, transform.training, totals, left, held_out)

    @property
    def held(self) -> HeldOut:
        """Which rows are held out."""
        assert isinstance(self.left, HeldOut)
        return self.left

    @property
    def shard_bytes(self) -> int:
        return int(self.partitions.shard_bytes)

    def _count(self) -> list[int]:
        return self.held.sizes

    def _some_rows(self) -> tuple[Dataset, RowNumbers]:
        if self._sample is not None:
            return self._sample, np.arange(self._sample.rows, dtype=np.int32)
        shared = self.partitions.shared(held_out=self.held)
        pieces = list(self.partitions.fetch(shared, "sample", SAMPLE_ROWS))
        data = self.transform.training(concatenated(pieces))
        return data, np.arange(data.rows, dtype=np.int32)

    def whole(self) -> TrainingRows:
        none = HeldOut.of(self.partitions.rows, np.zeros(0, dtype=np.int64), self.held.seed)
        return PartitionedRows(self.partitions, self.transform, self.totals, none, None, self.data)

    def goal(self, task: Task, weight: float) -> Resident:
        """Return the facts that the workers need for training."""
        goal = Goal(task.spec, task.model.outputs, self.transform.fields, weight)
        return self.partitions.shared(self.transform, self.held, goal)

    def each(self, of: Callable[[Dataset, RowNumbers], T]) -> Iterator[T]:
        shared = self.partitions.shared(self.transform, self.held)
        found = self.partitions.each(work.each_shard, shared, Transform.training, of, purpose="looking at")
        return chain.from_iterable(results for _, results in found)

    def each_by_model(self, task: Task, loss: Loss, of: OfModel[T]) -> Iterator[T]:
        values = values_of(task.model, None)
        found = self.partitions.each(work.each_by_model, self.goal(task, 1.0), of, values, purpose="looking at")
        return chain.from_iterable(results for _, results in found)

    def gradients(self, task: Task) -> Gradients:
        return Gradients(task, self.partitions, self.goal(task, self.total_weight))


@dataclass(frozen=True)
class PartitionedShards(StoredShards):
    """The rows of the partitions of a cluster. Workers read the shards; see Rows."""

    cache: PartitionedCache

    def __post_init__(self) -> None:
        self.cache.space = replace(self.cache.space, of_labels=self.of_labels)

    def each(
        self, transform: Transform, change: Change, of: Callable[[Dataset, RowNumbers], T], left: Left | None = None
    ) -> Iterator[T]:
        shared = self.cache.shared(transform, left if isinstance(left, HeldOut) else None)
        found = self.cache.each(work.each_shard, shared, change, of, purpose="looking at")
        return chain.from_iterable(results for _, results in found)

    def without(self, numbers: NDArray[np.int64], seed: int) -> DividedShards:
        left, held_out = HeldOut.of(self.cache.rows, numbers, seed), None
        if len(numbers):
            held_out = concatenated(list(self.cache.fetch(self.cache.shared(held_out=left), "held out")))
        return DividedShards(self, left, held_out)

    def labeled(self, wanted: Sequence[float]) -> list[NDArray[np.int64]]:
        starts = np.cumsum([0, *self.cache.rows])
        found = self.cache.each(work.numbers_labeled, self.cache.shared(), wanted, purpose="looking at")
        each = [[starts[number] + some for some in of_labels] for number, of_labels in found]
        return [np.concatenate(parts) for parts in zip(*each, strict=True)]

    def training_rows(self, transform: Transform, totals: Totals, divided: DividedShards) -> PartitionedRows:
        assert isinstance(divided.left, HeldOut)
        held_out = None if divided.held_out is None else transform.training(divided.held_out)
        return PartitionedRows(self.cache, transform, totals, divided.left, held_out)
