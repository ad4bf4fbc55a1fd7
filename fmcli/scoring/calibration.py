"""Calibration: the gap between predicted probabilities and observed shares, and maps of scores that close it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.losses.links import Floats, expit
from fmcli.model_file.check import CALIBRATION, PLATT
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.scoring.metrics import BINARY, SMALLEST_PROBABILITY, Outcome

# The number of bins in the table of predicted and observed shares; fewer if few predictions differ.
BINS = 10
# Newton's method ends when a step changes the parameters by at most CLOSE, or after MOST_STEPS steps.
CLOSE, MOST_STEPS = 1e-10, 100


@dataclass(frozen=True)
class Calibration:
    """A map from the score of a model to the probability of the positive one of two labels.

    method : platt: 1 / (1 + exp(-(a score + b))), with `numbers` a, b. isotonic: a function that never falls, linear
        between points, with `numbers` (2, points): their scores, increasing, and their probabilities.
    """

    method: str
    numbers: Floats

    def probability(self, score: Floats) -> Floats:
        """Return the probabilities of scores; NaN for a score that is not a number."""
        if self.method == PLATT:
            return expit(self.numbers[0] * score + self.numbers[1])
        return np.asarray(np.interp(score, *self.numbers))

    def of(self, loss: str, score: Floats) -> Floats:
        """Return scores (rows, 1) of a loss that give the calibrated probabilities."""
        inverse = LOSSES[loss].load_link().inverse
        assert inverse is not None
        limited = np.clip(self.probability(score), SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
        return inverse(limited)


def saved_calibration(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Calibration | None:
    """Return the calibration in a valid model file, if there is one."""
    method = meta[CALIBRATION]
    return None if method is None else Calibration(method, arrays[CALIBRATION])


def require_probabilities(loss: str) -> None:
    """Raise UsageError unless a loss has probabilities of two labels."""
    entry = LOSSES[loss]
    if entry.task != "binary" or entry.load_link().inverse is None:
        raise UsageError(
            f"only probabilities of two labels are calibrated, and loss {loss} has none", calibrate=LEAVE_OUT
        )


def fitted(method: str, positive: NDArray[np.bool_], score: Floats, weight: Floats | None = None) -> Calibration:
    """Return the calibration, fitted to rows that the model has not seen.

    Parameters
    ----------
    positive : (rows) whether each row has the larger label.
    score : (rows).
    weight : (rows), not negative; None: all are 1.

    For platt, see Platt (1999) and Lin, Lin and Weng (2007), whose targets keep probabilities away from 0 and 1 when
    rows are separable. For isotonic, Zadrozny and Elkan (2002), with probabilities limited in the same way.
    """
    weight = np.ones(len(score)) if weight is None else weight
    known = weight > 0
    positive, score, weight = positive[known], score[known], weight[known]
    if method == PLATT:
        return Calibration(method, sigmoid(positive, score, weight))
    from scipy.optimize import isotonic_regression

    values, place = np.unique(score, return_inverse=True)
    total = np.bincount(place, weight)
    share = np.bincount(place, weight * positive) / total
    found = np.asarray(isotonic_regression(share, weights=total).x)
    least = 1 / (len(score) + 2)
    found = np.clip(found, least, 1 - least)
    inner = np.ones(len(values), dtype=np.bool_)  # equal probabilities need only their first and last points
    inner[1:-1] = (found[1:-1] != found[:-2]) | (found[1:-1] != found[2:])
    return Calibration(method, np.ascontiguousarray([values[inner], found[inner]]))


def sigmoid(positive: NDArray[np.bool_], score: Floats, weight: Floats) -> Floats:
    """Return the slope and the intercept of Platt's sigmoid, by Newton's method with a line search on the logloss of
    Platt's targets."""
    above, below = float(weight[positive].sum()), float(weight[~positive].sum())
    target = np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))
    spread = float(np.abs(score).max(initial=0)) or 1.0
    features = np.stack([score / spread, np.ones(len(score))])

    def value(numbers: Floats) -> float:
        odds = numbers @ features
        return float((weight * (np.logaddexp(0, odds) - target * odds)).sum())

    numbers = np.array([0.0, np.log((above + 1) / (below + 1))])
    now = value(numbers)
    for _ in range(MOST_STEPS):
        share = expit(numbers @ features)
        gradient = features @ (weight * (share - target))
        curved = features * (weight * share * (1 - share))
        curvature = curved @ features.T + np.diag([CLOSE, CLOSE])
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        while length > CLOSE and value(numbers - length * step) > now:
            length /= 2
        numbers = numbers - length * step
        before, now = now, value(numbers)
        if before - now <= CLOSE * abs(before):
            break
    return np.array([numbers[0] / spread, numbers[1]])


@dataclass(frozen=True)
class Reliability:
    """Predicted probabilities and observed shares.

    bins : rows of a table, by increasing probability: the lowest and the highest probability, the weight of the rows,
        the mean probability, and the observed share.
    error : the expected calibration error: the mean absolute difference of probability and share, weighted by rows.
    """

    bins: list[dict[str, float]]
    error: float


def reliability(outcome: Outcome, bins: int = BINS) -> Reliability:
    """Compare predicted probabilities with observed shares, in bins of equal numbers of rows. Rows with equal
    probabilities share a bin.

    For two labels, this compares the probability and the share of the larger label; for classes, the probability of the
    most likely class and the share of rows in which it is the label (Guo et al. 2017).
    """
    if outcome.task in BINARY:
        probability = outcome.probability[:, -1]
        observed = outcome.label > 0
    else:
        probability = outcome.probability.max(axis=1)
        observed = outcome.class_predicted == outcome.class_label
    order = np.argsort(probability, kind="stable")
    probability, observed, weight = probability[order], observed[order], outcome.weight[order]
    before = np.cumsum(weight) - weight
    number = np.minimum((before * bins / weight.sum()).astype(np.intp), bins - 1)
    _, first, same = np.unique(probability, return_index=True, return_inverse=True)
    number = number[first][same]  # rows with equal probabilities share the first row's bin
    rows, error = [], 0.0
    for one in np.unique(number):
        mine = number == one
        total = float(weight[mine].sum())
        mean, share = (float((weight[mine] * values[mine]).sum() / total) for values in (probability, observed))
        rows.append(
            {
                "lowest": float(probability[mine][0]),
                "highest": float(probability[mine][-1]),
                "rows": total,
                "predicted": mean,
                "observed": share,
            }
        )
        error += total * abs(mean - share)
    return Reliability(rows, error / float(weight.sum()))
