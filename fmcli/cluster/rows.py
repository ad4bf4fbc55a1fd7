"""Training rows on a cluster, as the client sees them: what is known about all partitions, and some of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fmcli.base.label_unit import Moments
from fmcli.cluster import work
from fmcli.cluster.connection import Cluster
from fmcli.cluster.gradients import Gradients
from fmcli.cluster.held_out import HeldOut
from fmcli.cluster.parameters import values_of
from fmcli.cluster.partitions import Inputs, Opened, Space, described, names_of, opened
from fmcli.cluster.residents import Homes, Resident
from fmcli.cluster.rounds import Rounds
from fmcli.cluster.shared import Goal, Shared
from fmcli.data.account import Account
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, FeatureIds
from fmcli.data.faults import BadLines
from fmcli.data.formats import LARGEST_INDEX
from fmcli.data.labels import Labels, Names, sorted_names
from fmcli.data.numbering import Numbering
from fmcli.data.pieces import concatenated
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.shards.weights import ALL_WEIGHTLESS
from fmcli.data.sparse_ids import if_sparse
from fmcli.data.stored.cache import MOST_LABELS, Facts
from fmcli.data.stored.stored_rows import StoredRows, Totals
from fmcli.data.transform import Transform
from fmcli.errors import LEAVE_OUT, BadInputError, UsageError
from fmcli.records import dataclass
from fmcli.registry.specs import Spec
from fmcli.solvers.remote import OfModel, RemoteRows
from fmcli.solvers.trainer import Task
from fmcli.training.setup.hold_out import in_proportion, require_rows, rows_held_out
from fmcli.training.setup.settings import HoldOut
from fmcli.training.setup.stored import Change, StoredShards

if TYPE_CHECKING:
    from typing import Self

    from distributed import Future

    from fmcli.losses.loss import Loss

# Rows from all partitions that the client has: for the metrics of training rows, and start values that depend on rows.
SAMPLE_ROWS = 1 << 16

T = TypeVar("T")


class PartitionedCache:
    """The facts about the rows of all partitions; as a Cache, of which each partition is a shard.

    cluster, inputs, homes : where the partitions are; `inputs` is of Inputs.
    rows : the number of rows of each.
    """

    def __init__(self, cluster: Cluster, inputs: Resident, homes: Homes, found: Sequence[Opened], format: str) -> None:
        self.cluster, self.inputs, self.homes = cluster, inputs, homes
        self.extents, self.reading = inputs.value.recipe[:2]
        self.rows = tuple(0 if one.facts is None else one.facts.rows for one in found)
        self.shard_bytes = max(one.nbytes for one in found)
        self.nbytes = sum(one.nbytes for one in found)
        self.table = np.array([one.checksum for one in found], dtype=np.int64)
        some = [one for one in found if one.facts is not None]
        if not some:
            raise BadInputError(ALL_WEIGHTLESS)
        names = combined_names([one.facts.names for one in some if one.facts])
        self.facts = combined_facts([one.facts for one in some if one.facts], names, format)
        numberings = [one.numbering for one in some if one.numbering is not None]
        features, self.dictionary = columns_of(numberings)
        if self.reading.hash_bits:
            features = 1 << self.reading.hash_bits
        self.facts.features = features
        self.counts = np.zeros(features, dtype=np.int32)
        every = Numbering(np.arange(features, dtype=np.int32)) if self.dictionary is None else self.dictionary
        for one in some:
            assert one.numbering is not None
            assert one.counts is not None
            if isinstance(one.numbering, Numbering) and self.dictionary is None:
                columns = one.numbering.ids
            else:
                columns = every.columns_from(one.numbering)
            self.counts[columns] += one.counts
        self.space = Space(features, self.dictionary, names)

    @property
    def shards(self) -> range:
        """The numbers of the partitions."""
        return range(len(self.rows))

    @property
    def fielded(self) -> bool:
        """Whether entries have fields."""
        return bool(self.reading.keep_fields)

    def rows_of(self, shard: int) -> int:
        """Return the number of rows of a partition."""
        return self.rows[shard]

    def load(self, shard: int) -> Dataset:
        """Return the rows of a partition, which its worker sends."""
        return next(iter(self.fetch(self.shared(), "all", only=[shard])))

    def damaged(self, reason: str) -> BadInputError:
        """Return the error for partitions that contradict each other."""
        return BadInputError(f"the inputs have changed while they were read: {reason}")

    def shared(
        self, transform: Transform | None = None, held_out: HeldOut | None = None, goal: Goal | None = None
    ) -> Resident:
        """Return the facts that tasks of workers need."""
        return Resident(self.cluster, Shared(self.space, transform, held_out, goal))

    def groups(self, numbers: Iterable[int]) -> list[tuple[str | None, list[int]]]:
        """Partitions together for each thread of a worker, with the worker's address."""
        by_worker: dict[str | None, list[int]] = {}
        for number in numbers:
            by_worker.setdefault(self.homes.of(number), []).append(number)
        threads = Counter(self.cluster.places)
        together = []
        for place, some in by_worker.items():
            count = min(len(some), threads[place] or 1) if place else 1
            together += [(place, some[thread::count]) for thread in range(count)]
        return together

    def each(
        self, task: Callable[..., T], *arguments: Any, purpose: str, only: Sequence[int] | None = None
    ) -> Iterator[tuple[int, T]]:
        """Return the results of a task for each partition that has rows, in order, with its number. The task gets the
        inputs, the first argument, the number, and the others."""
        numbers = [number for number, rows in enumerate(self.rows) if rows] if only is None else only

        def send(number: int) -> Future:
            shared, *others = arguments
            place = self.homes.of(number)
            return self.cluster.submit(task, self.inputs.on(place), shared.on(place), number, *others, worker=place)

        # All tasks at once, so that no worker waits, and none takes tasks on partitions that are elsewhere.
        return self.cluster.in_order(numbers, send, lambda number: f"{purpose} {described(self.extents[number])}", True)

    def fetch(
        self, shared: Resident, chosen: str, count: int = 0, only: Sequence[int] | None = None
    ) -> Iterator[Dataset]:
        """Return rows of each partition, as they were read; see work.rows_in."""
        found = self.each(work.rows_in, shared, chosen, count, purpose="reading rows of", only=only)
        return (data.changed(numbering=self.dictionary) for _, data in found)


def open_partitions(
    cluster: Cluster,
    inputs: Inputs,
    format: str,
    bad: BadLines,
    progress: Callable[[int, int], None] = lambda done, rows: None,
) -> PartitionedCache:
    """Have all partitions parsed. `progress` is called with the numbers of the partitions and rows that are done.

    Raises BadInputError for the first error of a line, and the errors of Cluster.
    """
    extents = inputs.recipe[0]
    there, homes = Resident(cluster, inputs), Homes(cluster, len(extents))
    account, found, rows = Account(bad, blank_is_row=False), [], 0

    def send(number: int) -> Future:
        place = homes.of(number)
        return cluster.submit(opened, there.on(place), number, worker=place)

    in_order = cluster.in_order(range(len(extents)), send, lambda number: f"reading {described(extents[number])}", True)
    for number, one in in_order:
        last = len(one.reports) - 1
        for at, (name, reports) in enumerate(zip(names_of(extents[number]), one.reports, strict=False)):
            error = account.error_in(name, reports, one.error if at == last else None)
            if error is not None:
                raise error
        if one.error is not None:
            raise one.error
        found.append(one)
        rows += one.facts.rows if one.facts else 0
        progress(number + 1, rows)
    return PartitionedCache(cluster, there, homes, found, format)


def combined_names(found: Sequence[Names | None]) -> Names | None:
    """Return the names of labels of all partitions. Raises BadInputError if some have names and others numbers."""
    if all(names is None for names in found):
        return None
    if any(names is None for names in found):
        raise BadInputError("some labels are names and others are numbers; check the labels of the inputs")
    every = {name for names in found for name in names or ()}
    return sorted_names([name.encode() for name in every], "the inputs")[0]


def combined_facts(found: Sequence[Facts], names: Names | None, format: str) -> Facts:
    """Return the facts about the rows of all partitions, apart from the number of columns."""
    total = Facts(format=format, names=names)
    for facts in found:
        places = [names.index(name) for name in facts.names] if names and facts.names else None
        total.rows += facts.rows
        total.nonzeros += facts.nonzeros
        total.repeated_rows += facts.repeated_rows
        total.bytes += facts.bytes
        total.add_moments(Moments(facts.total_weight, facts.mean, facts.deviation))
        total.weighted |= facts.weighted
        total.fields = max(total.fields, facts.fields)
        total.longest = max(total.longest, facts.longest)
        total.longest_square = max(total.longest_square, facts.longest_square)
        low, high = (facts.lowest, facts.highest) if places is None else (float(min(places)), float(max(places)))
        total.lowest, total.highest = min(total.lowest, low), max(total.highest, high)
        if total.labels is None or facts.labels is None:
            total.labels = None
            continue
        for label, (rows, weight) in facts.labels.items():
            key = label if places is None else float(places[int(label)])
            before = total.labels.get(key, (0, 0.0))
            total.labels[key] = before[0] + rows, before[1] + weight
        if len(total.labels) > MOST_LABELS:
            total.labels = None
    if total.labels is not None:
        total.labels = dict(sorted(total.labels.items()))
    if not np.isfinite(total.total_weight):
        raise BadInputError("the sum of the weights is not finite; check the weights of rows")
    return total


def columns_of(numberings: Sequence[Numbering | Dictionary]) -> tuple[int, Dictionary | None]:
    """Return the number of columns, and their dictionary if there must be one, by the rule of data.sparse_ids."""
    numbers = [n.numbers if isinstance(n, Dictionary) else n.ids for n in numberings]
    features = max((int(ids[-1]) + 1 for ids in numbers if len(ids)), default=0)
    features = max([features, *(n.dimension for n in numberings if isinstance(n, Numbering))])
    has_names = any(isinstance(n, Dictionary) and len(n.ends) for n in numberings)
    are_indices = not has_names and features <= LARGEST_INDEX + 1
    if are_indices and if_sparse(features, lambda: np.unique(np.concatenate(numbers))) is None:
        return features, None
    ids = FeatureIds()
    for numbering in numberings:
        if isinstance(numbering, Dictionary):
            ids.add_all(numbering.ids)
        else:
            ids.add_numbers(numbering.ids.astype(np.int64))
    dictionary = ids.sorted(np.ones(len(ids), dtype=np.bool_))[0]
    return len(dictionary), dictionary


class PartitionedRows(StoredRows, RemoteRows):
    """Rows to train on in the partitions of a cluster. `data` are some of them, from all partitions: `sample`, if they
    are known already."""

    kind_of_epochs = Rounds
    divides = False  # each partition draws the rows that it holds out

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
        none = replace(self.held, held=(0,) * len(self.held.rows))
        return PartitionedRows(self.partitions, self.transform, self.totals, none, None, self.data)

    def goal(self, task: Task, weight: float) -> Resident:
        """Return the facts that workers need to train."""
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
    """The rows of the partitions of a cluster, of which workers read the shards; see Rows."""

    cache: PartitionedCache

    def __post_init__(self) -> None:
        self.cache.space = replace(self.cache.space, of_labels=self.of_labels)

    def each(self, transform: Transform, change: Change, of: Callable[[Dataset, RowNumbers], T]) -> Iterator[T]:
        shared = self.cache.shared(transform, self.left if isinstance(self.left, HeldOut) else None)
        found = self.cache.each(work.each_shard, shared, change, of, purpose="looking at")
        return chain.from_iterable(results for _, results in found)

    def hold_out(self, spec: Spec, labels: Labels, hold_out: HoldOut) -> Self:
        """Return the rows, random ones of which are held out in each partition. Raises UsageError for others."""
        require_rows(hold_out)
        if hold_out.last:
            raise UsageError("a cluster holds out random rows only", cluster=LEAVE_OUT)
        number, rows = rows_held_out(self.cache.facts.rows, hold_out, spec, self.strata(labels)), self.cache.rows
        left, held_out = HeldOut(spec.values["seed"], rows, in_proportion(number, rows)), None
        if number:
            held_out = concatenated(list(self.cache.fetch(self.cache.shared(held_out=left), "held out")))
        return replace(self, left=left, held_out=held_out)

    def training_rows(self, transform: Transform, totals: Totals, held_out: Dataset | None) -> PartitionedRows:
        assert isinstance(self.left, HeldOut)
        return PartitionedRows(self.cache, transform, totals, self.left, held_out)
