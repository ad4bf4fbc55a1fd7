"""The transform of rows: from rows as read to rows of the model, for training and for scoring.

A run fits it to its training rows (fmcli/training/setup/fitting.py), and the model file keeps it.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, of_numbers
from fmcli.data.fields import Groups, without_fields
from fmcli.data.labels import Labels
from fmcli.data.numbering import Numbering
from fmcli.data.scaling import Scaling
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.data.tables.schema import Schema

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Transform:
    """The facts learned from the training rows, and the changes to all rows.

    Rows first get their columns, then labels, scaled values, and unit norm.

    labels : the loss, and the values of labels that are classes.
    features : the number of columns.
    numbering : the features that have columns; None: column j is feature j.
    hash_bits : the bits of the hashes of ids that are columns; 0: ids are not hashed.
    rare : whether features that occur in few rows have no column, or share one.
    frequent : bool (features), the features that are not rare, if all features have columns; None: all are.
    fieldless : whether entries lose their fields.
    scale : the scaling of the columns; None: no scaling.
    norm : whether rows are scaled to unit norm.
    norm_of_all : whether the norm comes first and counts features that training has not seen, as in programs with
        imported models.
    fields : the number of fields, including the fields of the warm start; 0 if the model needs none.
    label_range : the smallest and largest label in the user's unit, including the labels of the warm start; None if
        predictions cannot be clipped to them.
    groups : (features) the groups given for features, or NO_GROUP; None: none were given.
    table : the columns of the training tables; None: the rows came from other text.
    marks : uint8, a bit for each feature: whether it occurred in training, including the warm start's training; None:
        not known yet.
    """

    labels: Labels
    features: int
    numbering: Numbering | Dictionary | None = None
    hash_bits: int = 0
    rare: bool = False
    frequent: Flags | None = None
    fieldless: bool = False
    scale: Scaling | None = None
    norm: bool = False
    norm_of_all: bool = False
    fields: int = 0
    label_range: tuple[float, float] | None = None
    groups: Groups | None = None
    table: Schema | None = None
    marks: NDArray[np.uint8] | None = None
    # The numbering of the last rows, and the column here of each column there.
    _known: list[tuple[Numbering | Dictionary | None, NDArray[np.int32]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def dimension(self) -> int:
        """The number of features, including features without a column."""
        return self.numbering.dimension if isinstance(self.numbering, Numbering) else self.features

    @cached_property
    def seen(self) -> Flags:
        """(columns) whether each column's feature occurred in training."""
        assert self.marks is not None
        return np.unpackbits(self.marks, count=self.features, bitorder="little").view(np.bool_)

    def entries(self) -> dict[str, Any]:
        """Return the facts that are numbers and texts, for a model file."""
        return {
            "fields": self.fields,
            "labels": self.labels.saved,
            "positive": 0 if self.labels.positive == 0 else None,
            "range": self.label_range and list(self.label_range),
            "label_pair": self.labels.pair and list(self.labels.pair),
            "unit": None if self.labels.unit.is_one else list(self.labels.unit.pair),
            "table": self.table.entry() if self.table else None,
        }

    def without_rare(self, frequent: Flags, *, share: bool) -> Transform:
        """Return the transform without rare features: they lose their entries, or `share` a column. Without a
        numbering,
        features that lose their entries keep their columns. frequent : (columns)."""
        numbering = self.numbering
        if share:
            if not isinstance(numbering, Dictionary):
                numbering = of_numbers(every_column(len(frequent)) if numbering is None else numbering)
            left: Numbering | Dictionary = numbering.sharing(frequent)
        elif numbering is None:
            return replace(self, rare=True, frequent=frequent)
        else:
            left = numbering.subset(frequent)
        return replace(self, rare=True, numbering=left, features=len(left))

    def in_columns(self, data: Dataset) -> Dataset:
        """Return rows with the model's columns, and without fields if the transform is fieldless."""
        data = data.normalized() if self.norm_of_all else data
        if self.numbering is not None:
            data = data.renumbered(self.numbering, columns=self._columns(data))
        else:
            data = data.within(self.features)
            data = data if self.frequent is None else data.only(self.frequent)
        return without_fields(data) if self.fieldless else data

    def training(self, data: Dataset) -> Dataset:
        """Return training rows. Raises BadInputError for a label that is not one of `labels`."""
        data = self._scaled(self._encoded(data)).changed(unit=self.labels.unit.pair)
        return data.normalized() if self.norm else data

    def of(self, data: Dataset, source: str = "") -> Dataset:
        """Return labeled rows other than training rows. Raises BadInputError, which names the source, for a label that
        is not one of `labels`."""
        return self.valued(self._encoded(data, source))

    def valued(self, data: Dataset) -> Dataset:
        """Return rows that already have columns and labels. Unless `norm_of_all` is set, the norm leaves out features
        that training has not seen."""
        data = self._scaled(data)
        return data.normalized(self.seen) if self.norm and not self.norm_of_all else data

    def _encoded(self, data: Dataset, source: str = "") -> Dataset:
        data = self.in_columns(data)
        return data.changed(label=self.labels.encode(data.label, source))

    def _scaled(self, data: Dataset) -> Dataset:
        return data if self.scale is None else self.scale.of(data)

    def _columns(self, data: Dataset) -> NDArray[np.int32] | None:
        """Return the model's column of each column of the rows, looked up once for all rows with the same numbering;
        None: each entry is looked up."""
        theirs, numbering = data.numbering, self.numbering
        if numbering is None or theirs is numbering or (theirs is None and isinstance(numbering, Numbering)):
            return None
        for known, columns in self._known:
            if known is theirs and len(columns) >= data.features:
                return columns
        columns = numbering.columns_from(every_column(data.features) if theirs is None else theirs)
        self._known[:] = [(theirs, columns)]
        return columns


def every_column(features: int) -> Numbering:
    """Return the numbering in which column j is feature j."""
    return Numbering(np.arange(features, dtype=np.int32))


def marked(flags: Flags) -> NDArray[np.uint8]:
    """Return a bit for each flag, as in `Transform.marks`."""
    return np.packbits(flags, bitorder="little")
