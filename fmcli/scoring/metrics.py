"""Metrics of the quality of predictions, computed from labels, raw scores and weights.

An undefined metric is NaN, never an error: auc if one of the two classes is absent, r2 if all labels are equal, group
metrics if no group defines them, and every metric if all weights are 0 or a score is not finite. The results do not
depend on the number of threads: sums are computed in the order of the rows, even for equal scores, and no BLAS is
called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import ONE, LabelUnit
from fmcli.base.scan import all_finite
from fmcli.data.labels import Relevance
from fmcli.errors import UsageError
from fmcli.losses.links import Floats, Link
from fmcli.losses.loss import Loss, Ordinal, SoftLogistic
from fmcli.names import find_name
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.registry.synonyms import other_name
from fmcli.scoring.lists import LIST_METRICS, list_metric
from fmcli.scoring.ranking import (
    OfGroups,
    RankedRows,
    group_auc,
    hit,
    mean_average_precision,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from fmcli.scoring.rows import row_losses
from fmcli.scoring.scores import merged_counts, partition
from fmcli.scoring.statistics import ClassWeights, GroupedRows, Ranking, Residuals, Sums
from fmcli.system.parallel import in_parallel

# The lower and the upper limit of predicted numbers.
Range = tuple[float, float]

# Smaller probabilities are replaced by this one, so a single confident error does not make the logloss infinite.
SMALLEST_PROBABILITY = 1e-15

# The tasks of losses, as registry/losses.py names them: numbers and counts, two label values, soft labels, classes.
NUMBERS, BINARY, SOFT, CLASSES = ("real", "counts", "soft", "levels"), ("binary",), ("soft",), ("classes", "levels")
LEVELS = ("levels",)
# Tasks whose labels have an order. Levels are both numbers and classes.
ORDERED = (*NUMBERS, *BINARY, "order")


# The largest number of arrays of the size of the scores, and of the labels, in use at a time; the AUC needs most.
SCORES, COLUMNS = 3, 12
# The K of metrics of the first K places when all metrics are listed.
PLACES = 10
# With fewer rows, starting a thread takes longer than it saves.
ROWS_FOR_THREADS = 100_000


class Outcome:
    """Labels and scores of rows. Values that several metrics need are computed once.

    Parameters
    ----------
    loss : the name of the loss that the model was trained with; it determines the meaning of labels and scores.
    label : (rows), real numbers; -1 and +1; or classes 0 .. outputs - 1.
    score : (rows, outputs), raw scores; with `predicted`, predictions: probabilities of +1 or of each class, or
        numbers.
    weight : (rows), not negative; None: all 1. Rows with weight 0 are ignored, as in training.
    clip : the range to which predicted numbers are clipped.
    group : (rows) integers; rows with the same number form a group. None: there are no groups.
    relevance : which rows are relevant in rankings.
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
        group: NDArray[np.integer] | None = None,
        relevance: Relevance = Relevance(),  # noqa: B008
    ):
        if weight is not None and not weight.all():
            kept = weight != 0
            label, score, weight = label[kept], score[kept], weight[kept]
            group = None if group is None else group[kept]
        self.loss, self.task = loss, LOSSES[loss].task
        self.is_logloss = self.task in BINARY and LOSSES[loss].likelihood
        self.label: Floats = np.asarray(label, dtype=np.float64)
        self.score = score
        self._weight = weight
        self.predicted, self.probable = predicted, predicted and self.link.probable
        self.clip = clip
        self.group, self.relevance = group, relevance
        self._losses: Floats | None = None

    def take(self, kept: NDArray[np.bool_]) -> Outcome:
        """Return the outcome of the rows with `kept` set."""
        return Outcome(
            self.loss,
            self.label[kept],
            self.score[kept],
            None if self._weight is None else self._weight[kept],
            predicted=self.predicted,
            clip=self.clip,
            group=None if self.group is None else self.group[kept],
            relevance=self.relevance,
        )

    @staticmethod
    def concatenated(outcomes: Sequence[Outcome]) -> Outcome:
        """Concatenate outcomes of models with the same loss. Rows of different outcomes are in different groups."""
        first, groups, count = outcomes[0], list[NDArray[np.integer]](), 0
        for one in outcomes:
            if one.group is not None:
                groups.append(count + np.unique(one.group, return_inverse=True)[1])
                count = int(groups[-1].max(initial=count - 1)) + 1
        weighted = any(one._weight is not None for one in outcomes)
        return Outcome(
            first.loss,
            np.concatenate([one.label for one in outcomes]),
            np.concatenate([one.score for one in outcomes]),
            np.concatenate([one.weight for one in outcomes]) if weighted else None,
            predicted=first.predicted,
            clip=first.clip,
            group=np.concatenate(groups) if groups else None,
            relevance=first.relevance,
        )

    @staticmethod
    def bytes_needed(rows: int, outputs: int) -> int:
        """Return the size in bytes of labels, weights and scores, and of the arrays that the metrics compute from
        them."""
        return np.dtype(np.float64).itemsize * rows * (SCORES * outputs + COLUMNS)

    @cached_property
    def link(self) -> Link:
        """The meaning of scores."""
        return LOSSES[self.loss].load_link()

    @property
    def usable(self) -> bool:
        """Whether there are rows, and all scores are finite."""
        return len(self.label) > 0 and all_finite(self.score)

    def mean(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
        """Return the weighted mean over the rows."""
        return self.sums(values).mean()

    def sums(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> Sums:
        """Return the weighted sum of values (rows), and the sum of the weights."""
        if self._weight is None:
            return Sums(float(values.sum()), float(len(values)))
        return Sums(float((self.weight * values).sum()), float(self.weight.sum()))

    @cached_property
    def weight(self) -> Floats:
        """(rows) the weights."""
        return np.ones(len(self.label)) if self._weight is None else self._weight

    def losses(self, loss: Loss, unit: LabelUnit = ONE) -> Floats:
        """Return (rows) the values of the loss, with labels in this unit. The logloss is kept and computed only
        once."""
        if not self.is_logloss:
            return row_losses(loss, unit.of(self.label), unit.of(self.score))
        if self._losses is None:
            self._losses = row_losses(loss, self.label, self.score)
        return self._losses

    @cached_property
    def error(self) -> Floats:
        """(rows) prediction - label, if labels are numbers."""
        number = self.score if self.predicted else predicted_numbers(self.loss, self.score, self.clip)
        return number[:, 0] - self.label

    @cached_property
    def class_label(self) -> NDArray[np.intp]:
        """(rows) the class of each row; for two label values, -1 is class 0 and +1 is class 1."""
        return (self.label > 0 if self.task in BINARY else self.label).astype(np.intp)

    @cached_property
    def class_predicted(self) -> NDArray[np.intp]:
        """(rows) the class with the highest score, the first one on ties; for two label values, +1 if the score is
        above the link's threshold."""
        if self.task in BINARY:
            return (self.score[:, 0] > (0.5 if self.probable else self.link.threshold)).astype(np.intp)
        likely = self.probability if self.task in LEVELS else self.score
        highest: NDArray[np.intp] = likely.argmax(axis=1)
        return highest

    @cached_property
    def probability(self) -> Floats:
        """(rows, outputs) the probability of +1, or of each class."""
        if self.probable:
            return self.score
        return probabilities(self.loss, self.score)

    @cached_property
    def ranking(self) -> Ranking:
        """The rows with label +1 and the rows with label -1, by score."""
        score = self.score[:, 0]
        if self._weight is None:
            return self._counted_ranking(np.ascontiguousarray(score))
        is_positive = self.label > 0
        positive, negative = np.where(is_positive, self.weight, 0.0), np.where(is_positive, 0.0, self.weight)
        return Ranking.of(score, positive, negative)

    def _counted_ranking(self, score: Floats) -> Ranking:
        """Return the ranking if all weights are 1: the scores of both labels are sorted separately and merged."""
        both = np.empty(len(score))
        cut = partition(self.label, score, both)
        sides = [both[:cut], both[cut:]]
        for side in sides:
            side.sort()
        columns = np.zeros((3, len(score)))
        distinct = merged_counts(*sides, *columns)
        return Ranking(*columns[:, :distinct])

    @cached_property
    def grouped(self) -> GroupedRows:
        """The labels and scores of the rows with their groups."""
        return GroupedRows(self.label, self.score[:, 0], self.group, self.relevance)

    @property
    def residuals(self) -> Residuals:
        """The sums of squares that r2 compares."""
        first = float(self.label[0])
        label = self.label - first  # exactly 0 if all labels are the same
        mean, errors = self.mean(label), self.sums(self.error**2)
        return Residuals(errors.weight, first + mean, self.sums((label - mean) ** 2).total, errors.total)

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """(rows) whether the predicted class is the label's class."""
        return np.equal(self.class_label, self.class_predicted)

    @cached_property
    def class_weights(self) -> ClassWeights:
        """The weight of the rows by label and prediction."""
        classes = max(2, self.score.shape[1] + (self.task in LEVELS))  # a model of two classes has a single score

        def total(of: NDArray[np.intp], weight: Floats) -> Floats:
            return np.asarray(np.bincount(of, weight, classes), np.float64)

        correct = total(self.class_label, self.weight * self.correct)
        return ClassWeights(correct, total(self.class_label, self.weight), total(self.class_predicted, self.weight))


def predicted_numbers(loss: str, score: Floats, clip: Range | None = None) -> Floats:
    """Return (rows, 1) predicted numbers: scores, clipped to a range; for counts the exponentials of scores; for soft
    labels probabilities; for levels the mean level."""
    if clip:
        return np.clip(score, *clip)
    link = LOSSES[loss].load_link()
    return (link.number or link.prediction)(score)


def log_losses(outcome: Outcome) -> Floats:
    """Return (rows) -log(probability of the label)."""
    if outcome.task in SOFT:
        odds = outcome.score[:, 0]
        if outcome.probable:
            with np.errstate(divide="ignore"):
                odds = np.log(odds) - np.log1p(-odds)
        largest = -math.log(SMALLEST_PROBABILITY)
        return row_losses(SoftLogistic(), outcome.label, np.clip(odds, -largest, largest)[:, None])
    if outcome.probable or (outcome.task in BINARY and not outcome.is_logloss):
        with np.errstate(divide="ignore"):
            losses = -np.log(label_probability(outcome))
    elif outcome.is_logloss:
        losses = outcome.losses(LOSSES[outcome.loss].load()())
    elif outcome.task in LEVELS:
        losses = row_losses(Ordinal(outputs=outcome.score.shape[1]), outcome.label, outcome.score)
    else:
        below = outcome.score - outcome.score.max(axis=1, keepdims=True)
        of_label = np.take_along_axis(below, outcome.class_label[:, None], axis=1)[:, 0]
        losses = np.log(np.exp(below).sum(axis=1)) - of_label
    return np.minimum(losses, -math.log(SMALLEST_PROBABILITY))


def auc(ranking: Ranking) -> float:
    """Return the share of pairs of a +1 row and a -1 row in which the +1 row has the higher score; a tie counts 1/2."""
    positive, negative = ranking.positive, ranking.negative
    up_to = negative.cumsum()
    pairs = positive.sum() * up_to[-1]
    if pairs == 0:
        return math.nan
    won = (positive * (up_to - 0.5 * negative)).sum()
    return min(1.0, float(won / pairs))  # rounding may make it exceed 1


def pr_auc(ranking: Ranking) -> float:
    """Return the average precision: the mean, over the +1 rows, of the precision among rows with at least their
    score."""
    positive, negative = ranking.positive, ranking.negative
    found = np.cumsum(positive[::-1])
    if found[-1] == 0:
        return math.nan
    precision = found / (found + np.cumsum(negative[::-1]))
    return min(1.0, float((positive[::-1] * precision).sum() / found[-1]))  # as in auc


def label_probability(outcome: Outcome) -> Floats:
    """Return (rows) the probability of each row's label."""
    probability = outcome.probability
    if outcome.task in BINARY:
        return np.where(outcome.label > 0, probability[:, 0], 1.0 - probability[:, 0])
    return np.take_along_axis(probability, outcome.class_label[:, None], axis=1)[:, 0]


def squared_distances(outcome: Outcome) -> Floats:
    """Return (rows) the squared error of the probability of +1; for classes, the sum over all classes."""
    if outcome.task in BINARY:
        return (outcome.probability[:, 0] - (outcome.label > 0)) ** 2
    of_label = label_probability(outcome)
    squares = (outcome.probability**2).sum(axis=1)
    distances: Floats = squares - of_label**2 + (1.0 - of_label) ** 2
    return distances


# Functions with names, by which workers of a cluster send them: a lambda arrives as another function.


def correct_rows(outcome: Outcome) -> NDArray[np.bool_]:
    """Return (rows) whether the predicted class is the label's class."""
    return outcome.correct


def squared_errors(outcome: Outcome) -> Floats:
    """Return (rows) the squared errors."""
    return outcome.error**2


def absolute_errors(outcome: Outcome) -> Floats:
    """Return (rows) the absolute errors."""
    return np.abs(outcome.error)


def r2(sums: Residuals) -> float:
    """Return 1 - squared error / squared error of the mean label."""
    variance = sums.squares / sums.weight
    return 1.0 - sums.errors / sums.weight / variance if variance > 0 else math.nan


def macro_f1(weights: ClassWeights) -> float:
    """Return the mean over the classes of F1 = 2 correct / (labeled + predicted)."""
    correct, labeled, predicted = weights.present()
    return float((2.0 * correct / (labeled + predicted)).mean())


def macro_f1_pr(weights: ClassWeights) -> float:
    """Return 2PR / (P + R), with the means over the classes of precision P and recall R, which are 0 where
    undefined."""
    correct, labeled, predicted = weights.present()
    precision = _ratio(correct, predicted).mean()
    recall = _ratio(correct, labeled).mean()
    return float(2.0 * precision * recall / (precision + recall)) if correct.any() else 0.0


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def in_groups(of_groups: Callable[[RankedRows], OfGroups]) -> Callable[[GroupedRows], float]:
    """Return a function of grouped rows: the mean of a group metric; NaN without groups."""
    return lambda rows: math.nan if rows.ranked is None else of_groups(rows.ranked).mean()


def probabilities(loss: str, score: Floats) -> Floats:
    """Return (rows, columns) the probability of the larger label, or of each class, if the loss has probabilities."""
    return LOSSES[loss].load_link().prediction(score)


@dataclass(frozen=True)
class Statistic:
    """A statistic of rows, from which metrics are computed.

    name : the attribute of Outcome that holds it.
    part : its class, whose method `combined` takes the statistic of the following rows and returns the statistic of
        both parts. None: statistics of parts do not combine, as for a median.
    """

    name: str
    part: type | None = None

    def of(self, outcome: Outcome) -> Any:
        """Return the statistic of some rows."""
        return getattr(outcome, self.name)


@dataclass(frozen=True)
class RowMean:
    """The statistic of metrics that are a mean over rows, or a function of such a mean.

    of_rows : returns the value of each row.
    """

    of_rows: Callable[[Outcome], NDArray[np.float64] | NDArray[np.bool_]]
    part = Sums

    def of(self, outcome: Outcome) -> Sums:
        """Return the sum of the values."""
        return outcome.sums(self.of_rows(outcome))


BY_SCORE, BY_CLASS = Statistic("ranking", Ranking), Statistic("class_weights", ClassWeights)
BY_GROUP, VARIANCES = Statistic("grouped", GroupedRows), Statistic("residuals", Residuals)
CORRECT, SQUARED, ABSOLUTE = RowMean(correct_rows), RowMean(squared_errors), RowMean(absolute_errors)


@dataclass(frozen=True)
class Metric:
    """A measure of the quality of predictions, and the tasks that it applies to.

    statistic : the summary from which it is computed, on one machine or on a cluster.
    finish : returns the metric, given the statistic of all rows.
    of_probabilities : whether the metric needs probabilities.
    of_groups : returns the metric of each group of rows; the metric is their mean. None: it needs no groups.
    at : returns the metric for the first places of each group; None: it has no such form.
    """

    name: str
    help: str
    larger_is_better: bool
    tasks: tuple[str, ...]
    statistic: Statistic | RowMean
    finish: Callable[[Any], float]
    of_probabilities: bool = False
    of_groups: Callable[[RankedRows], OfGroups] | None = None
    at: Callable[..., OfGroups] | None = None

    def fits(self, loss: str) -> bool:
        """Return whether the metric fits models with this loss."""
        return LOSSES[loss].task in self.tasks and (LOSSES[loss].load_link().probable or not self.of_probabilities)


def ranking(
    name: str,
    help: str,
    of_groups: Callable[[RankedRows], OfGroups],
    at: Callable[..., OfGroups] | None = None,
) -> Metric:
    """Return a metric of the order of rows in groups; larger is better."""
    return Metric(name, help, True, ORDERED, BY_GROUP, in_groups(of_groups), of_groups=of_groups, at=at)


def of_places(name: str, help: str, at: Callable[..., OfGroups]) -> Metric:
    """Return a metric of the first places: 10 places if all metrics are listed."""
    return ranking(f"{name}@{PLACES}", help, partial(at, places=PLACES), at)


METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "logloss",
            "Mean negative logarithm of the probability of the label.",
            False,
            BINARY + SOFT + CLASSES,
            RowMean(log_losses),
            Sums.mean,
            of_probabilities=True,
        ),
        Metric("auc", "Area under the ROC curve.", True, BINARY, BY_SCORE, auc),
        Metric("pr-auc", "Average precision: area under the precision-recall curve.", True, BINARY, BY_SCORE, pr_auc),
        Metric(
            "brier",
            "Mean squared error of the probabilities.",
            False,
            BINARY + CLASSES,
            RowMean(squared_distances),
            Sums.mean,
            of_probabilities=True,
        ),
        Metric("accuracy", "Share of rows with the correct prediction.", True, BINARY + CLASSES, CORRECT, Sums.mean),
        Metric("rmse", "Root of the mean squared error.", False, NUMBERS, SQUARED, Sums.root),
        Metric("mae", "Mean absolute error.", False, NUMBERS, ABSOLUTE, Sums.mean),
        Metric("r2", "Share of the variance of the labels that is explained.", True, NUMBERS, VARIANCES, r2),
        # Each row has one label and one prediction, so F1 over all rows is the accuracy.
        Metric("micro-f1", "F1 over all rows: the accuracy.", True, BINARY + CLASSES, CORRECT, Sums.mean),
        Metric("macro-f1", "Mean of the F1 of each class.", True, BINARY + CLASSES, BY_CLASS, macro_f1),
        Metric("macro-f1-pr", "F1 of macro precision and macro recall.", True, BINARY + CLASSES, BY_CLASS, macro_f1_pr),
        # Of groups: the mean over the groups of this.
        ranking("gauc", "Share of the pairs of rows with different labels in the correct order.", group_auc),
        ranking("ndcg", "Normalized discounted cumulative gain.", ndcg, ndcg),
        ranking("map", "Average precision of the relevant rows.", mean_average_precision),
        ranking("mrr", "1 / place of the first relevant row.", reciprocal_rank, reciprocal_rank),
        of_places("recall", "Share of the relevant rows in the first K places.", recall),
        of_places("precision", "Share of the first K places with a relevant row.", precision),
        of_places("hit", "1 if a relevant row is in the first K places.", hit),
    )
}
# Metric of the first K places -> its name in METRICS.
OF_PLACES = {name.partition("@")[0]: name for name, metric in METRICS.items() if metric.at}


@cache
def metric_of(name: str) -> Metric:
    """Return the metric with this name, such as "ndcg@K". Raises UsageError if there is none."""
    base, at, places = name.partition("@")
    if list_metric(name) is not None:
        raise UsageError(f"metric {name} is of the items that users are recommended; fmcli evaluate --over computes it")
    if base not in {*OF_PLACES, *LIST_METRICS} or (not at and base in METRICS):
        if name not in METRICS and (suggested := other_name("metric", name)):
            raise UsageError(suggested)
        return METRICS[find_name("metric", name, METRICS)]
    if not places.isdecimal() or not int(places):
        raise UsageError(f"there is no metric {name!r}; write {base}@K with a number of places K, such as 10")
    metric = METRICS[OF_PLACES[base]]
    assert metric.at is not None
    return ranking(name, metric.help, partial(metric.at, places=int(places)))


def need_groups(names: Iterable[str]) -> list[str]:
    """Return the metrics that need groups of rows."""
    return [name for name in names if metric_of(name).of_groups is not None]


def default_metrics(loss: str) -> tuple[str, ...]:
    """Return the default metrics of a loss; early stopping uses the first one."""
    return LOSSES[loss].metrics


def allowed(loss: str, grouped: bool = True) -> tuple[str, ...]:
    """Return the names of the metrics that fit a loss; group metrics only if rows are grouped."""
    fitting = (metric for metric in METRICS.values() if metric.fits(loss))
    return tuple(metric.name for metric in fitting if grouped or metric.of_groups is None)


def check(names: Iterable[str], loss: str | None) -> None:
    """Raise UsageError, which names the valid metrics, for a metric that does not exist or does not fit the loss.

    If the loss is None, because the labels will choose it, only the names are checked.
    """
    for name in names:
        metric = metric_of(name)
        if loss is not None and not metric.fits(loss):
            raise UsageError(f"metric {name} does not fit loss {loss}; use one of: {', '.join(allowed(loss))}")


def measure(names: Iterable[str], outcome: Outcome, threads: int = 1) -> dict[str, float]:
    """Return values by name, in the order of the names; NaN if undefined. The metrics must fit the loss. Several
    metrics of many rows are computed at the same time."""
    names = list(names)
    if not outcome.usable:
        return dict.fromkeys(names, math.nan)
    threads = threads if len(outcome.label) >= ROWS_FOR_THREADS else 1
    return dict(zip(names, in_parallel(partial(computed, outcome), names, threads), strict=True))


@np.errstate(over="ignore", invalid="ignore")  # very large errors become inf and are reported
def computed(outcome: Outcome, name: str) -> float:
    """Return the metric with this name."""
    metric = metric_of(name)
    return metric.finish(metric.statistic.of(outcome))
