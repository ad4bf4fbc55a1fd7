"""The rows that a run is planned for, wherever they are: the interface of all forms, and the form of rows in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import Moments
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.fields import Counted, fields_of_features, without_fields, without_gaps
from fmcli.data.labels import NUMBERS, Labels, Names, relabelled
from fmcli.data.numbering import Numbering, occurring
from fmcli.data.scaling import ColumnStatistics
from fmcli.data.shards.paired_rows import PairedRows
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.shards.weights import Weighting, that_count, weigh_labels, with_label_weights
from fmcli.data.transform import Transform
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

R = TypeVar("R", bound="LabelledRows")


class RowFacts(NamedTuple):
    """The label, the weight and the group of each row of a run, in the order of the text.

    label, weight : float64 (rows); weight None: all are 1.
    group : int32 (rows), its group; None: there are no groups.
    """

    label: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    group: NDArray[np.int32] | None


class LabelledRows(Protocol):
    """Labelled rows as they were read, perhaps for a single pass.

    names : what labels 0, 1, .. stand for; NUMBERS: labels are numbers.
    """

    @property
    def names(self) -> Names: ...

    def label_weights(self, weighting: Weighting) -> dict[float, float]:
        """Return label -> weight. Raises BadInputError as `Weighting.of_labels` does."""
        ...

    def with_label_weights(self, of_labels: Mapping[float, float]) -> Self:
        """Return the rows with the weights of their labels. Raises BadInputError if all are 0."""
        ...


class Rows(LabelledRows, Protocol):
    """Labelled rows that a run can be planned for: there are as many passes over them as it takes.

    related : whether they refer to the rows of other data.
    """

    @property
    def related(self) -> bool: ...

    @property
    def in_memory(self) -> list[Dataset]:
        """The data that are in memory as they were read."""
        ...

    @property
    def labels(self) -> NDArray[np.float64]:
        """All labels, or each of them once; if they are very many, some, with the smallest and the largest one."""
        ...

    def label_moments(self) -> Moments:
        """Return the moments of the labels of the rows to train on, which are numbers."""
        ...

    @property
    def features(self) -> int:
        """The number of columns."""
        ...

    @property
    def numbering(self) -> Numbering | Dictionary | None:
        """The numbering of the columns; None: column j is feature j."""
        ...

    @property
    def occurring(self) -> Numbering | Dictionary:
        """The numbering of the columns, or of the features that occur."""
        ...

    def validated(self, transform: Transform, data: Dataset) -> tuple[Dataset, RowNumbers | None] | None:
        """Return the rows that are held out, as the model sees them, and their numbers there, None: all; None if there
        are none. data : the transformed rows to train on."""
        ...

    def on_columns(self, numbering: Numbering | Dictionary, threads: int) -> Self:
        """Return the rows with the columns of a numbering of all features that occur."""
        ...

    def facts_of_rows(self) -> RowFacts:
        """Return what is known about each row, which may take a pass over them."""
        ...

    def with_needed_fields(self, spec: Spec, *, optional: bool) -> Self:
        """Return the rows without what several runs of a spec would each leave out; see the function."""
        ...

    def without_groups(self) -> Self:
        """Return the rows without their groups."""
        ...

    def within(self, rows: RowNumbers) -> Rows:
        """Return the rows of a run that has only some of them. rows : their numbers, increasing."""
        ...

    def pieces(self, rows: RowNumbers) -> Iterator[tuple[NDArray[np.intp], Dataset]]:
        """Yield some rows as they were read, those that are in memory at a time: which of them these are, and their
        data. rows : their numbers, increasing."""
        ...

    def hold_out(self, spec: Spec, labels: Labels, hold_out: HoldOut) -> Self:
        """Return the rows of which some are held out. Raises UsageError if no rows are left, and
        NotEnoughMemoryError."""
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

    def with_new_features(self, transform: Transform) -> RowsInMemory:
        """Return the rows, with all their entries, that have a feature that a transform has not seen, in memory."""
        ...


@dataclass(frozen=True)
class RowsInMemory:
    """Rows in memory; see Rows.

    every : the numbers of the rows of the run, in increasing order, of which those of another run may be in the same
        data; None: all.
    own : whether nothing but this run needs the data, whose indices are overwritten by those of other columns.
    held, rows : the numbers of the rows that are held out and of those to train on.
    ranking : how the held-out rows are ranked among all items; None: they are validated on as they are.
    """

    data: Dataset
    names: Names = NUMBERS
    every: RowNumbers | None = None
    own: bool = False
    held: RowNumbers = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    rows: RowNumbers = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    ranking: ItemRanking | None = None

    @classmethod
    def of(cls, data: Dataset, names: Names = NUMBERS, *, known: bool = False, own: bool = False) -> RowsInMemory:
        """Return rows as they were read, without rows of weight 0, and without the names of labels that only such
        rows have, unless an earlier model has `known` the names. Raises BadInputError if all rows have weight 0."""
        data = that_count(data)
        if names and not known:
            occur = np.bincount(data.label.astype(np.intp), minlength=len(names)) > 0
            if not occur.all():
                data = relabelled(data, np.cumsum(occur).astype(np.float64) - 1)
                names = tuple(name for name, occurs in zip(names, occur.tolist(), strict=True) if occurs)
        return cls(data, names, own=own)

    @property
    def related(self) -> bool:
        return bool(self.data.relations)

    @property
    def in_memory(self) -> list[Dataset]:
        return [self.data]

    @property
    def labels(self) -> NDArray[np.float64]:
        return self.data.label if self.every is None else self.data.label[self.every]

    def label_moments(self) -> Moments:
        weight = self.data.weight
        return Moments.of(self.data.label[self.rows], None if weight is None else weight[self.rows])

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.data.rows if self.every is None else len(self.every)

    @property
    def nonzeros(self) -> int:
        """The number of their entries."""
        return self.data.nnz if self.every is None else self.data.entries_of_rows(self.every)

    @property
    def features(self) -> int:
        return self.data.features

    @property
    def numbering(self) -> Numbering | Dictionary | None:
        return self.data.numbering

    @cached_property
    def occurring(self) -> Numbering | Dictionary:
        numbering = self.data.numbering
        if numbering is not None:
            return numbering
        if self.every is None:
            return occurring(self.data.index, self.data.features)
        return Numbering(np.flatnonzero(self.data.seen(self.every)).astype(np.int32), self.data.features)

    def validated(self, transform: Transform, data: Dataset) -> tuple[Dataset, RowNumbers | None] | None:
        if not len(self.held):
            return None
        if self.ranking is not None:
            return transform.of(self.ranking.validation(self.data, self.rows, transform.labels)), None
        if transform.norm:  # that of rows to train on counts features that these may be the only ones to have
            return transform.of(self.data.take(self.held)), None
        return data, self.held

    def on_columns(self, numbering: Numbering | Dictionary, threads: int) -> RowsInMemory:
        into = self.data.index if self.own else None
        return replace(self, data=self.data.renumbered(numbering, into, threads=threads))

    def facts_of_rows(self) -> RowFacts:
        data = self.data if self.every is None else self.data.take(self.every)
        return RowFacts(data.label, data.weight, data.group)

    def with_needed_fields(self, spec: Spec, *, optional: bool) -> RowsInMemory:
        return replace(self, data=with_needed_fields(self.data, spec, optional=optional))

    def without_groups(self) -> RowsInMemory:
        return replace(self, data=self.data.changed(group=None))

    def within(self, rows: RowNumbers) -> RowsInMemory:
        return RowsInMemory(self.data, self.names, rows if self.every is None else self.every[rows])

    def label_weights(self, weighting: Weighting) -> dict[float, float]:
        weight = np.ones(self.data.rows) if self.data.weight is None else self.data.weight
        return weighting.of_labels(self.data.label, weight, self.names)

    def with_label_weights(self, of_labels: Mapping[float, float]) -> RowsInMemory:
        weighed = weigh_labels if self.every is None else with_label_weights  # other rows may have all of the weight
        return replace(self, data=weighed(self.data, of_labels))

    def pieces(self, rows: RowNumbers) -> Iterator[tuple[NDArray[np.intp], Dataset]]:
        yield np.arange(len(rows)), self.data.take(rows if self.every is None else self.every[rows])

    def hold_out(self, spec: Spec, labels: Labels, hold_out: HoldOut) -> RowsInMemory:
        group, strata = self.data.group, strata_of(labels, self.labels)
        if group is not None and LOSSES[labels.loss].pairwise and hold_out.at_random and not self.related:
            from fmcli.training.setup.item_ranking import item_ranking  # needs what recommends

            every = np.arange(self.data.rows, dtype=np.int32) if self.every is None else self.every
            share = rows_held_out(self.count, hold_out, spec, strata) / max(1, self.count)
            if share and (found := item_ranking(self.data, every, labels, share, spec)) is not None:
                return replace(self, held=found.held, rows=every[~np.isin(every, found.held)], ranking=found)
        if group is not None and self.every is not None:
            group = np.unique(group[self.every], return_inverse=True)[1].astype(np.int32)
        held, rows = split(self.count, hold_out, spec, group, strata)
        if self.every is not None:
            held, rows = self.every[held], self.every[rows]
        require_if_large(copied_bytes(spec, labels, self.data, len(held)), "training")
        return replace(self, held=held, rows=rows)

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

    def with_new_features(self, transform: Transform) -> RowsInMemory:
        return RowsInMemory(with_new_features(transform, self.data), self.names)

    def _groups(self, transform: Transform) -> Counted | None:
        """Return the groups of features with a common prior: those that they were given, or
        else their fields."""
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
    of_labels = rows.label_weights(weighting)
    if valid is not None and of_labels:
        valid = weigh_labels(valid, of_labels)
    return rows.with_label_weights(of_labels), valid, of_labels


def with_needed_fields(data: Dataset, spec: Spec, *, optional: bool) -> Dataset:
    """Return rows as a run needs them: with fields only if these count. optional : whether they do if there are some;
    see `Settings.uses_fields`."""
    keeps = MODELS[spec.model].needs_fields(spec.values) or spec.solver_entry.is_sampler or optional
    return data if keeps else without_fields(data)


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
