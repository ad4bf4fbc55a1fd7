"""The rows that a run is planned for, wherever they are: the interface of all forms, and the form of rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import Moments
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.fields import Counted, fields_of_features, without_fields, without_gaps
from fmcli.data.labels import NUMBERS, Labels, Names, relabeled
from fmcli.data.numbering import Numbering, occurring
from fmcli.data.scaling import ColumnStatistics
from fmcli.data.shards.paired_rows import PairedRows
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.shards.weights import Weighting, that_count, weigh_labels, with_label_weights
from fmcli.data.transform import Transform
from fmcli.errors import LEAVE_OUT, BadInputError
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.specs import Spec
from fmcli.system.memory import require_if_large
from fmcli.training.setup.hold_out import rows_held_out, split
from fmcli.training.setup.memory import copied_bytes
from fmcli.training.setup.settings import HoldOut
from fmcli.training.setup.strata import strata_of

if TYPE_CHECKING:
    from typing import Self

    from fmcli.training.setup.item_ranking import ItemRanking

R = TypeVar("R", bound="LabeledRows")


class RowFacts(NamedTuple):
    """The label, the weight and the group of each row of a run, in the order of the text.

    label, weight : float64 (rows); weight None: all are 1.
    group : int32 (rows), its group; None: there are no groups.
    """

    label: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    group: NDArray[np.int32] | None


class LabelWeights(NamedTuple):
    """Labels, and the weight of the rows with each.

    label : (n) all labels, or each of them once; if they are very many, some, with the smallest and the largest one.
    weight : (n) of the rows; None: not known, because there are very many labels.
    """

    label: NDArray[np.float64]
    weight: NDArray[np.float64] | None


@dataclass(frozen=True)
class RowColumns:
    """The columns of rows.

    features : their number.
    numbering : the features of the columns; None: column j is feature j.
    find : returns the numbering of the features that occur, if column j is feature j.
    """

    features: int
    numbering: Numbering | Dictionary | None
    find: Callable[[], Numbering | Dictionary]

    @cached_property
    def occurring(self) -> Numbering | Dictionary:
        """The numbering of the columns, or of the features that occur."""
        return self.find() if self.numbering is None else self.numbering


class LabeledRows(Protocol):
    """Labeled rows as they were read, perhaps for a single pass.

    names : the names of labels 0, 1, ..; NUMBERS: labels are numbers.
    labels : of all rows; of a stream, the labels of its first rows.
    """

    @property
    def names(self) -> Names: ...

    @property
    def labels(self) -> LabelWeights: ...

    def with_label_weights(self, of_labels: Mapping[float, float]) -> Self:
        """Return the rows with the weights of their labels. Raises BadInputError if all are 0."""
        ...


class Rows(LabeledRows, Protocol):
    """Labeled rows that a run can be planned for: there are as many passes over them as it takes."""

    @property
    def in_memory(self) -> list[Dataset]:
        """The data that are in memory as they were read."""
        ...

    @property
    def columns(self) -> RowColumns: ...

    def on_columns(self, numbering: Numbering | Dictionary, threads: int) -> Self:
        """Return the rows with the columns of a numbering of all features that occur."""
        ...

    def facts_of_rows(self) -> RowFacts:
        """Return the facts about each row; this can take a pass over the rows."""
        ...

    def leaving_out(self, *, fields: bool = False, groups: bool = False) -> Self:
        """Return the rows without their fields, or without their groups."""
        ...

    def within(self, rows: RowNumbers) -> Rows:
        """Return the rows of a run that has only some of them. rows : their numbers, increasing."""
        ...

    def pieces(self, rows: RowNumbers) -> Iterator[tuple[NDArray[np.intp], Dataset]]:
        """Yield some rows as they were read, as many at a time as are in memory: their places among `rows`, and their
        data. rows : the numbers of the rows, increasing."""
        ...

    def with_new_features(self, transform: Transform) -> RowsInMemory:
        """Return the rows, with all their entries, that have a feature that a transform has not seen, in memory."""
        ...

    def hold_out(self, spec: Spec, labels: Labels, hold_out: HoldOut) -> DividedRows:
        """Return the rows, divided into rows to train on and held-out rows. Raises UsageError if no rows are left, and
        NotEnoughMemoryError."""
        ...


class DividedRows(Protocol):
    """The rows of a run, divided into the rows to train on and the held-out rows."""

    def label_moments(self) -> Moments:
        """Return the moments of the labels of the rows to train on, which are numbers."""
        ...

    def fields(self, transform: Transform) -> int:
        """Return the number of fields of the transformed rows; 0: they have none."""
        ...

    def seen(self, transform: Transform) -> NDArray[np.bool_]:
        """Return (columns) whether each column occurs in any row."""
        ...

    def weights(self, transform: Transform, threads: int) -> NDArray[Any]:
        """Return (columns) the weight of the rows to train on that have each column: without weights, how many do."""
        ...

    def statistics(self, transform: Transform, method: str) -> tuple[ColumnStatistics, ColumnStatistics]:
        """Return the statistics of the columns that a method of scaling needs, over the rows to train on and over all
        rows."""
        ...

    def training(self, transform: Transform, threads: int, *, grouped: bool) -> TrainingRows:
        """Return the transformed rows to train on. grouped : whether they know which features have common priors."""
        ...

    def validated(self, transform: Transform, data: Dataset) -> tuple[Dataset, RowNumbers | None] | None:
        """Return the rows that are held out, as the model sees them, and their numbers there, None: all; None if there
        are none. data : the transformed rows to train on."""
        ...


@dataclass(frozen=True)
class RowsInMemory:
    """Rows in memory; see Rows.

    every : the numbers of the rows of the run, in increasing order; None: all. The data may also have rows of another
        run.
    own : whether only this run needs the data, so new columns overwrite its indices.
    """

    data: Dataset
    names: Names = NUMBERS
    every: RowNumbers | None = None
    own: bool = False

    @classmethod
    def of(cls, data: Dataset, names: Names = NUMBERS, *, known: bool = False, own: bool = False) -> RowsInMemory:
        """Return rows as they were read, without rows of weight 0, and without the names of labels that only such
        rows have, unless an earlier model has `known` the names. Raises BadInputError if all rows have weight 0."""
        data = that_count(data)
        if names and not known:
            occur = np.bincount(data.label.astype(np.intp), minlength=len(names)) > 0
            if not occur.all():
                data = relabeled(data, np.cumsum(occur).astype(np.float64) - 1)
                names = tuple(name for name, occurs in zip(names, occur.tolist(), strict=True) if occurs)
        return cls(data, names, own=own)

    @property
    def in_memory(self) -> list[Dataset]:
        return [self.data]

    @property
    def labels(self) -> LabelWeights:
        label, weight = self.data.label, self.data.weight
        label = label if self.every is None else label[self.every]
        if weight is None:
            return LabelWeights(label, np.broadcast_to(1.0, label.shape))
        return LabelWeights(label, weight if self.every is None else weight[self.every])

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.data.rows if self.every is None else len(self.every)

    @property
    def nonzeros(self) -> int:
        """The number of their entries."""
        return self.data.nnz if self.every is None else self.data.entries_of_rows(self.every)

    @cached_property
    def columns(self) -> RowColumns:
        def find() -> Numbering:
            if self.every is None:
                return occurring(self.data.index, self.data.features)
            return Numbering(np.flatnonzero(self.data.seen(self.every)).astype(np.int32), self.data.features)

        return RowColumns(self.data.features, self.data.numbering, find)

    def on_columns(self, numbering: Numbering | Dictionary, threads: int) -> Self:
        into = self.data.index if self.own else None
        return replace(self, data=self.data.renumbered(numbering, into, threads=threads))

    def facts_of_rows(self) -> RowFacts:
        data = self.data if self.every is None else self.data.take(self.every)
        return RowFacts(data.label, data.weight, data.group)

    def leaving_out(self, *, fields: bool = False, groups: bool = False) -> Self:
        data = self.data.changed(group=None) if groups else self.data
        return replace(self, data=without_fields(data) if fields else data)

    def within(self, rows: RowNumbers) -> RowsInMemory:
        return RowsInMemory(self.data, self.names, rows if self.every is None else self.every[rows])

    def with_label_weights(self, of_labels: Mapping[float, float]) -> Self:
        weighed = weigh_labels if self.every is None else with_label_weights  # other rows may have all of the weight
        return replace(self, data=weighed(self.data, of_labels))

    def pieces(self, rows: RowNumbers) -> Iterator[tuple[NDArray[np.intp], Dataset]]:
        yield np.arange(len(rows)), self.data.take(rows if self.every is None else self.every[rows])

    def with_new_features(self, transform: Transform) -> RowsInMemory:
        return replace(self, data=with_new_features(transform, self.data), every=None, own=False)

    def hold_out(self, spec: Spec, labels: Labels, hold_out: HoldOut) -> DividedInMemory:
        data, group, strata = self.data, self.data.group, strata_of(labels, self.labels.label)
        every = np.arange(data.rows, dtype=np.int32) if self.every is None else self.every
        if group is not None and LOSSES[labels.loss].pairwise and hold_out.at_random and not data.relations:
            from fmcli.training.setup.item_ranking import item_ranking  # needs what recommends

            share = rows_held_out(self.count, hold_out, spec, strata) / max(1, self.count)
            if share and (found := item_ranking(data, every, labels, share, spec)) is not None:
                rows = every[~np.isin(every, found.held)]
                return DividedInMemory(data, self.every, rows, found.held, found)
        if group is not None and self.every is not None:
            group = np.unique(group[self.every], return_inverse=True)[1].astype(np.int32)
        held, rows = split(self.count, hold_out, spec, group, strata)
        if self.every is not None:
            held, rows = self.every[held], self.every[rows]
        require_if_large(copied_bytes(spec, labels, data, len(held)), "training")
        return DividedInMemory(data, self.every, rows, held)


@dataclass(frozen=True)
class DividedInMemory:
    """Rows in memory, divided; see DividedRows.

    every : as in RowsInMemory.
    rows, held : the numbers of the rows to train on and of the held-out rows.
    ranking : how the held-out rows are ranked among all items; None: validation uses them as they are.
    """

    data: Dataset
    every: RowNumbers | None
    rows: RowNumbers
    held: RowNumbers
    ranking: ItemRanking | None = None

    def label_moments(self) -> Moments:
        weight = self.data.weight
        return Moments.of(self.data.label[self.rows], None if weight is None else weight[self.rows])

    def fields(self, transform: Transform) -> int:
        return int(transform.in_columns(self.data).fields)

    def seen(self, transform: Transform) -> NDArray[np.bool_]:
        return transform.in_columns(self.data).seen(self.every)

    def weights(self, transform: Transform, threads: int) -> NDArray[Any]:
        return transform.in_columns(self.data).weights(self.rows, threads)

    def statistics(self, transform: Transform, method: str) -> tuple[ColumnStatistics, ColumnStatistics]:
        data = transform.in_columns(self.data)
        training = ColumnStatistics.of(data, self.rows, method)
        if not len(self.held):
            return training, training
        every = np.arange(data.rows, dtype=np.int32) if self.every is None else self.every
        return training, ColumnStatistics.of(data, every, method)

    def training(self, transform: Transform, threads: int, *, grouped: bool) -> TrainingRows:
        groups = self._groups(transform) if grouped else None
        data = transform.training(self.data)
        if LOSSES[transform.labels.loss].pairwise:
            paired = PairedRows(data, self.rows, self.every)
            paired.divides = self.ranking is None
            return paired
        return TrainingRows(data, self.rows, groups, self.every)

    def validated(self, transform: Transform, data: Dataset) -> tuple[Dataset, RowNumbers | None] | None:
        if not len(self.held):
            return None
        if self.ranking is not None:
            return transform.of(self.ranking.validation(self.data, self.rows, transform.labels)), None
        if transform.norm:  # in training rows, the norm counts features that only these rows may have
            return transform.of(self.data.take(self.held)), None
        return data, self.held

    def _groups(self, transform: Transform) -> Counted | None:
        """Return the groups of features with a common prior: the given groups, or else the fields."""
        if transform.groups is not None:
            return without_gaps(transform.groups, self.seen(transform))
        if self.data.field is None:
            return None
        return fields_of_features(replace(transform, fieldless=False).in_columns(self.data))


def weigh_by_label(
    rows: R, valid: Dataset | None, weighting: Weighting | None
) -> tuple[R, Dataset | None, dict[float, float]]:
    """Return rows and validation data with the weights of the labels of the rows, and these weights. Raises
    BadInputError as `Weighting.of_labels` does, and if all weights are 0."""
    if weighting is None:
        return rows, valid, {}
    of_labels = label_weights(rows, weighting)
    if valid is not None and of_labels:
        valid = weigh_labels(valid, of_labels)
    return rows.with_label_weights(of_labels), valid, of_labels


def label_weights(rows: LabeledRows, weighting: Weighting | None) -> dict[float, float]:
    """Return label -> weight; empty without a weighting. Raises BadInputError as `Weighting.of_labels` does, and if
    there are too many labels."""
    if weighting is None:
        return {}
    label, weight = rows.labels
    if weight is None:
        raise BadInputError("there are too many different labels for weights by label", class_weight=LEAVE_OUT)
    return weighting.of_labels(label, weight, rows.names)


def are_related(rows: Rows) -> bool:
    """Return whether rows refer to the rows of other data."""
    return any(data.relations for data in rows.in_memory)


def needs_fields(spec: Spec, *, optional: bool) -> bool:
    """Return whether the fields of rows count in a run. optional : whether they do if there are some; see
    `Settings.uses_fields`."""
    return MODELS[spec.model].needs_fields(spec.values) or spec.solver_entry.is_sampler or optional


def with_new_features(transform: Transform, data: Dataset) -> Dataset:
    """Return the rows, with all their entries, that have a feature that a transform has not seen."""
    every = np.arange(data.rows, dtype=np.int32)
    columns, data = np.arange(data.features, dtype=np.int32), data.joined(every)
    if transform.numbering is not None:
        columns = transform.numbering.columns_from(data.numbering or Numbering(columns, data.features))
    new = (columns < 0) | (columns >= len(transform.seen))
    new[~new] = ~transform.seen[columns[~new]]
    chosen = np.zeros(data.rows, dtype=np.bool_)
    chosen[np.repeat(every, np.diff(data.indptr))[new[data.index]]] = True
    return data.take(np.flatnonzero(chosen).astype(np.int32))
