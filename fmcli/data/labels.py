"""Labels: which loss fits them, and what they mean to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import BadInputError
from fmcli.registry.losses import LOSSES
from fmcli.text import number

Floats = NDArray[np.float64]

# The usual loss of labels of two values, and of others.
TWO_VALUES, OTHERS = "logistic", "squared"
# So few different whole numbers look like classes.
FEW_CLASSES = 20


@dataclass(frozen=True)
class Labels:
    """What labels mean to a loss.

    loss : its name.
    values : the label values that stand for -1 and +1, or for classes 0, 1, ..., in increasing order; None where labels
        are numbers.
    hint : another loss that the labels would fit, in a sentence, or "".
    """

    loss: str
    values: tuple[float, ...] | None
    hint: str = ""

    @property
    def outputs(self) -> int:
        """Scores a sample has."""
        return len(self.values) if self.values and LOSSES[self.loss].task == "classes" else 1

    def encode(self, label: Floats, source: str = "") -> Floats:
        """Labels as the loss takes them: numbers, -1 and +1, or class ids.

        Raises BadInputError for a label that is none of the values, naming the source where there is one.
        """
        if self.values is None:
            check_counts(self.loss, label, source)
            return label
        unknown = label[~self.known(label)]
        if unknown.size:
            raise BadInputError(
                f"{source and source + ': '}label {number(unknown[0])} is unknown to the model, which knows "
                f"{listed(np.array(self.values))}; check the file's labels"
            )
        places: Floats = np.searchsorted(np.array(self.values), label).astype(np.float64)
        return places if LOSSES[self.loss].task == "classes" else 2.0 * places - 1.0

    def known(self, label: Floats) -> NDArray[np.bool_]:
        """bool (rows): whether a label is one of the values; where labels are numbers, whether the loss takes it."""
        if self.values is None:
            return np.greater_equal(label, 0 if LOSSES[self.loss].task == "counts" else -np.inf)
        values = np.array(self.values)
        nearest: Floats = values[np.minimum(np.searchsorted(values, label), len(values) - 1)]
        return np.equal(nearest, label)


def fit_labels(label: Floats, loss: str | None, signs: bool = False) -> Labels:
    """Choose the loss that these labels call for, or check the one that is named.

    With `signs`, labels of two values stand for -1 and +1 under a loss of numbers, too.

    Raises BadInputError where they do not fit the loss, or have one value only.
    """
    distinct = few_distinct(label)
    if distinct is not None and len(distinct) == 1 and (loss is None or LOSSES[loss].task in ("binary", "classes")):
        raise BadInputError(
            f"every label is {number(distinct[0])}: there is nothing to learn from one value; check the file, or say "
            "--loss squared to fit it as a number"
        )
    if loss is None:
        if distinct is not None and len(distinct) == 2:
            return Labels(TWO_VALUES, tuple(distinct.tolist()))
        whole = distinct is not None and len(distinct) <= FEW_CLASSES and (distinct == np.round(distinct)).all()
        hint = "the labels are few whole numbers; if they are classes, say --loss softmax" if whole else ""
        return Labels(OTHERS, None, hint)
    task = LOSSES[loss].task
    if task == "binary":
        if distinct is None or len(distinct) > 2:
            some = listed(label[:1000] if distinct is None else distinct)
            raise BadInputError(
                f"loss {loss} takes labels of two values, but here are {some}; say --loss squared to fit them as "
                "numbers, or --loss softmax to tell classes apart"
            )
        return Labels(loss, tuple(distinct.tolist()))
    if task == "classes":
        return Labels(loss, tuple(np.unique(label).tolist()))
    check_counts(loss, label)
    two_values = signs and distinct is not None and len(distinct) == 2
    return Labels(loss, tuple(np.unique(label).tolist()) if two_values else None)


def check_counts(loss: str, label: Floats, source: str = "") -> None:
    """Raise BadInputError for labels below 0 under a loss of counts, naming the source where there is one."""
    if LOSSES[loss].task == "counts" and label.size and label.min() < 0:
        where = source and f"{source}: "
        raise BadInputError(
            f"{where}loss {loss} takes counts, but here is {number(label.min())}; use --loss squared for such labels"
        )


def few_distinct(label: Floats) -> Floats | None:
    """The different values in increasing order, where they are few: sorting all labels could cost an epoch."""
    found: list[float] = []
    rest = label
    while rest.size:
        if len(found) > FEW_CLASSES:
            return None
        found.append(float(rest[0]))
        rest = rest[rest != rest[0]]
    return np.array(sorted(found))


def listed(values: Floats) -> str:
    """Up to four different values in words."""
    some = np.unique(values)
    return ", ".join(number(value) for value in some[:4]) + (" and others" if len(some) > 4 else "")
