"""Predictions of several draws of a model's parameters: their mean and their spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import Kept, require_like, require_names, whole_number
from fmcli.data.dataset import Dataset
from fmcli.losses.links import Average, Floats, unchanged
from fmcli.registry.losses import LOSSES
from fmcli.scoring.draws import Draws
from fmcli.scoring.rows import score_rows


def average_of(loss: str) -> Average:
    """Return how the predictions of a loss are averaged: as probabilities, predicted counts, or otherwise scores."""
    return LOSSES[loss].load_link().average


class MeanScore:
    """Scores whose predictions are the mean predictions of several draws.

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
        """Return the scores (rows, outputs). At least one draw is needed."""
        return self.average.score(self._totals, self.count)

    def progress(self) -> dict[str, NDArray[Any]]:
        """Return the progress for `restore`. The arrays are not copied."""
        return {"count": np.array(self.count), **{f"total.{n}": total for n, total in enumerate(self._totals)}}

    def restore(self, progress: Kept, count: int, shape: tuple[int, int]) -> None:
        """Continue from a saved progress after `count` draws with scores of this shape. Raises ValueError if it does
        not fit."""
        names = [f"total.{number}" for number in range(self.average.count)] if count else []
        require_names(progress, ["count", *names])
        self.count = whole_number(progress, "count", count, count)
        for name in names:
            require_like(name, progress[name], np.empty(shape))
        self._totals = [progress[name].copy() for name in names]


def mean_score(
    loss: str,
    draws: Draws,
    data: Dataset,
    threads: int = 1,
    rows: NDArray[np.int32] | None = None,
) -> Floats:
    """Return (rows, outputs) the scores of all rows, or of the rows with these indices, averaged over draws. The scores
    of a single draw are not changed."""
    if len(draws) == 1:
        return score_rows(draws.model, data, threads, rows)
    mean = MeanScore(loss)
    for score in draws.scores(data, threads, rows):
        mean.add(score)
    return mean.score()


def spread(loss: str, draws: Draws, data: Dataset, changed: Callable[[Floats], Floats] = unchanged) -> Floats:
    """Return (rows, outputs) the standard deviations of the draws' predictions: of the probability of the larger label
    or of each class, or of predicted numbers, not clipped; NaN for a single draw. changed : changes the scores of each
    draw."""
    average, count = average_of(loss), 0
    mean = squares = np.zeros((data.rows, 1))
    for score in draws.scores(data):
        prediction = average.prediction(average.terms(changed(score))[-1])
        count += 1
        step = prediction - mean
        mean = mean + step / count
        squares = squares + step * (prediction - mean)
    if count < 2:
        return np.full((data.rows, 1), np.nan)
    return np.asarray(np.sqrt(squares / (count - 1)))
