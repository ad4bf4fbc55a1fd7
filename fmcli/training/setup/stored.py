"""The rows of a run that are in a cache.

What a plan needs to know about all rows is kept in the cache. A shard of it, which is a random selection of the rows,
takes their place where an estimate is enough: for warnings, for the metrics of training rows, and, if there are very
many different labels, for the best constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import Moments
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.labels import NUMBERS, Labels, Names
from fmcli.data.numbering import Numbering
from fmcli.data.scaling import ColumnStatistics
from fmcli.data.shards.training_rows import RowNumbers
from fmcli.data.shards.weights import with_label_weights
from fmcli.data.stored.cache import Cache, CacheHeader, Shards
from fmcli.data.stored.some_rows import SomeRows, taken, without
from fmcli.data.stored.stored_rows import LabelTotals, StoredRows, Totals
from fmcli.data.text.pieces import concatenated
from fmcli.data.transform import Transform
from fmcli.records import dataclass
from fmcli.registry.specs import Spec
from fmcli.training.setup.hold_out import numbers_held_out, require_rows, rows_held_out
from fmcli.training.setup.rows import LabelWeights, RowColumns, RowFacts, Rows, RowsInMemory, with_new_features
from fmcli.training.setup.settings import HoldOut
from fmcli.training.setup.strata import Strata

if TYPE_CHECKING:
    from typing import Self

    from fmcli.data.stored.cache import Located

T = TypeVar("T")
# Shard -> numbers of the rows of it that are trained on.
Left = Mapping[int, RowNumbers]
Change = Callable[[Transform, Dataset], Dataset]


@dataclass(frozen=True)
class StoredShards:
    """The rows of a cache, which this process reads shard by shard; see Rows.

    of_labels : weights by label.
    numbering : of the columns, if it differs from the cache's.
    """

    cache: Shards
    of_labels: Mapping[float, float] = field(default_factory=dict)
    numbering: Numbering | Dictionary | None = None

    @property
    def names(self) -> Names:
        return self.cache.facts.names or NUMBERS

    @property
    def in_memory(self) -> list[Dataset]:
        return []

    @property
    def labels(self) -> LabelWeights:
        facts = self.cache.facts
        if facts.labels is not None:
            return LabelWeights(np.array(list(facts.labels)), np.array([weight for _, weight in facts.labels.values()]))
        return LabelWeights(np.concatenate([self.cache.load(0).label, [facts.lowest, facts.highest]]), None)

    @property
    def columns(self) -> RowColumns:
        numbering = self.cache.dictionary if self.numbering is None else self.numbering
        features = self.cache.facts.features if self.numbering is None else len(self.numbering)
        return RowColumns(features, numbering, lambda: self.known)

    @property
    def known(self) -> Numbering | Dictionary:
        """The dictionary of the cache, or the numbering of the features that occur in it."""
        counts, dictionary = self.cache.counts, self.cache.dictionary
        return Numbering(np.flatnonzero(counts).astype(np.int32), len(counts)) if dictionary is None else dictionary

    def on_columns(self, numbering: Numbering | Dictionary, threads: int) -> Self:
        return replace(self, numbering=numbering)

    def each(
        self, transform: Transform, change: Change, of: Callable[[Dataset, RowNumbers], T], left: Left | None = None
    ) -> Iterator[T]:
        """Yield the results of a function for each shard, as a method of the transform changes it, and for the rows of
        it to train on. left : which these are; None: all."""
        for shard in range(len(self.cache.shards)):
            data = change(transform, self.weighted(self.cache.load(shard)))
            yield of(data, every_row(data) if left is None else left.get(shard, every_row(data)))

    def weighted(self, data: Dataset) -> Dataset:
        """Return rows as they were read, with the weights of their labels."""
        return with_label_weights(data, self.of_labels) if self.of_labels else data

    def hold_out(self, spec: Spec, labels: Labels, hold_out: HoldOut) -> DividedShards:
        """Return the rows; the same rows are held out as if all rows were in memory. Raises UsageError for groups and
        times of rows."""
        require_rows(hold_out)
        rows = self.cache.facts.rows
        strata = self.strata(labels)
        count = rows_held_out(rows, hold_out, spec, strata)
        return self.without(numbers_held_out(rows, count, hold_out, spec, strata), spec.values["seed"])

    def without(self, numbers: NDArray[np.int64], seed: int) -> DividedShards:
        """Return the rows; rows with these numbers in the text are held out. seed : of the run."""
        if not len(numbers):
            return DividedShards(self)
        held = numbers.astype(np.int32)
        return DividedShards(self, *without(self.located, held, self.weighted), held)

    def strata(self, labels: Labels) -> Strata | None:
        """Return the classes of the rows; None: they have none, or too many."""
        known = self.cache.facts.labels
        if labels.classes is None or known is None:
            return None
        return Strata({label: rows for label, (rows, _) in known.items()}, self._numbers_of)

    def _numbers_of(self, wanted: Sequence[float]) -> dict[float, NDArray[np.int64]]:
        """Return the numbers of the rows with each of some labels, increasing. Raises BadInputError if the cache
        contradicts itself."""
        whole, counts = dict(zip(wanted, self.labeled(wanted), strict=True)), self.cache.facts.labels
        if counts is None or any(len(numbers) != counts[label][0] for label, numbers in whole.items()):
            raise self.cache.damaged("rows have other labels than its header says")
        return whole

    def labeled(self, wanted: Sequence[float]) -> list[NDArray[np.int64]]:
        """Return the numbers of the rows with each of some labels in the text, increasing."""
        label = np.empty(self.cache.facts.rows)
        for here, _, _, data in taken(self.located, np.arange(len(label), dtype=np.int32), lambda data: data):
            label[here] = data.label
        return [np.flatnonzero(label == value) for value in wanted]

    @property
    def located(self) -> Located:
        """The cache, whose rows are on this machine."""
        return cast("Located", self.cache)

    def facts_of_rows(self) -> RowFacts:
        cache, every = self.located, np.arange(self.cache.facts.rows, dtype=np.int32)
        label, weight = np.empty(len(every)), None
        for here, _, _, data in taken(cache, every, self.weighted):
            label[here] = data.label
            if data.weight is not None:
                weight = np.ones(len(every)) if weight is None else weight
                weight[here] = data.weight
        return RowFacts(label, weight, None)

    def leaving_out(self, *, fields: bool = False, groups: bool = False) -> Self:
        return self  # a cache keeps no groups, and the transform leaves fields out of a shard when it is read

    def within(self, rows: RowNumbers) -> StoredShards:
        return StoredShards(SomeRows(self.located, rows), self.of_labels)

    def with_label_weights(self, of_labels: Mapping[float, float]) -> Self:
        return replace(self, of_labels=of_labels)

    def pieces(self, rows: RowNumbers) -> Iterator[tuple[NDArray[np.intp], Dataset]]:
        return ((here, data) for here, _, _, data in taken(self.located, rows, self.weighted))

    def with_new_features(self, transform: Transform) -> RowsInMemory:
        pieces = list(self.each(transform, with_new_features, as_they_are))
        data = concatenated(pieces).changed(numbering=self.cache.dictionary)
        return RowsInMemory(data, self.names)

    def training_rows(self, transform: Transform, totals: Totals, divided: DividedShards) -> StoredRows:
        """Return the transformed rows to train on."""
        held_out = None if divided.held_out is None else transform.training(divided.held_out)
        change = lambda data: transform.training(self.weighted(data))  # noqa: E731
        return StoredRows(self.cache, change, totals, divided.left or {}, held_out, divided.held)


@dataclass(frozen=True)
class DividedShards:
    """The rows of a cache, divided; see DividedRows.

    left : shard -> numbers of the rows of it that are trained on; all rows of other shards are. None: all rows.
    held_out, held : the others, and their numbers in the order of the text.
    """

    rows: StoredShards
    left: Left | None = None
    held_out: Dataset | None = None
    held: RowNumbers | None = None

    def label_moments(self) -> Moments:
        facts, held_out = self.rows.cache.facts, self.held_out
        if facts.labels is None:
            whole = Moments(facts.total_weight, facts.mean, facts.deviation)
        else:
            weights = [weight * self.rows.of_labels.get(label, 1.0) for label, (_, weight) in facts.labels.items()]
            whole = Moments.of(np.array(list(facts.labels)), np.array(weights))
        return whole if held_out is None else whole.without(Moments.of(held_out.label, held_out.weight))

    def fields(self, transform: Transform) -> int:
        cache = self.rows.cache
        return cache.facts.fields if cache.fielded and not transform.fieldless else 0

    def seen(self, transform: Transform) -> NDArray[np.bool_]:
        return self._all_counts(transform) > 0

    def weights(self, transform: Transform, threads: int) -> NDArray[Any]:
        if self.rows.cache.facts.weighted or self.rows.of_labels:
            sums: list[NDArray[Any]] = list(self._each(transform, ShardWeights(threads)))
            return np.asarray(np.sum(sums, axis=0))
        counts = self._all_counts(transform)
        if self.held_out is None:
            return counts
        held_out = transform.in_columns(self.held_out)
        return counts - held_out.counts(every_row(held_out), threads)

    def statistics(self, transform: Transform, method: str) -> tuple[ColumnStatistics, ColumnStatistics]:
        training = held_out = none = ShardStatistics(method).none(transform.features)
        for of_rows, of_others in self._each(transform, ShardStatistics(method)):
            training = training.merged(of_rows)
            held_out = held_out.merged(none if of_others is None else of_others)
        return training, training.merged(held_out)

    def training(self, transform: Transform, threads: int, *, grouped: bool) -> StoredRows:
        return self.rows.training_rows(transform, self._totals(transform, threads), self)

    def validated(self, transform: Transform, data: Dataset) -> tuple[Dataset, RowNumbers | None] | None:
        return None if self.held_out is None else (transform.of(self.held_out), None)

    def _each(self, transform: Transform, of: Callable[[Dataset, RowNumbers], T]) -> Iterator[T]:
        """Yield the results of a function for each shard in the columns of the model."""
        return self.rows.each(transform, Transform.in_columns, of, self.left)

    def _all_counts(self, transform: Transform) -> NDArray[np.int32]:
        """Return (columns) the number of all rows that have each column, if no features share one."""
        cache, numbering, counts = self.rows.cache, transform.numbering, np.zeros(transform.features, dtype=np.int32)
        if numbering is None:
            counts[: len(cache.counts)] = cache.counts
            return counts if transform.frequent is None else np.where(transform.frequent, counts, np.int32(0))
        known = self.rows.known
        of_known = cache.counts if isinstance(known, Dictionary) else cache.counts[known.ids]
        columns = numbering.columns_from(known)
        found = columns >= 0
        counts[columns[found]] = of_known[found]
        return counts

    def _totals(self, transform: Transform, threads: int) -> Totals:
        """Return the totals over all transformed rows. The cache knows them if all their entries are trained on as they
        are; otherwise it is read."""
        facts, of_labels = self.rows.cache.facts, self.rows.of_labels
        labels = label_totals(facts, transform.labels, of_labels)
        weight = float(labels.weight.sum()) if labels and of_labels else facts.total_weight
        shared = transform.numbering is not None and transform.numbering.shared is not None
        merged = transform.fieldless and self.rows.cache.fielded  # entries of one index in several fields
        if not (transform.rare or transform.scale is not None or shared or merged):
            square = 1.0 if transform.norm else facts.longest_square
            return Totals(labels, self._all_counts(transform), facts.nonzeros, weight, square)
        counts, nonzeros, longest_square = np.zeros(transform.features, dtype=np.int32), 0, 0.0
        for of_shard in self.rows.each(transform, Transform.training, ShardTotals(threads)):
            counts += of_shard[0]
            nonzeros += of_shard[1]
            longest_square = max(longest_square, of_shard[2])
        return Totals(labels, counts, nonzeros, weight, longest_square)


def rows_of_cache(cache: Cache) -> Rows:
    """Return the rows of a cache. If there is only one shard, it is in memory in the order of the text, and trained on
    as rows from text are."""
    if len(cache.shards) > 1:
        return StoredShards(cache)
    data = cache.load(0).take(cache.places(np.arange(cache.facts.rows, dtype=np.int32))[1])
    return RowsInMemory(data, cache.facts.names or NUMBERS)


def as_they_are(data: Dataset, rows: RowNumbers) -> Dataset:
    """Return rows without the numbering of their columns, which all shards share."""
    return data.changed(numbering=None)


def label_totals(facts: CacheHeader, labels: Labels, of_labels: Mapping[float, float]) -> LabelTotals | None:
    """Return the labels of all rows, as the loss expects them, with the weights by label; None if there are too many
    different ones."""
    if facts.labels is None:
        return None
    rows = np.array([rows for rows, _ in facts.labels.values()])
    weights = [weight * of_labels.get(label, 1.0) for label, (_, weight) in facts.labels.items()]
    return LabelTotals(labels.encode(np.array(list(facts.labels))), np.array(weights), rows, labels.unit.pair)


@dataclass(frozen=True)
class ShardWeights:
    """The weight of the rows of a shard to train on that have each column."""

    threads: int

    def __call__(self, data: Dataset, rows: RowNumbers) -> NDArray[Any]:
        return data.weights(rows, self.threads)


@dataclass(frozen=True)
class ShardTotals:
    """The counts of features, the number of entries, and the largest squared norm of all rows of a shard."""

    threads: int

    def __call__(self, data: Dataset, rows: RowNumbers) -> tuple[NDArray[np.int32], int, float]:
        return data.counts(rows, self.threads), data.nnz, data.longest_square()


def every_row(data: Dataset) -> RowNumbers:
    """Return the numbers of all rows."""
    return np.arange(data.rows, dtype=np.int32)


@dataclass(frozen=True)
class ShardStatistics:
    """The statistics of the columns of some rows of a shard, and of the others, if there are some."""

    method: str

    def none(self, features: int) -> ColumnStatistics:
        """Return the statistics of no rows."""
        empty = np.zeros(0, dtype=np.int32)
        data = Dataset(np.zeros(1, dtype=np.int64), empty, np.zeros(0, dtype=np.float32), None, features)
        return ColumnStatistics.of(data, empty, self.method)

    def __call__(self, data: Dataset, rows: RowNumbers) -> tuple[ColumnStatistics, ColumnStatistics | None]:
        others = np.setdiff1d(every_row(data), rows) if len(rows) < data.rows else None
        return tuple(  # type: ignore[return-value]
            None if some is None else ColumnStatistics.of(data, some, self.method) for some in (rows, others)
        )
