"""Intervals for predicted numbers, from a model's draws: a label is a draw's score plus noise of the draw's
precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.losses.links import Floats, normal
from fmcli.scoring.metrics import Range

# The number of bisections of the range that contains a quantile: its error is then 1e-12 of the range.
HALVINGS = 40


def intervals(score: Floats, precision: NDArray[np.float64], level: float, clip: Range | None = None) -> Floats:
    """Return (rows, 2) the ends of intervals that contain the label with probability `level`, with equal tails.

    The label is distributed as the mean over the draws of N(score, 1 / precision), the posterior predictive
    distribution, whose quantiles are found by bisection.

    Parameters
    ----------
    score : (draws, rows).
    precision : (draws), the precision of the noise.
    level : the probability, between 0 and 1.
    clip : the range to which predictions and interval ends are clipped.
    """
    from scipy.special import ndtri

    scale = np.sqrt(precision)[:, None]
    found = np.empty((score.shape[1], 2))
    for side, share in enumerate(((1 - level) / 2, (1 + level) / 2)):
        quantile = score + ndtri(share) / scale  # per draw; the mixture's quantile lies between them
        low, high = quantile.min(axis=0), quantile.max(axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = normal((middle - score) * scale).mean(axis=0) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        found[:, side] = (low + high) / 2
    return found if clip is None else np.clip(found, *clip)
