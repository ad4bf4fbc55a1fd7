"""Links: the meaning of a loss's scores, and the average of predictions over draws of the parameters. A loss names its
link in the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmcli.records import dataclass

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Average:
    """How predictions are averaged.

    terms : returns the arrays that are added up over draws, given scores (rows, outputs), of the same shape.
    add : adds two arrays.
    score : returns the scores that predict the means, given the sums and the number of draws.
    prediction : returns the predictions, given the last term.
    count : the number of terms.
    """

    terms: Callable[[Floats], list[Floats]]
    add: np.ufunc
    score: Callable[[Sequence[Floats], int], Floats]
    prediction: Callable[[Floats], Floats]
    count: int = 1


@dataclass(frozen=True)
class Link:
    """The meaning of scores (rows, outputs).

    prediction : returns the predictions (rows, columns): numbers, or the probability of the positive label, or of each
        class.
    average : how predictions are averaged.
    probable : whether predictions are probabilities.
    threshold : the score above which the positive one of two labels is predicted.
    number : returns the predicted number (rows, 1), if labels are both classes and numbers.
    inverse : returns the scores of probabilities of the positive one of two labels; None: there are none.
    """

    prediction: Callable[[Floats], Floats]
    average: Average
    probable: bool = False
    threshold: float = 0.0
    number: Callable[[Floats], Floats] | None = None
    inverse: Callable[[Floats], Floats] | None = None


def of_probability(prediction: Callable[[Floats], Floats], inverse: Callable[[Floats], Floats]) -> Link:
    """Return the link of a loss for two label values whose score is a function of the larger label's probability.

    prediction : the probabilities of scores.
    inverse : the scores of probabilities.
    """
    average = Average(
        lambda score: [prediction(score)], np.add, lambda sums, count: inverse(sums[0] / count), unchanged
    )
    return Link(prediction, average, probable=True, threshold=float(inverse(np.array(0.5))), inverse=inverse)


def unchanged(numbers: Floats) -> Floats:
    """Return the argument."""
    return numbers


def expit(score: Floats) -> Floats:
    """Return 1 / (1 + exp(-score)), without overflow."""
    small = np.exp(-np.abs(score))
    return np.where(score >= 0, 1.0, small) / (1.0 + small)


def odds(probability: Floats) -> Floats:
    """Return log(p / (1 - p))."""
    return np.asarray(np.log(probability) - np.log1p(-probability))


def normal(score: Floats) -> Floats:
    """Return the distribution function of the standard normal distribution."""
    from scipy.special import ndtr

    return np.asarray(ndtr(score))


def exponentials(score: Floats) -> Floats:
    """Return exp(score); inf is a valid result."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(score))


def class_probabilities(score: Floats) -> Floats:
    """Return the softmax of each row; NaN if the largest score is infinite or a score is NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        powers: Floats = np.exp(score - score.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def level_probabilities(score: Floats) -> Floats:
    """Return the probabilities of ordered labels (rows, levels), from scores minus the cutpoints (rows, levels - 1). An
    infinite score gives the first or the last label probability 1."""
    above = np.pad(score, ((0, 0), (1, 1)), constant_values=((0, 0), (np.inf, -np.inf)))
    high, low = above[:, :-1], above[:, 1:]
    with np.errstate(invalid="ignore"):  # if a score is infinite
        flipped = high + low < 0  # use the smaller tails, so small probabilities keep their digits
    high, low = np.where(flipped, -low, high), np.where(flipped, -high, low)
    return normal(-low) - normal(-high)


def both_normal(score: Floats) -> list[Floats]:
    """Return the probabilities of both labels under probit. Small ones keep their digits."""
    return [normal(-score), normal(score)]


def normal_score(sums: Sequence[Floats], count: int) -> Floats:
    """Return the score with these mean probabilities of both labels under probit."""
    from scipy.special import ndtri

    negative, positive = (total / count for total in sums)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(positive < negative, ndtri(positive), -ndtri(negative)))


def from_logarithms(sums: Sequence[Floats], count: int) -> Floats:
    """Return the logarithm of a mean, from the logarithm of the sum."""
    return np.asarray(sums[0] - np.log(count))


SCORES = Link(unchanged, Average(lambda score: [score], np.add, lambda sums, count: sums[0] / count, unchanged))
# Sums of probabilities and of predicted counts are kept as logarithms, which neither overflow nor vanish.
LOGIT = Link(
    expit,
    Average(
        lambda score: [-np.logaddexp(0, score), -np.logaddexp(0, -score)],
        np.logaddexp,
        lambda sums, count: sums[1] - sums[0],
        np.exp,
        count=2,
    ),
    probable=True,
    inverse=odds,
)
PROBIT = Link(
    normal,
    Average(both_normal, np.add, normal_score, unchanged, count=2),
    probable=True,
    inverse=lambda probability: normal_score([1 - probability, probability], 1),
)
LOG = Link(exponentials, Average(lambda score: [score], np.logaddexp, from_logarithms, np.exp))
SOFTMAX = Link(
    class_probabilities,
    replace(LOG.average, terms=lambda score: [score - np.logaddexp.reduce(score, axis=1, keepdims=True)]),
    probable=True,
)
# The mean level is the sum of the probabilities of lying above each cutpoint.
CUTPOINTS = Link(
    level_probabilities,
    replace(PROBIT.average, prediction=lambda above: above.sum(axis=1, keepdims=True)),
    probable=True,
    number=lambda score: normal(score).sum(axis=1, keepdims=True),
)
