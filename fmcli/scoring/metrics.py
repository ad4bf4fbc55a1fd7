"""The metrics that a model is judged by, computed from labels, raw scores and weights.

A metric that the data leave undefined is nan, never an error: the auc where one of the two classes is absent, r2 where
all labels are the same number, every metric where no row has weight or where a score is not finite. Nothing here
depends on the number of threads: sums run in the order of the rows, equal scores included, and no BLAS is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import UsageError
from fmcli.names import find_name
from fmcli.registry.losses import LOSSES

Floats = NDArray[np.float64]
# The smallest and the largest prediction of a number.
Range = tuple[float, float]

# A probability below this counts as this much: one confident error must not make the logloss infinite.
SMALLEST_PROBABILITY = 1e-15

# The tasks of losses (registry/losses.py) that metrics understand: numbers and counts, two values, classes.
NUMBERS, BINARY, CLASSES = ("real", "counts"), ("binary",), ("classes",)
# The losses whose scores give probabilities.
PROBABLE = ("logistic", "softmax")

# What is measured unless asked otherwise, by task, and by loss where that knows better; early stopping watches the
# first. Hinge losses give no probabilities.
USUAL = {
    "real": ("rmse", "mae"),
    "counts": ("rmse", "mae"),
    "binary": ("accuracy", "auc"),
    "classes": ("accuracy", "macro-f1"),
}
OWN = {"huber": ("mae", "rmse"), "logistic": ("logloss", "auc"), "softmax": ("logloss", "accuracy")}


class ClassWeights(NamedTuple):
    """Weight of rows by class, each array (classes): all classes that are some row's label or prediction."""

    correct: Floats  # of rows labelled and predicted so
    labelled: Floats
    predicted: Floats


class Ranking(NamedTuple):
    """Weight of the rows of each score that occurs, each array (scores), in increasing order of scores."""

    positive: Floats  # of rows labelled +1
    negative: Floats


# Arrays as large as the scores that measuring holds at a time, and as large as the labels; those of AUC are the most.
SCORES, COLUMNS = 3, 12


class Outcome:
    """What a model made of labelled rows; what several metrics need of it is computed once.

    Parameters
    ----------
    loss : name of the loss that the model was trained with; it says what labels and scores mean.
    label : (rows): real numbers; -1 and +1; or classes 0 .. outputs - 1.
    score : (rows, outputs), raw scores; with `predicted` what they predict: probabilities of +1 or of each class, or
        numbers.
    weight : (rows), not negative; None: all 1. A row of weight 0 is left out altogether, as in training.
    clip : the range of predictions of numbers.
    """

    def __init__(
        self,
        loss: str,
        label: Floats,
        score: Floats,
        weight: Floats | None = None,
        *,
        predicted: bool = False,
        clip: Range | None = None,
    ):
        if weight is None:
            weight = np.ones(len(label))
        elif not weight.all():
            kept = weight != 0
            label, score, weight = label[kept], score[kept], weight[kept]
        self.loss, self.task = loss, LOSSES[loss].task
        self.label = label
        self.score = score
        self.weight = weight
        self.probable = predicted and loss in PROBABLE
        self.predicted = predicted
        self.clip = clip

    @staticmethod
    def bytes_needed(rows: int, outputs: int) -> int:
        """Bytes of labels, weights and scores, and of what metrics make of them: probabilities, and rows by score."""
        return np.dtype(np.float64).itemsize * rows * (SCORES * outputs + COLUMNS)

    @property
    def usable(self) -> bool:
        """Whether there are rows, and all scores are finite."""
        return len(self.label) > 0 and bool(np.isfinite(self.score).all())

    def mean(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
        """Weighted mean over the rows."""
        return float((self.weight * values).sum() / self.weight.sum())

    @cached_property
    def error(self) -> Floats:
        """(rows) prediction - label, for labels that are numbers."""
        score = self.score[:, 0]
        return (score if self.predicted else predicted_numbers(self.loss, score, self.clip)) - self.label

    @cached_property
    def class_label(self) -> NDArray[np.intp]:
        """(rows) class of each row; of two label values -1 is class 0 and +1 is class 1."""
        return (self.label > 0 if self.task in BINARY else self.label).astype(np.intp)

    @cached_property
    def class_predicted(self) -> NDArray[np.intp]:
        """(rows) class of the highest score, the lowest one on ties; of two label values +1 where the score is > 0."""
        if self.task in BINARY:
            return (self.score[:, 0] > (0.5 if self.probable else 0.0)).astype(np.intp)
        highest: NDArray[np.intp] = self.score.argmax(axis=1)
        return highest

    @cached_property
    def probability(self) -> Floats:
        """(rows, outputs) of +1, or of each class."""
        if self.probable:
            return self.score
        return probability(self.score) if self.task in BINARY else class_probabilities(self.score)

    @cached_property
    def ranking(self) -> Ranking:
        """Rows of +1 and of -1 by score."""
        score = self.score[:, 0]
        order = np.argsort(score, kind="stable")
        score = score[order]
        starts = np.flatnonzero(np.concatenate(([True], score[1:] != score[:-1])))
        weight = self.weight[order]
        is_positive = self.label[order] > 0
        positive = np.add.reduceat(np.where(is_positive, weight, 0.0), starts)
        negative = np.add.reduceat(np.where(is_positive, 0.0, weight), starts)
        return Ranking(positive, negative)

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """(rows) whether the predicted class is the label."""
        return np.equal(self.class_label, self.class_predicted)

    @cached_property
    def class_weights(self) -> ClassWeights:
        """How much was labelled and predicted as what."""
        classes = max(2, self.score.shape[1])  # one score tells two classes apart

        def total(of: NDArray[np.intp], weight: Floats) -> Floats:
            return np.asarray(np.bincount(of, weight, classes), np.float64)

        labelled = total(self.class_label, self.weight)
        predicted = total(self.class_predicted, self.weight)
        correct = total(self.class_label, self.weight * self.correct)
        present = (labelled > 0) | (predicted > 0)
        return ClassWeights(correct[present], labelled[present], predicted[present])


def predicted_numbers(loss: str, score: Floats, clip: Range | None = None) -> Floats:
    """What scores predict where labels are numbers: themselves, within a range, or for counts their exponentials."""
    if clip:
        return np.clip(score, *clip)
    if LOSSES[loss].task != "counts":
        return score
    with np.errstate(over="ignore"):  # inf is what is reported
        return np.asarray(np.exp(score))


def logloss(outcome: Outcome) -> float:
    """Mean of -log(probability of the label)."""
    if outcome.probable:
        with np.errstate(divide="ignore"):
            losses = -np.log(own_probability(outcome))
    elif outcome.loss == "logistic":
        losses = np.logaddexp(0.0, -outcome.label * outcome.score[:, 0])
    else:
        below = outcome.score - outcome.score.max(axis=1, keepdims=True)
        own = np.take_along_axis(below, outcome.class_label[:, None], axis=1)[:, 0]
        losses = np.log(np.exp(below).sum(axis=1)) - own
    return outcome.mean(np.minimum(losses, -math.log(SMALLEST_PROBABILITY)))


def auc(outcome: Outcome) -> float:
    """Share of the pairs of a +1 and a -1 in which the +1 has the higher score; a tie counts half."""
    positive, negative = outcome.ranking
    up_to = np.cumsum(negative)
    pairs = positive.sum() * up_to[-1]
    if pairs == 0:
        return math.nan
    won = (positive * (up_to - 0.5 * negative)).sum()
    return min(1.0, float(won / pairs))  # rounding of the weights' sums may lift it above 1


def pr_auc(outcome: Outcome) -> float:
    """Average precision: the mean over the +1 of the precision among the rows with their score or a higher one."""
    positive, negative = outcome.ranking
    found = np.cumsum(positive[::-1])
    if found[-1] == 0:
        return math.nan
    precision = found / (found + np.cumsum(negative[::-1]))
    return min(1.0, float((positive[::-1] * precision).sum() / found[-1]))  # lifted above 1 as the auc may be


def own_probability(outcome: Outcome) -> Floats:
    """(rows) probability of each row's label."""
    probability = outcome.probability
    if outcome.task in BINARY:
        return np.where(outcome.label > 0, probability[:, 0], 1.0 - probability[:, 0])
    return np.take_along_axis(probability, outcome.class_label[:, None], axis=1)[:, 0]


def brier(outcome: Outcome) -> float:
    """Mean squared error of the probability of +1; of classes, summed over all of them."""
    if outcome.task in BINARY:
        return outcome.mean((outcome.probability[:, 0] - (outcome.label > 0)) ** 2)
    own = own_probability(outcome)
    squares = (outcome.probability**2).sum(axis=1)
    return outcome.mean(squares - own**2 + (1.0 - own) ** 2)


def accuracy(outcome: Outcome) -> float:
    """Share of the rows whose predicted class is the label."""
    return outcome.mean(outcome.correct)


def rmse(outcome: Outcome) -> float:
    """Root of the mean squared error."""
    return math.sqrt(outcome.mean(outcome.error**2))


def mae(outcome: Outcome) -> float:
    """Mean absolute error."""
    return outcome.mean(np.abs(outcome.error))


def r2(outcome: Outcome) -> float:
    """1 - squared error / squared error of the labels' mean."""
    label = outcome.label - outcome.label[0]  # exactly 0 everywhere if all are the same
    variance = outcome.mean((label - outcome.mean(label)) ** 2)
    return 1.0 - outcome.mean(outcome.error**2) / variance if variance > 0 else math.nan


def macro_f1(outcome: Outcome) -> float:
    """Mean over the classes of F1 = 2 correct / (labelled + predicted)."""
    correct, labelled, predicted = outcome.class_weights
    return float((2.0 * correct / (labelled + predicted)).mean())


def macro_f1_pr(outcome: Outcome) -> float:
    """2PR / (P + R), P and R the means over the classes of precision and recall, which are 0 where undefined."""
    correct, labelled, predicted = outcome.class_weights
    precision = _ratio(correct, predicted).mean()
    recall = _ratio(correct, labelled).mean()
    return float(2.0 * precision * recall / (precision + recall)) if correct.any() else 0.0


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def probability(score: Floats) -> Floats:
    """1 / (1 + exp(-score)) without overflow."""
    small = np.exp(-np.abs(score))
    return np.where(score >= 0, 1.0, small) / (1.0 + small)


def class_probabilities(score: Floats) -> Floats:
    """softmax of each row; nan where the largest score is infinite, or one is nan."""
    with np.errstate(over="ignore", invalid="ignore"):
        powers: Floats = np.exp(score - score.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


@dataclass(frozen=True)
class Metric:
    """A number that says how good predictions are, and the tasks whose scores and labels it understands."""

    name: str
    help: str
    larger_is_better: bool
    tasks: tuple[str, ...]
    compute: Callable[[Outcome], float]
    of_probabilities: bool = False

    def fits(self, loss: str) -> bool:
        """Whether it can be computed for models of a loss."""
        return LOSSES[loss].task in self.tasks and (loss in PROBABLE or not self.of_probabilities)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("logloss", "Mean negative log of the label's probability.", False, BINARY + CLASSES, logloss, True),
        Metric("auc", "Area under the ROC curve.", True, BINARY, auc),
        Metric("pr-auc", "Average precision: area under the precision-recall curve.", True, BINARY, pr_auc),
        Metric("brier", "Mean squared error of the probabilities.", False, BINARY + CLASSES, brier, True),
        Metric("accuracy", "Share of rows predicted right.", True, BINARY + CLASSES, accuracy),
        Metric("rmse", "Root of the mean squared error.", False, NUMBERS, rmse),
        Metric("mae", "Mean absolute error.", False, NUMBERS, mae),
        Metric("r2", "Share of the labels' variance that is explained.", True, NUMBERS, r2),
        # A row has one label and one prediction, so that F1 over all decisions at once is the accuracy.
        Metric("micro-f1", "F1 over all rows: the accuracy.", True, BINARY + CLASSES, accuracy),
        Metric("macro-f1", "Mean of the classes' F1.", True, BINARY + CLASSES, macro_f1),
        Metric("macro-f1-pr", "F1 of macro precision and macro recall.", True, BINARY + CLASSES, macro_f1_pr),
    )
}


def default_metrics(loss: str) -> tuple[str, ...]:
    """What is measured for a loss unless asked otherwise; early stopping watches the first."""
    return OWN.get(loss) or USUAL[LOSSES[loss].task]


def allowed(loss: str) -> tuple[str, ...]:
    """Names of the metrics that fit a loss."""
    return tuple(metric.name for metric in METRICS.values() if metric.fits(loss))


def check(names: Iterable[str], loss: str | None) -> None:
    """UsageError for a metric that does not exist or does not fit the loss, naming those that do.

    While the loss is yet to be chosen by the labels (None) only the names are checked.
    """
    for name in names:
        find_name("metric", name, METRICS)
        if loss is not None and not METRICS[name].fits(loss):
            raise UsageError(f"metric {name} does not fit loss {loss}; those that fit are: {', '.join(allowed(loss))}")


def measure(names: Iterable[str], outcome: Outcome) -> dict[str, float]:
    """Values by name, in the order of the names, which must fit the outcome's loss; nan where undefined."""
    if not outcome.usable:
        return dict.fromkeys(names, math.nan)
    with np.errstate(over="ignore", invalid="ignore"):  # huge errors become inf, and that is what is reported
        return {name: METRICS[name].compute(outcome) for name in names}
