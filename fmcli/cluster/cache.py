"""The facts about the rows in all partitions of a cluster, as the client sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fmcli.base.label_unit import Moments
from fmcli.cluster import work
from fmcli.cluster.connection import Cluster
from fmcli.cluster.held_out import HeldOut
from fmcli.cluster.partitions import Inputs, Opened, Space, described, names_of, opened
from fmcli.cluster.residents import Homes, Resident
from fmcli.cluster.shared import Goal, Shared
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, FeatureIds
from fmcli.data.labels import Names, sorted_names
from fmcli.data.numbering import Numbering
from fmcli.data.shards.weights import ALL_WEIGHTLESS
from fmcli.data.sparse_ids import if_sparse
from fmcli.data.stored.cache import MOST_LABELS, CacheHeader
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import LARGEST_INDEX
from fmcli.data.text.line_counter import LineCounter
from fmcli.data.text.sources import Gaps
from fmcli.data.transform import Transform
from fmcli.errors import BadInputError

if TYPE_CHECKING:
    from distributed import Future


# Sample of rows from all partitions on the client: for metrics of training rows, and start values that depend on rows.
SAMPLE_ROWS = 1 << 16

T = TypeVar("T")


class PartitionedCache:
    """The facts about the rows of all partitions; as a Cache whose shards are the partitions.

    cluster, inputs, homes : where the partitions are; `inputs` holds Inputs.
    rows : the number of rows of each partition.
    gaps : of all tables together.
    """

    def __init__(self, cluster: Cluster, inputs: Resident, homes: Homes, found: Sequence[Opened], format: str) -> None:
        self.cluster, self.inputs, self.homes = cluster, inputs, homes
        self.extents, self.reading = inputs.value.recipe[:2]
        self.rows = tuple(0 if one.facts is None else one.facts.rows for one in found)
        self.shard_bytes = max(one.nbytes for one in found)
        self.nbytes = sum(one.nbytes for one in found)
        self.table = np.array([one.checksum for one in found], dtype=np.int64)
        self.gaps = Gaps()
        for one in found:
            self.gaps.add(one.gaps)
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
        """Load the rows of a partition from its worker."""
        return next(iter(self.fetch(self.shared(), "all", only=[shard])))

    def damaged(self, reason: str) -> BadInputError:
        """Return the error for partitions that contradict each other."""
        return BadInputError(f"the inputs have changed while they were read: {reason}")

    def shared(
        self, transform: Transform | None = None, held_out: HeldOut | None = None, goal: Goal | None = None
    ) -> Resident:
        """Return the facts that the workers' tasks need."""
        return Resident(self.cluster, Shared(self.space, transform, held_out, goal))

    def groups(self, numbers: Iterable[int]) -> list[tuple[str | None, list[int]]]:
        """Divide partitions among the threads of their workers. Returns (worker's address, partitions) per thread."""
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
        """Run a task for each partition that has rows. Yields (number, result) in order. The task gets the inputs, the
        first argument, the number, and the other arguments."""
        numbers = [number for number, rows in enumerate(self.rows) if rows] if only is None else only

        def send(number: int) -> Future:
            shared, *others = arguments
            place = self.homes.of(number)
            return self.cluster.submit(task, self.inputs.on(place), shared.on(place), number, *others, worker=place)

        # All tasks at once: no worker waits, and no worker takes tasks on partitions that other workers have.
        return self.cluster.in_order(numbers, send, lambda number: f"{purpose} {described(self.extents[number])}", True)

    def fetch(
        self, shared: Resident, chosen: str, count: int = 0, only: Sequence[int] | None = None
    ) -> Iterator[Dataset]:
        """Yield rows of each partition as they were read; see work.rows_in."""
        found = self.each(work.rows_in, shared, chosen, count, purpose="reading rows of", only=only)
        return (data.changed(numbering=self.dictionary) for _, data in found)


def open_partitions(
    cluster: Cluster,
    inputs: Inputs,
    format: str,
    bad: BadLines,
    progress: Callable[[int, int], None] = lambda done, rows: None,
) -> PartitionedCache:
    """Parse all partitions on the workers. `progress` is called with the numbers of partitions and rows that are done.

    Raises BadInputError for the first error of a line, and the errors of Cluster.
    """
    extents = inputs.recipe[0]
    there, homes = Resident(cluster, inputs), Homes(cluster, len(extents))
    counter, found, rows = LineCounter(bad, blank_is_row=False), [], 0

    def send(number: int) -> Future:
        place = homes.of(number)
        return cluster.submit(opened, there.on(place), number, worker=place)

    in_order = cluster.in_order(range(len(extents)), send, lambda number: f"reading {described(extents[number])}", True)
    for number, one in in_order:
        last = len(one.reports) - 1
        for at, (name, reports) in enumerate(zip(names_of(extents[number]), one.reports, strict=False)):
            error = counter.error_in(name, reports, one.error if at == last else None)
            if error is not None:
                raise error
        if one.error is not None:
            raise one.error
        found.append(one)
        rows += one.facts.rows if one.facts else 0
        progress(number + 1, rows)
    return PartitionedCache(cluster, there, homes, found, format)


def combined_names(found: Sequence[Names | None]) -> Names | None:
    """Return the names of the labels in all partitions. Raises BadInputError if some labels are names, others
    numbers."""
    if all(names is None for names in found):
        return None
    if any(names is None for names in found):
        raise BadInputError("some labels are names and others are numbers; check the labels of the inputs")
    every = {name for names in found for name in names or ()}
    return sorted_names([name.encode() for name in every], "the inputs")[0]


def combined_facts(found: Sequence[CacheHeader], names: Names | None, format: str) -> CacheHeader:
    """Return the facts about the rows of all partitions, apart from the number of columns."""
    total = CacheHeader(format=format, names=names)
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
    """Return the number of columns, and their dictionary if data.sparse_ids asks for one."""
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
