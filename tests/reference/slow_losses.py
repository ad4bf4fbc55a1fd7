"""The formulas of the losses. A loss maps a label and the C scores to a number; slopes are computed by complex step.

Depending on the loss, labels are real numbers, -1 or +1, or class ids 0..C-1. If a formula has branches, the real part
of the score selects one, and the complex step differentiates that branch. At a kink, the definition says which branch
applies.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr, ndtr, ndtri

from reference.kinds import Number
from reference.slow_models import COMPLEX_STEP

Loss = Callable[[float, np.ndarray], Number]


def log1p_exp(a: Number) -> Number:
    """log(1 + e^a) without overflow."""
    return a + np.log1p(np.exp(-a)) if np.real(a) > 0 else np.log1p(np.exp(a))


def squared(y: float, scores: np.ndarray) -> Number:
    return (y - scores[0]) ** 2 / 2


def logistic(y: float, scores: np.ndarray) -> Number:
    return log1p_exp(-y * scores[0])


def probit(y: float, scores: np.ndarray) -> Number:
    return -log_ndtr(y * scores[0])


def soft_logistic(y: float, scores: np.ndarray) -> Number:
    """The logistic loss of a coin that shows +1 with probability y."""
    return y * logistic(1, scores) + (1 - y) * logistic(-1, scores)


def hinge(y: float, scores: np.ndarray) -> Number:
    return 1 - y * scores[0] if np.real(y * scores[0]) < 1 else 0.0


def squared_hinge(y: float, scores: np.ndarray) -> Number:
    return hinge(y, scores) ** 2


def huber(y: float, scores: np.ndarray, delta: float = 1.0) -> Number:
    r = scores[0] - y
    if abs(np.real(r)) <= delta:
        return r**2 / 2
    return delta * (np.sign(np.real(r)) * r - delta / 2)


def poisson(y: float, scores: np.ndarray) -> Number:
    return np.exp(scores[0]) - y * scores[0]


def bpr(y: float, scores: np.ndarray) -> Number:
    """The logistic loss of the difference of two scores; the label y only tells which of the two comes first."""
    return log1p_exp(-scores[0])


def softmax(y: float, scores: np.ndarray) -> Number:
    """-log softmax(scores)_y; y is a class id."""
    largest = np.max(np.real(scores))
    return largest + np.log(np.sum(np.exp(scores - largest))) - scores[int(y)]


def ordinal(y: float, scores: np.ndarray) -> Number:
    """-log(Phi(high) - Phi(low)) of the scores minus the cutpoints below and above the level y."""
    high, low = [np.inf, *scores, -np.inf][int(y) : int(y) + 2]
    if np.real(high) + np.real(low) < 0:
        high, low = -low, -high
    if np.real(high) == np.inf:
        return -log_ndtr(-low)
    return -log_ndtr(-low) - np.log(1 - np.exp(log_ndtr(-high) - log_ndtr(-low)))


LOSSES: dict[str, Loss] = {
    "squared": squared,
    "logistic": logistic,
    "probit": probit,
    "soft-logistic": soft_logistic,
    "squared-hinge": squared_hinge,
    "hinge": hinge,
    "huber": huber,
    "poisson": poisson,
    "softmax": softmax,
    "bpr": bpr,
    "ordinal": ordinal,
}

# The probability of +1 as a function of the score, by loss.
PROBABILITY: dict[str, Callable[[float], float]] = {"logistic": expit, "probit": ndtr}
# κ, the maximum of the second derivative by one score. Hinge has no second derivative; poisson's is unbounded.
SMOOTHNESS = {
    "squared": 1.0,
    "logistic": 0.25,
    "probit": 1.0,
    "soft-logistic": 0.25,
    "squared-hinge": 2.0,
    "huber": 1.0,
    "softmax": 0.25,
    "bpr": 0.25,
}
# Losses whose bias starts from 0 instead of from the constant with the least loss.
FROM_ZERO = ("hinge", "squared-hinge", "bpr")


def slopes(loss: Loss, y: float, scores: np.ndarray) -> np.ndarray:
    """Return the C derivatives of the loss, one by each score."""
    steps = np.eye(len(scores)) * COMPLEX_STEP * 1j
    return np.array([np.imag(loss(y, scores + step)) / COMPLEX_STEP for step in steps])


def best_constants(
    name: str, labels: np.ndarray, weights: np.ndarray | None = None, outputs: int = 1, delta: float = 1.0
) -> np.ndarray:
    """Return the C start values of the bias: the optimal constant scores, which use no features.

    Softmax has many equally good constants; the log frequencies are used. If there is no closed form, the constant is
    the root of the mean slope, which is an increasing function of the constant.
    """
    y = np.asarray(labels, dtype=float)
    s = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    if name in FROM_ZERO:
        return np.zeros(outputs)
    if name == "softmax":
        return np.log([s[y == c].sum() / s.sum() for c in range(outputs)])
    if name == "logistic":
        return np.array([np.log(s[y > 0].sum() / s[y < 0].sum())])
    if name == "ordinal":
        return np.array([ndtri(s[y > level].sum() / s.sum()) for level in range(outputs)])
    if name == "probit":
        return np.array([ndtri(s[y > 0].sum() / s.sum())])
    if name == "soft-logistic":
        return np.array([np.log(np.sum(s * y) / np.sum(s * (1 - y)))])
    if name == "poisson":
        return np.array([np.log(np.sum(s * y) / np.sum(s))])
    loss = partial(huber, delta=delta) if name == "huber" else LOSSES[name]

    def mean_slope(constant: float) -> float:
        return float(
            sum(weight * slopes(loss, label, np.array([constant]))[0] for label, weight in zip(y, s, strict=True))
        )

    return np.array([brentq(mean_slope, y.min() - 1, y.max() + 1, xtol=1e-13)])
