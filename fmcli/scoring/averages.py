"""Predictions of several draws of a model's parameters: their mean and their spread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.kept import Kept, require_like, require_names, whole_number
from fmcli.data.dataset import Dataset
from fmcli.models.model import Model
from fmcli.registry.losses import PROBIT
from fmcli.scoring.rows import score_rows

Floats = NDArray[np.float64]


class MeanScore:
    """The scores whose predictions are the means of the predictions of several draws.

    Under probit, these are the probabilities of both labels, which are summed apart: small ones keep their digits.

    count : the number of draws so far.
    """

    def __init__(self, loss: str) -> None:
        self.loss, self.count = loss, 0
        self._totals: list[Floats] = []

    def add(self, score: Floats) -> None:
        """Add the scores (rows, outputs) of a draw."""
        terms = predictions(self.loss, score)
        if self._totals:
            for total, term in zip(self._totals, terms, strict=True):
                total += term
        else:
            self._totals = [term.copy() for term in terms]
        self.count += 1

    def score(self) -> Floats:
        """(rows, outputs) the scores. There must have been a draw."""
        if self.loss != PROBIT:
            mean: Floats = self._totals[0] / self.count
            return mean
        from scipy.special import ndtri

        negative, positive = (total / self.count for total in self._totals)
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(positive < negative, ndtri(positive), -ndtri(negative)))

    def state(self) -> dict[str, NDArray[Any]]:
        """What it knows, for `restore`; the arrays are no copies."""
        return {"count": np.array(self.count), **{f"total.{n}": total for n, total in enumerate(self._totals)}}

    def restore(self, state: Kept, count: int, shape: tuple[int, int]) -> None:
        """Continue from a state after so many draws, whose scores have this shape. Raises ValueError for others."""
        names = [f"total.{number}" for number in range(2 if self.loss == PROBIT else 1)] if count else []
        require_names(state, ["count", *names])
        self.count = whole_number(state, "count", count, count)
        for name in names:
            require_like(name, state[name], np.empty(shape))
        self._totals = [state[name].copy() for name in names]


def predictions(loss: str, score: Floats) -> list[Floats]:
    """What is averaged over draws: scores, or under probit the probabilities of both labels."""
    if loss != PROBIT:
        return [score]
    from scipy.special import ndtr

    return [ndtr(-score), ndtr(score)]


def mean_score(
    loss: str,
    models: Iterable[Model],
    data: Dataset,
    threads: int = 1,
    rows: NDArray[np.int32] | None = None,
) -> Floats:
    """(rows, outputs) the scores of all rows, or of the rows with these indices, averaged over models of equal shapes.
    A single model's scores are not changed."""
    first, *others = models
    score = score_rows(first, data, threads, rows)
    if not others:
        return score
    mean = MeanScore(loss)
    mean.add(score)
    for model in others:
        mean.add(score_rows(model, data, threads, rows))
    return mean.score()


def spread(loss: str, models: Iterable[Model], data: Dataset) -> Floats:
    """(rows) the standard deviation of the predictions of draws: of their scores, or under probit of the probabilities
    of the larger label. It is not a number if there is a single draw."""
    count, mean, squares = 0, np.zeros((data.rows, 1)), np.zeros((data.rows, 1))
    for model in models:
        prediction = predictions(loss, score_rows(model, data))[-1]
        count += 1
        step = prediction - mean
        mean += step / count
        squares += step * (prediction - mean)
    if count < 2:
        return np.full(data.rows, np.nan)
    found: Floats = np.sqrt(squares[:, 0] / (count - 1))
    return found
