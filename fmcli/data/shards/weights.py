"""Weights of training rows: from a file with a number for each row, and by label."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import FeatureIds
from fmcli.data.labels import Names, few_distinct, listed, listed_names, text_of
from fmcli.data.text.pieces import TextRows
from fmcli.data.text.sources import BUFFER_BYTES, buffers, name_of
from fmcli.errors import LEAVE_OUT, BadInputError
from fmcli.records import dataclass
from fmcli.registry.positive import is_label, positive_place
from fmcli.text import number, quote

Floats = NDArray[np.float64]

ALL_WEIGHTLESS = "all rows have weight 0; check the weights of rows and labels"

# More labels than this are numbers, not classes to balance.
MOST_CLASSES = 10_000


@dataclass(frozen=True)
class Weighting:
    """How the rows are weighted. The weight of a row is the product of all weights that apply.

    file : a file with one weight per line for the training rows; None: all are 1.
    by_label : label as text -> weight; 1 for all other labels.
    balanced : whether all labels get the same total weight.
    positive : the weight of the positive one of two labels; None: 1.
    positive_label : the positive label; None: see `positive_place`.
    beside_labels : whether labels in the text may be followed by a colon and a weight.
    """

    file: str | None = None
    by_label: Mapping[str, float] = field(default_factory=dict)
    balanced: bool = False
    positive: float | None = None
    beside_labels: bool = False
    positive_label: str | None = None

    def of_labels(self, label: Floats, weight: Floats, names: Names | None = None) -> dict[float, float]:
        """Return label -> weight, for training rows with these labels and weights. Raises BadInputError.

        names : the names of labels 0, 1, ..; None: labels are numbers.
        """
        by_label = {}
        for text, factor in self.by_label.items():
            value = label_of(text, names)
            if value is None or not (label == value).any():
                raise BadInputError(
                    f"no row has the label {text}, which has a weight, only "
                    f"{listed_names(names) if names else listed(label)}",
                    class_weight=None,
                )
            if value in by_label:
                raise BadInputError(f"the label {number(value)} has two weights", class_weight=None)
            by_label[value] = factor
        if self.balanced:
            values, places = np.unique(label, return_inverse=True)
            if len(values) > MOST_CLASSES:
                raise BadInputError(
                    f"labels with {len(values):,} values are not classes that can be balanced", class_weight=LEAVE_OUT
                )
            totals = np.bincount(places, weights=weight)
            with np.errstate(divide="ignore"):
                balanced = np.where(totals > 0, weight.sum() / (len(values) * totals), 1.0)
            return dict(zip(values.tolist(), balanced.tolist(), strict=True))
        if self.positive is not None:
            two = few_distinct(label)
            if two is None or len(two) != 2:
                raise BadInputError(
                    f"a weight of positive rows needs labels with two values, but these are {listed(label)}",
                    pos_weight=LEAVE_OUT,
                )
            texts = [text_of(value, names) for value in two.tolist()]
            place = positive_place(texts, self.positive_label, named=bool(names))
            return {float(two[place]): self.positive}
        return by_label


def label_of(text: str, names: Names | None) -> float | None:
    """Return the label with this text; None if there is none."""
    if names:
        places = (place for place in range(len(names)) if is_label(text, text_of(place, names), named=True))
        return next(map(float, places), None)
    try:
        return float(text)
    except ValueError:
        return None


def weigh(data: Dataset, weighting: Weighting, names: Names | None = None) -> tuple[Dataset, dict[float, float]]:
    """Return training rows with their weights, and the weights by label, which other rows get too. `names` are the
    names of labels 0, 1, ...

    Raises BadInputError, for example if the file has more or fewer lines than there are rows, and MissingInputError.
    """
    weight = np.ones(data.rows) if data.weight is None else data.weight
    if weighting.file is not None:
        weight = weight * read_weights(weighting.file, data.rows)
    of_labels = weighting.of_labels(data.label, weight, names)
    return weigh_labels(data.changed(weight=weight), of_labels), of_labels


def weigh_labels(data: Dataset, of_labels: Mapping[float, float]) -> Dataset:
    """Return the rows, with their weights multiplied by their labels' weights. Raises BadInputError if all are 0."""
    data = with_label_weights(data, of_labels)
    with np.errstate(over="ignore"):
        total = data.total_weight()
    if not 0 < total < np.inf:
        raise BadInputError("the sum of the weights must be positive and finite; check the weights of rows and labels")
    return data


def that_count(data: Dataset) -> Dataset:
    """Remove training rows of weight 0, and the columns of a numbering whose features occur only in them. Raises
    BadInputError if all rows have weight 0."""
    weight = data.weight
    if weight is None or weight.all():
        return data
    if not weight.any():
        raise BadInputError(ALL_WEIGHTLESS)
    data = data.take(np.flatnonzero(weight).astype(np.int32))
    if np.all(data.weight == 1):
        data = data.changed(weight=None)
    if data.group is not None:
        data = data.changed(group=np.unique(data.group, return_inverse=True)[1].astype(np.int32))
    return data if data.numbering is None else data.renumbered(data.numbering.subset(data.seen()))


def multiplied(data: Dataset, weight: Floats) -> Dataset:
    """Return the rows with their weights multiplied."""
    return data.changed(weight=weight if data.weight is None else data.weight * weight)


def with_label_weights(data: Dataset, of_labels: Mapping[float, float]) -> Dataset:
    """Return some of the rows, with their weights multiplied by their labels' weights; all may be 0."""
    weight: Floats = np.ones(data.rows) if data.weight is None else data.weight.copy()
    for label, factor in of_labels.items():
        weight[data.label == label] *= factor
    return data.changed(weight=None if (weight == 1).all() else weight)


def pieces_that_count(pieces: Iterable[TextRows]) -> Iterator[TextRows]:
    """Yield pieces of the training rows without rows of weight 0, and without ids that occur only in such rows. A piece
    may be empty."""
    for piece in pieces:
        weight = piece.data.weight
        if weight is None or weight.all():
            yield piece
            continue
        data, ids = piece.data.take(np.flatnonzero(weight).astype(np.int32)), piece.ids
        if ids is not None:
            dictionary, columns = ids.sorted(data.seen())
            ids = FeatureIds()
            ids.add_all(dictionary.ids)
            data = data.with_columns(columns[data.index], len(ids))
        yield replace(piece, data=data, ids=ids)


def read_weights(path: str, rows: int) -> Floats:
    """Return (rows) the weights in a file, one per line. Raises BadInputError, which names the file and the line."""
    weight = np.concatenate([np.empty(0), *_numbers(path)])
    if len(weight) != rows:
        raise BadInputError(
            f"{name_of(path)} has {len(weight):,} lines, but there are {rows:,} training rows; each needs one weight"
        )
    return weight


def with_row_weights(pieces: Iterable[TextRows], path: str) -> Iterator[TextRows]:
    """Yield pieces of the training rows with their weights multiplied by the weights in a file, one per line. The file
    is read as it is needed. Raises BadInputError, which names the file and the line."""
    rows, ahead = 0, np.empty(0)
    with closing(_numbers(path)) as numbers:
        for piece in pieces:
            data = piece.data
            while len(ahead) < data.rows and (more := next(numbers, None)) is not None:
                ahead = np.concatenate([ahead, more])
            if len(ahead) < data.rows:
                raise BadInputError(
                    f"{name_of(path)}:{rows + len(ahead) + 1}: the file ends, but there are more training rows; each "
                    "needs one weight"
                )
            weight, ahead = ahead[: data.rows], ahead[data.rows :]
            rows += data.rows
            yield replace(piece, data=multiplied(data, weight))
        if len(ahead) or any(len(more) for more in numbers):
            raise BadInputError(
                f"{name_of(path)}:{rows + 1}: the file has more lines than the {rows:,} training rows; each needs one "
                "weight"
            )


def _numbers(path: str) -> Generator[Floats, None, None]:
    before = 0
    for buffer in buffers([path], [], BUFFER_BYTES):
        lines = bytes(buffer.data[buffer.start : buffer.stop]).split(b"\n")[:-1]
        yield np.array([_weight(line, f"{buffer.name}:{before + at}") for at, line in enumerate(lines, 1)])
        before += len(lines)


def _weight(line: bytes, where: str) -> float:
    try:
        weight = float(line)
    except ValueError:
        weight = np.nan
    if not 0 <= weight < np.inf:
        raise BadInputError(f"{where}: found {quote(line)}, expected a weight: a finite number that is not negative")
    return weight
