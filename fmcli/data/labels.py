"""Labels: the loss that fits them, and their encoding for that loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import ONE, LabelUnit
from fmcli.data.dataset import Dataset
from fmcli.errors import LEAVE_OUT, Also, BadInputError, UsageError
from fmcli.records import dataclass
from fmcli.registry.losses import LOGISTIC, LOSSES, OTHERS, SOFT_LOGISTIC, TWO_VALUES
from fmcli.registry.positive import positive_place
from fmcli.text import markers_among, number, quote, readable, unescaped

Floats = NDArray[np.float64]

# The names of labels 0, 1, ..; empty: labels are numbers.
Names = tuple[str, ...]
NUMBERS: Names = ()
LONGEST_NAME = 200  # characters
SURROGATES = "surrogateescape"

# The smallest and the largest label, by task, and the words for such labels.
RANGES = {"counts": (0.0, np.inf), "soft": (0.0, 1.0)}
RANGE_NAMES = {"counts": "counts", "soft": "labels from 0 to 1"}
# Integer labels with at most this many distinct values are probably classes, and are encoded by comparisons.
FEW_CLASSES = 20
# Bytes to encode a label: for few values a code and two comparisons, for many a place, a number and a comparison.
BYTES_OF_FEW, BYTES_OF_MANY = 3, 17
HIGHEST_RATING = 10
# This many labels usually show whether there are many distinct labels.
SOME_LABELS = 1000
MOST_LISTED = 4  # labels in a message
# Advice if all labels are the same.
OBSERVED = "if the rows are observed pairs, such as clicks, fmcli negatives adds random other pairs with the label 0"
SAME_LABELS = f"a model cannot learn from a single value or class; {OBSERVED}"


class Relevance(NamedTuple):
    """The rows that are relevant.

    least : the least label of relevant rows, in the loss's encoding; None: positive labels are relevant.
    graded : whether larger labels gain more; otherwise relevant rows gain 1, and other rows 0.
    """

    least: float | None = None
    graded: bool = True

    def of(self, label: Floats) -> NDArray[np.bool_]:
        """Return (rows) whether rows with these labels are relevant."""
        return np.asarray(label > 0 if self.least is None else label >= self.least)


@dataclass(frozen=True)
class Labels:
    """How labels are encoded for a loss.

    loss : the name of the loss.
    values : the label values that stand for -1 and +1; or for classes 0, 1, ..; or for levels 0, 1, .., increasing.
        None if the labels are numbers.
    names : the names of values 0, 1, .., if values are positions of names.
    pair : the smaller and the larger label, if labels are numbers with two values; otherwise None.
    unit : the unit of labels that are numbers; see LabelUnit. Labels are encoded in the user's unit, and training rows
        carry the unit (Dataset.unit).
    may_be_classes : whether labels that are fitted as numbers by default have few distinct integer values.
    may_be_ratings : whether labels are on a scale such as 1 to 5 stars.
    """

    loss: str
    values: tuple[float, ...] | None
    may_be_classes: bool = False
    may_be_ratings: bool = False
    names: Names = NUMBERS
    pair: tuple[float, float] | None = None
    unit: LabelUnit = ONE

    @property
    def relevance(self) -> Relevance:
        """The relevant rows of rankings: rows with the larger of two labels, or with a positive label."""
        return Relevance() if self.pair is None else Relevance(self.pair[1], graded=False)

    def with_positive(self, wanted: str | None) -> Labels:
        """Return the labels with `wanted` as the positive one of two labels; None: see `positive_place`. Raises
        BadInputError."""
        if self.negative is None or self.values is None:
            if wanted is None:
                return self
            why = "are classes" if LOSSES[self.loss].task == "classes" else f"are numbers for loss {self.loss}"
            raise BadInputError(f"labels have a positive value if there are two, but these {why}", positive=LEAVE_OUT)
        low, high = sorted(self.values)
        texts = [text_of(value, self.names) for value in (low, high)]
        place = positive_place(texts, wanted, named=bool(self.names))
        return replace(self, values=(low, high) if place else (high, low))

    def require_positive(self, wanted: str, path: str, why: str = "") -> None:
        """Raise UsageError unless `wanted` is the positive label of the model in `path`. why : it cannot be another."""
        if self.positive is None:
            raise UsageError(f"{path} has no positive label, because its labels are not two", positive=LEAVE_OUT)
        if self.with_positive(wanted) != self:
            raise UsageError(f"the positive label of {path} is {self.texts[1]}{why}", positive=LEAVE_OUT)

    @property
    def classes(self) -> tuple[float, ...] | None:
        """The values of labels that are classes, or two numbers, increasing; otherwise None."""
        return self.pair or (None if self.cutpoints or self.values is None else tuple(sorted(self.values)))

    @property
    def negative(self) -> float | None:
        """The label of pairs that do not belong together: the one of two labels that is not relevant; None unless there
        are two labels."""
        two_values = self.values is not None and not self.cutpoints and LOSSES[self.loss].task != "classes"
        low, _ = self.pair or (self.values if two_values and self.values else (None, None))
        return low

    def seen(self, label: Floats | None, rows: int) -> NDArray[np.bool_]:
        """Return (rows) whether the rows are pairs that a user has seen: all rows but negatives. label : NaN for a row
        without a label; None: no row has a label."""
        every = np.ones(rows, dtype=np.bool_)
        return every if label is None or self.negative is None else np.not_equal(label, self.negative)

    def is_negative(self, text: str) -> bool:
        """Return whether a label, as text, is the negative one of two labels."""
        if self.negative is None:
            return False
        if self.names:
            return text == self.names[int(self.negative)]
        try:
            return float(text) == self.negative
        except ValueError:
            return False

    def beside(self, label: Floats) -> Labels:
        """Return the labels after an update with rows of these labels: numbers may then have more than two values."""
        others = self.pair is not None and not np.isin(label, self.pair).all()
        return replace(self, pair=None) if others else self

    @property
    def shown(self) -> list[float] | list[str] | None:
        """The label values, by name if they have names, with the blanks that names cannot have in rows as text; None if
        labels are numbers."""
        if self.names:
            return [readable(self.names[int(value)]) for value in self.values or ()]
        return None if self.values is None else list(self.values)

    @property
    def positive(self) -> int | None:
        """The position of the positive one of two labels in increasing order; None unless there are two labels."""
        return None if self.negative is None or self.values is None else int(self.values[1] > self.values[0])

    @property
    def saved(self) -> list[float] | list[str] | None:
        """The label values for a model file, increasing, by name if they have names."""
        return list(self.names) or (None if self.values is None else sorted(self.values))

    @property
    def words(self) -> list[str]:
        """The label values as they are written in rows of text."""
        return [self.names[int(value)] if self.names else number(value) for value in self.values or ()]

    @property
    def texts(self) -> list[str]:
        """The label values as text."""
        return [text_of(value, self.names) for value in self.values or ()]

    @property
    def cells(self) -> list[str]:
        """The label values as cells of a table; they can have blanks and line breaks of every kind."""
        return [unescaped(self.names[int(value)]) if self.names else number(value) for value in self.values or ()]

    @property
    def outputs(self) -> int:
        """The number of scores per sample."""
        return len(self.values) if self.values and LOSSES[self.loss].task == "classes" else 1

    @property
    def cutpoints(self) -> int:
        """The number of cutpoints between ordered labels."""
        return len(self.values) - 1 if self.values and LOSSES[self.loss].task == "levels" else 0

    def bytes_needed(self, rows: int) -> int:
        """Return the peak memory of `encode` in bytes, for this number of rows."""
        if self.values is None:
            return 0
        return rows * (BYTES_OF_FEW if len(self.values) <= FEW_CLASSES else BYTES_OF_MANY)

    def encode(self, label: Floats, source: str = "") -> NDArray[Any]:
        """Return the labels as the loss expects them: numbers, -1 and +1, or class ids (int8 if there are few).

        Raises BadInputError for a label that is not one of the values. The message names the source, if one is given.
        """
        if self.values is None:
            check_numbers(self.loss, label, source)
            return label
        known = self.known(label)
        if not known.all():
            raise BadInputError(
                f"{source and source + ': '}the model does not know the label {number(label[known.argmin()])}, only "
                f"{listed_texts(self.texts)}; check the labels of the file"
            )
        if len(self.values) > FEW_CLASSES:
            return np.searchsorted(np.array(self.values), label).astype(np.float64)
        if self.negative is not None:
            return np.where(label == self.negative, np.int8(-1), np.int8(1))
        places = np.zeros(len(label), dtype=np.int8)
        for value in self.values[1:]:
            places += label >= value
        return places

    def known(self, label: Floats) -> NDArray[np.bool_]:
        """Return bool (rows): whether each label is one of the values; for numbers, whether the loss accepts it."""
        if self.values is None:
            low, high = RANGES.get(LOSSES[self.loss].task, (-np.inf, np.inf))
            return np.greater_equal(label, low) & np.less_equal(label, high)
        if len(self.values) <= FEW_CLASSES:
            known = np.zeros(len(label), dtype=np.bool_)
            for value in self.values:
                known |= label == value
            return known
        values = np.array(self.values)  # increasing: there are more than two
        nearest: Floats = values[np.minimum(np.searchsorted(values, label), len(values) - 1)]
        return np.equal(nearest, label)


def fit_labels(
    label: Floats, loss: str | None, signs: bool = False, names: Names = NUMBERS, positive: str | None = None
) -> Labels:
    """Choose the loss that fits these labels, or check that the given loss fits them.

    With `signs`, labels with two distinct values stand for -1 and +1 even if the loss takes numbers. `names` are the
    names of labels 0, 1, ... `positive` is the positive one of two labels; None: see `positive_place`.

    Raises BadInputError if the labels do not fit the loss or have one distinct value, and if `positive` is not one of
    two labels.
    """
    found = fit_names(label, loss, signs, names) if names else fit_numbers(label, loss, signs)
    return found.with_positive(positive)


def fit_numbers(label: Floats, loss: str | None, signs: bool) -> Labels:
    """`fit_labels` for labels that are numbers."""
    distinct = few_distinct(label)
    if distinct is not None and len(distinct) == 1 and (loss is None or LOSSES[loss].task in ("binary", "classes")):
        raise BadInputError(f"every label is {number(distinct[0])}: {SAME_LABELS}")
    if loss is None:
        if distinct is not None and len(distinct) == 2:
            return Labels(TWO_VALUES, tuple(distinct.tolist()))
        whole = distinct is not None and len(distinct) <= FEW_CLASSES and (distinct == np.round(distinct)).all()
        ratings = distinct is not None and on_a_scale(distinct)
        return Labels(OTHERS, None, may_be_classes=bool(whole), may_be_ratings=ratings)
    if loss == LOGISTIC and (distinct is None or len(distinct) > 2) and 0 <= label.min() <= label.max() <= 1:
        return Labels(SOFT_LOGISTIC, None)
    task = LOSSES[loss].task
    if task == "binary":
        if distinct is None or len(distinct) > 2:
            some = listed(label[:1000] if distinct is None else distinct)
            raise BadInputError(
                f"loss {loss} needs labels with two values, but these are {some}",
                loss={"squared": "to fit them as numbers", "softmax": "if they are classes"},
            )
        return Labels(loss, tuple(distinct.tolist()))
    if task == "classes":
        return Labels(loss, tuple(np.unique(label).tolist()))
    if task == "levels":
        return Labels(loss, levels(label, loss))
    check_numbers(loss, label)
    if distinct is None or len(distinct) != 2:
        return Labels(loss, None)
    low, high = distinct.tolist()
    return Labels(loss, (low, high)) if signs else Labels(loss, None, pair=(low, high))


def on_a_scale(distinct: Floats) -> bool:
    """Return whether distinct labels (increasing) are all the steps of a rating scale: at least three, 1 or 0.5 apart,
    starting between 0 and 1 and ending at 10 or less."""
    steps = set(np.diff(distinct).tolist())
    return len(distinct) > 2 and steps < {0.5, 1.0} and 0 <= distinct[0] <= 1 and distinct[-1] <= HIGHEST_RATING


def levels(label: Floats, loss: str) -> tuple[float, ...]:
    """Return the integers from the smallest to the largest label. Raises BadInputError unless labels are a few
    integers."""
    low, high = float(label.min()), float(label.max())
    if not (0 < high - low < FEW_CLASSES and (label == np.round(label)).all()):
        raise BadInputError(
            f"loss {loss} takes at most {FEW_CLASSES} consecutive integers, but "
            f"the labels are {listed(label[:SOME_LABELS])}",
            loss={"squared": "to fit them as numbers"},
        )
    return tuple(np.arange(low, high + 1).tolist())


def fit_names(label: Floats, loss: str | None, signs: bool, names: Names) -> Labels:
    """`fit_labels` for labels that are positions of names; every name occurs."""
    values, texts = tuple(map(float, range(len(names)))), [readable(name) for name in names]
    given, loss = loss is not None, loss or TWO_VALUES
    task = LOSSES[loss].task
    if len(names) == 1:
        raise BadInputError(f"every label is {readable(names[0])}: {SAME_LABELS}")
    if task == "classes" or (len(names) == 2 and (task == "binary" or signs)):
        return Labels(loss, values, names=names)
    missing, helps = missing_among(texts)
    end = missing and f"; {missing}"
    if task == "binary":
        needs = (
            f"loss {loss} needs labels with two values, but these are"
            if given
            else "the labels are more than two names:"
        )
        raise BadInputError(
            f"{needs} {listed_texts(texts)}{end}",
            loss={"softmax": "if they are classes"},
            **helps,
        )
    raise BadInputError(
        f"loss {loss} takes numbers, but the labels are {listed_texts(texts)}{end}",
        loss={"logistic": "for two labels"} if len(names) == 2 else {"softmax": "if they are classes"},
        **helps,
    )


def missing_among(texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return words about labels that usually mean a missing value, and the options that leave out their rows; both are
    empty if there are no such labels."""
    markers = markers_among(texts)
    if not markers:
        return "", {}
    words = (
        f"{listed_texts(markers)} usually {'stands for a missing label' if len(markers) == 1 else 'are missing labels'}"
    )
    helps = {"on_bad_line": {"skip": "to leave out such rows of a table"}, "missing_values": Also(tuple(markers))}
    return f"{words}: leave out such rows", helps


def saved_labels(
    loss: str,
    shown: Sequence[float] | Sequence[str] | None,
    pair: Sequence[float] | None = None,
    unit: Sequence[float] | None = None,
    positive: int | None = None,
) -> Labels:
    """Return the labels of a model file. shown : `Labels.saved`; pair : `Labels.pair`; unit : the center and the scale
    of numbers; positive : `Labels.positive`, None in files without it: 1, if there are two labels."""
    if shown is None:
        both = None if pair is None else (float(pair[0]), float(pair[1]))
        return Labels(loss, None, pair=both, unit=LabelUnit(*map(float, unit)) if unit else ONE)
    names = tuple(map(str, shown)) if isinstance(shown[0], str) else NUMBERS
    values = tuple(map(float, range(len(shown)) if names else shown))
    return Labels(loss, values[::-1] if positive == 0 else values, names=names)


def sorted_names(found: Sequence[bytes], source: str) -> tuple[Names, Floats]:
    """Return names sorted by their bytes, and the position of each name of `found` among them.

    Raises BadInputError, which begins with the source, for a name that is not printable text or is too long.
    """
    names = as_names(found)
    for name in names:
        if not is_name(name):
            raise BadInputError(
                f"{source}: found the label {quote(name.encode(errors=SURROGATES))}, expected a number, or printable "
                f"text of at most {LONGEST_NAME} characters"
            )
    order = sorted(range(len(names)), key=names.__getitem__)
    places = np.empty(len(names))
    places[order] = np.arange(len(names))
    return tuple(names[place] for place in order), places


def relabeled(data: Dataset, places: Floats) -> Dataset:
    """Replace labels 0, 1, ... places : (labels) the new label of each."""
    return data.changed(label=places[data.label.astype(np.intp)])


def as_names(found: Sequence[bytes]) -> Names:
    """Return names as text; bytes that are not UTF-8 become unprintable characters."""
    return tuple(name.decode(errors=SURROGATES) for name in found)


def is_name(value: Any) -> bool:
    """Return whether a label can have this name. The empty name is possible only in Python."""
    return type(value) is str and len(value) <= LONGEST_NAME and value.isprintable() and " " not in value


def is_number(label: bytes) -> bool:
    """Return whether a label is meant as a number, even one that cannot be read, such as nan or 0x1f."""
    if label[:2].lower() == b"0x":
        return True
    if label[:1].isalpha() and label[:1] not in b"iInN":  # most names, not inf or nan: an exception is slow
        return False
    try:
        float(label)
    except ValueError:
        return False
    return b"_" not in label


def check_numbers(loss: str, label: Floats, source: str = "") -> None:
    """Raise BadInputError for labels that a loss of numbers does not accept. The message names the source, if given."""
    task = LOSSES[loss].task
    if task not in RANGES or not label.size:
        return
    low, high = RANGES[task]
    extreme = label.min() if label.min() < low else label.max()
    if not low <= extreme <= high:
        where = source and f"{source}: "
        raise BadInputError(
            f"{where}loss {loss} takes {RANGE_NAMES[task]}, but a label is {number(extreme)}",
            loss={"squared": "for such labels"},
        )


def few_distinct(label: Floats) -> Floats | None:
    """Return the distinct values, increasing; None if there are many, because sorting all labels could take as long as
    an epoch."""
    found: list[float] = []
    # np.unique would import a module of numpy that nothing else needs, and take longer than this function.
    if len(set(label[:SOME_LABELS].tolist())) > FEW_CLASSES:
        return None
    left = np.ones(len(label), dtype=np.bool_)
    while left.any():
        if len(found) > FEW_CLASSES:
            return None
        found.append(float(label[left.argmax()]))
        left &= label != found[-1]
    return np.array(sorted(found))


def text_of(label: float, names: Names | None) -> str:
    """Return a label as text; if there are names, the name at its position."""
    return readable(names[int(label)]) if names else number(label)


def listed(values: Floats) -> str:
    """Return up to four distinct values as text for a message."""
    return listed_texts([number(value) for value in np.unique(values)[: MOST_LISTED + 1]])


def listed_names(names: Sequence[str]) -> str:
    """Return up to four names as text for a message."""
    return listed_texts([readable(name) for name in names])


def listed_texts(texts: Sequence[str]) -> str:
    """Return up to four texts for a message."""
    return ", ".join(texts[:MOST_LISTED]) + (" and others" if len(texts) > MOST_LISTED else "")
