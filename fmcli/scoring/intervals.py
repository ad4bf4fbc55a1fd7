"""Intervals for predicted numbers, from the draws of a model: a label is a draw's score with noise of its precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.losses.links import Floats, normal
from fmcli.scoring.metrics import Range

# Halvings of the range that has a quantile: after them, it is known to 1e-12 of the range.
HALVINGS = 40


def intervals(score: Floats, precision: NDArray[np.float64], level: float, clip: Range | None = None) -> Floats:
    """Return (rows, 2) the ends of intervals that have a label with a probability, and leave out as much on both sides.

    The label is distributed as the mean over the draws of N(score, 1 / precision), the posterior predictive
    distribution, whose quantiles are found by bisection.

    Parameters
    ----------
    score : (draws, rows).
    precision : (draws), of the noise.
    level : the probability, between 0 and 1.
    clip : the range to which predictions are clipped, and ends, too.
    """
    from scipy.special import ndtri

    scale = np.sqrt(precision)[:, None]
    found = np.empty((score.shape[1], 2))
    for side, share in enumerate(((1 - level) / 2, (1 + level) / 2)):
        quantile = score + ndtri(share) / scale  # of each draw, between whose least and largest one lies that of all
        low, high = quantile.min(axis=0), quantile.max(axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = normal((middle - score) * scale).mean(axis=0) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        found[:, side] = (low + high) / 2
    return found if clip is None else np.clip(found, *clip)
