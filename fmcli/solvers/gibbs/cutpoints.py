"""The cutpoints between ordered labels, drawn by Metropolis' algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.losses.loss import Ordinal
from fmcli.models.layout import REAL_TYPE

Floats = NDArray[np.float64]

# Proposals in a sweep.
PROPOSALS = 2
# The size of a proposal relative to the posterior standard deviation, for one dimension; it falls with the root of
# their number (Gelman, Roberts and Gilks: Efficient Metropolis jumping rules, 1996).
SIZE = 2.4


class CutpointWalk:
    """A random walk over the logarithms of the gaps between cutpoints, whose steps Metropolis' rule accepts.

    The latent variables of the labels are integrated out: given these, cutpoints would hardly move (Cowles:
    Accelerating Monte Carlo Markov chain convergence for cumulative-link generalized linear models, 1996). The
    covariance of a step depends on the frequencies of the labels only: it is near the posterior's covariance for
    constant scores.

    Parameters
    ----------
    loss : the loss, with the prior of the gaps; there are two cutpoints or more.
    label : (rows) the levels 0, 1, ..
    """

    def __init__(self, loss: Ordinal, label: Floats) -> None:
        self.mean, self.precision = loss.gap_mean, 1 / loss.gap_std**2
        margins = loss.best_constant(label, None)
        density = np.exp(-(margins**2) / 2) / np.sqrt(2 * np.pi)
        shares = np.exp([-loss.evaluate(level, margins)[0] for level in range(len(margins) + 1)])
        # The information of each cutpoint, and of neighbors. The first one is known.
        beside = -density[:-1] * density[1:] / shares[1:-1]
        information = (
            np.diag(density**2 * (1 / shares[:-1] + 1 / shares[1:])) + np.diag(beside, 1) + np.diag(beside, -1)
        )
        gaps = -np.diff(margins)
        jacobian = np.tril(np.tile(gaps, (len(gaps), 1)))  # of cutpoints by the logarithms of gaps
        precision = len(label) * jacobian.T @ information[1:, 1:] @ jacobian + self.precision * np.eye(len(gaps))
        self.factor = SIZE / len(gaps) ** 0.5 * np.linalg.cholesky(np.linalg.inv(precision))

    def step(
        self, cutpoints: NDArray[Any], generator: np.random.Generator, before: float, likelihood: Callable[[], float]
    ) -> None:
        """Make some proposals, and accept or reject each.

        cutpoints : (1, number); all but the first one change.
        before : the logarithm of the probability of the labels, given the cutpoints.
        likelihood : returns it for the cutpoints as they are then.
        """
        before += self.prior(log_gaps(cutpoints))
        for _ in range(PROPOSALS):
            kept = cutpoints.copy()
            gaps = log_gaps(kept) + self.factor @ generator.normal(size=len(self.factor))
            cutpoints[0, 1:] = np.cumsum(np.exp(gaps)).astype(REAL_TYPE)
            distinct = bool((np.diff(cutpoints[0]) > 0).all())  # rounded
            after = likelihood() + self.prior(gaps) if distinct else -np.inf
            if np.log(generator.random()) < after - before:
                before = after
            else:
                cutpoints[...] = kept

    def prior(self, gaps: Floats) -> float:
        """Return the logarithm of the prior density of the logarithms of gaps, up to a constant."""
        return -0.5 * self.precision * float(((gaps - self.mean) ** 2).sum())


def log_gaps(cutpoints: NDArray[Any]) -> Floats:
    """Return (number - 1) the logarithms of the gaps between cutpoints (1, number)."""
    return np.asarray(np.log(np.diff(cutpoints[0].astype(np.float64))))
