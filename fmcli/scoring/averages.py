"""Predictions of several draws of a model's parameters: their mean and their spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.kept import Kept, require_like, require_names, whole_number
from fmcli.data.dataset import Dataset
from fmcli.registry.losses import LOSSES, PROBIT
from fmcli.scoring.draws import Draws
from fmcli.scoring.rows import score_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Average:
    """How the predictions of a loss are averaged.

    terms : from scores (rows, outputs), the arrays of the same shape that are added up over draws.
    add : adds two of them.
    score : the scores whose predictions are the means, from the sums and the number of draws.
    prediction : from the last of the terms, the predictions.
    count : the number of terms.
    """

    terms: Callable[[Floats], list[Floats]]
    add: np.ufunc
    score: Callable[[Sequence[Floats], int], Floats]
    prediction: Callable[[Floats], Floats]
    count: int = 1


def same(numbers: Floats) -> Floats:
    return numbers


def normal_probabilities(score: Floats) -> list[Floats]:
    """The probabilities of both labels under probit, so that small ones keep their digits."""
    from scipy.special import ndtr

    return [ndtr(-score), ndtr(score)]


def normal_score(sums: Sequence[Floats], count: int) -> Floats:
    """The score with these mean probabilities under probit."""
    from scipy.special import ndtri

    negative, positive = (total / count for total in sums)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(positive < negative, ndtri(positive), -ndtri(negative)))


def log_probabilities(score: Floats) -> list[Floats]:
    """The logarithms of the probabilities of both labels under logistic."""
    return [-np.logaddexp(0, score), -np.logaddexp(0, -score)]


def log_class_probabilities(score: Floats) -> list[Floats]:
    """The logarithms of the probabilities of classes."""
    return [score - np.logaddexp.reduce(score, axis=1, keepdims=True)]


# Sums of probabilities, and of predicted counts, are kept as logarithms, which neither overflow nor vanish.
SCORES = Average(lambda score: [score], np.add, lambda sums, count: sums[0] / count, same)
NORMAL = Average(normal_probabilities, np.add, normal_score, same, count=2)
ODDS = Average(log_probabilities, np.logaddexp, lambda sums, count: sums[1] - sums[0], np.exp, count=2)
CLASSES = Average(log_class_probabilities, np.logaddexp, lambda sums, count: sums[0] - np.log(count), np.exp)
COUNTS = Average(lambda score: [score], np.logaddexp, lambda sums, count: sums[0] - np.log(count), np.exp)

LEVELS = Average(normal_probabilities, np.add, normal_score, lambda above: above.sum(axis=1, keepdims=True), count=2)

OF_LOSS = {PROBIT: NORMAL, "logistic": ODDS, "soft-logistic": ODDS}
OF_TASK = {"classes": CLASSES, "counts": COUNTS, "levels": LEVELS}


def average_of(loss: str) -> Average:
    """How the predictions of a loss are averaged: probabilities, predicted counts, or for other losses scores."""
    return OF_LOSS.get(loss) or OF_TASK.get(LOSSES[loss].task, SCORES)


class MeanScore:
    """The scores whose predictions are the means of the predictions of several draws.

    count : the number of draws so far.
    """

    def __init__(self, loss: str) -> None:
        self.average, self.count = average_of(loss), 0
        self._totals: list[Floats] = []

    def add(self, score: Floats) -> None:
        """Add the scores (rows, outputs) of a draw."""
        terms = self.average.terms(score)
        if self._totals:
            for total, term in zip(self._totals, terms, strict=True):
                self.average.add(total, term, out=total)
        else:
            self._totals = [term.copy() for term in terms]
        self.count += 1

    def score(self) -> Floats:
        """(rows, outputs) the scores. There must have been a draw."""
        return self.average.score(self._totals, self.count)

    def state(self) -> dict[str, NDArray[Any]]:
        """What it knows, for `restore`; the arrays are no copies."""
        return {"count": np.array(self.count), **{f"total.{n}": total for n, total in enumerate(self._totals)}}

    def restore(self, state: Kept, count: int, shape: tuple[int, int]) -> None:
        """Continue from a state after so many draws, whose scores have this shape. Raises ValueError for others."""
        names = [f"total.{number}" for number in range(self.average.count)] if count else []
        require_names(state, ["count", *names])
        self.count = whole_number(state, "count", count, count)
        for name in names:
            require_like(name, state[name], np.empty(shape))
        self._totals = [state[name].copy() for name in names]


def mean_score(
    loss: str,
    draws: Draws,
    data: Dataset,
    threads: int = 1,
    rows: NDArray[np.int32] | None = None,
) -> Floats:
    """(rows, outputs) the scores of all rows, or of the rows with these indices, averaged over draws. A single one's
    scores are not changed."""
    if len(draws.models) == 1:
        return score_rows(draws.models[0], data, threads, rows)
    mean = MeanScore(loss)
    for score in draws.scores(data, threads, rows):
        mean.add(score)
    return mean.score()


def spread(loss: str, draws: Draws, data: Dataset) -> Floats:
    """(rows, outputs) the standard deviations of the predictions of draws: of the probability of the larger label or of
    each class, or of predicted numbers, which are not clipped. They are not numbers if there is a single draw."""
    average, count = average_of(loss), 0
    mean = squares = np.zeros((data.rows, 1))
    for score in draws.scores(data):
        prediction = average.prediction(average.terms(score)[-1])
        count += 1
        step = prediction - mean
        mean = mean + step / count
        squares = squares + step * (prediction - mean)
    if count < 2:
        return np.full((data.rows, 1), np.nan)
    return np.asarray(np.sqrt(squares / (count - 1)))
