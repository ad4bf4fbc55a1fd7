"""Summaries of the rows of extents of the inputs, from which the metrics of all rows are computed.

AUC, average precision, and the metrics of classes depend on sums of weights only: they are exact if all weights are 1.
The others are means, which are equal to those of all rows at once except for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.scoring.evaluation import LOSS, OF_MODELS, confusion, training_loss
from fmcli.scoring.metrics import (
    METRICS,
    ClassWeights,
    Outcome,
    Ranking,
    accuracy,
    auc,
    macro_f1,
    macro_f1_pr,
    metric_of,
    need_groups,
    pr_auc,
    r2,
    rmse,
    summed_by_score,
)
from fmcli.scoring.scorer import Scorer
from fmcli.scoring.sparsity import SPARSITY, model_sparsity
from fmcli.system.memory import require_if_large

OF_RANKINGS = {"auc": auc, "pr-auc": pr_auc}
OF_CLASSES = {"macro-f1": macro_f1, "macro-f1-pr": macro_f1_pr}
ACCURACIES = tuple(name for name, metric in METRICS.items() if metric.compute is accuracy)
ROOTS = tuple(name for name, metric in METRICS.items() if metric.compute is rmse)
SHARES = tuple(name for name, metric in METRICS.items() if metric.compute is r2)
# These are computed from other facts than means.
OF_OTHER_FACTS = {*OF_RANKINGS, *OF_CLASSES, *ACCURACIES, *ROOTS, *SHARES}
# Arrays of the size of the distinct scores that are held while those of all extents are combined.
RANKING_ARRAYS = 9


@dataclass(frozen=True)
class Moments:
    """The weight, the mean, and the sum of the squared distances from the mean of some labels."""

    weight: float
    mean: float
    squares: float

    def combined(self, other: Moments) -> Moments:
        """Return the moments of the labels of both."""
        weight, apart = self.weight + other.weight, other.mean - self.mean
        mean = self.mean + apart * other.weight / weight
        return Moments(weight, mean, self.squares + other.squares + apart**2 * self.weight * other.weight / weight)


@dataclass(frozen=True)
class Summary:
    """The facts about some rows that metrics need; what no chosen metric needs is None.

    rows : with a weight above 0.
    weight : the sum of their weights.
    finite : whether all scores are finite; if not, there are no other numbers.
    means : by metric: its mean over these rows; for rmse and r2 the mean squared error.
    scores : the distinct scores, in increasing order.
    ranking : the weights of the rows with each of them.
    table : the confusion matrix.
    grouped : labels, scores and groups of the rows, because a group may have rows of several extents.
    """

    rows: int
    weight: float
    finite: bool
    means: dict[str, float] = field(default_factory=dict)
    label: Moments | None = None
    scores: Floats | None = None
    ranking: Ranking | None = None
    classes: ClassWeights | None = None
    table: NDArray[np.int64] | None = None
    grouped: Outcome | None = None


def check_combined(names: Iterable[str]) -> None:
    """Raise UsageError for a metric that summaries cannot give: one that is neither a mean over rows or groups, nor has
    facts of its own in a summary."""
    for name in {*names} & {*METRICS} - OF_OTHER_FACTS:
        metric = METRICS[name]
        if metric.of_rows is None and metric.of_groups is None:
            raise UsageError(f"metric {name} is not a mean over rows, which a cluster needs", cluster=LEAVE_OUT)


def summary_of(outcome: Outcome, metrics: Iterable[str], scorer: Scorer, with_table: bool) -> Summary:
    """Return the summary for these metrics, of which `figures` in fmcli.scoring.evaluation has the names."""
    names = set(metrics)
    of_groups = set(need_groups(names - {*OF_MODELS}))
    names -= of_groups
    rows, finite = len(outcome.label), bool(np.isfinite(outcome.score).all())
    if not rows or not finite:
        return Summary(rows, 0.0, finite)
    means = {}
    with np.errstate(over="ignore", invalid="ignore"):  # as in `measure`
        for name in names & {*METRICS} - OF_OTHER_FACTS:
            means[name] = METRICS[name].compute(outcome)
        if names & {*ROOTS, *SHARES}:
            means["rmse"] = outcome.mean(outcome.error**2)
    if LOSS in names:
        means[LOSS] = training_loss(outcome, scorer)
    weight = float(outcome.weight.sum())
    scores, ranking = outcome.by_score() if names & {*OF_RANKINGS} else (None, None)
    return Summary(
        rows,
        weight,
        finite,
        means,
        _moments(outcome, weight) if names & {*SHARES} else None,
        scores,
        ranking,
        outcome.all_class_weights() if names & {*OF_CLASSES, *ACCURACIES} else None,
        confusion(outcome) if with_table else None,
        Outcome(outcome.loss, outcome.label, outcome.score, group=outcome.group, relevance=outcome.relevance)
        if of_groups
        else None,
    )


def _moments(outcome: Outcome, weight: float) -> Moments:
    label = outcome.label - outcome.label[0]  # exactly 0 if all labels are the same
    mean = outcome.mean(label)
    return Moments(weight, float(outcome.label[0]) + mean, weight * outcome.mean((label - mean) ** 2))


class Combined:
    """The summary of all extents, which are added in order."""

    def __init__(self) -> None:
        self._summaries: list[Summary] = []
        self._finite = True
        self._scores = self._rows = 0
        self.label: Moments | None = None
        self._classes: ClassWeights | None = None
        self.table: NDArray[np.int64] | None = None

    def add(self, summary: Summary) -> None:
        """Add the summary of the next extent. Raises NotEnoughMemoryError if there are too many distinct scores."""
        self._finite &= summary.finite
        if not summary.rows or not summary.finite:
            return
        if summary.label is not None:
            self.label = summary.label if self.label is None else self.label.combined(summary.label)
        if summary.classes is not None:
            so_far = self._classes
            self._classes = summary.classes if so_far is None else ClassWeights(*map(np.add, so_far, summary.classes))
        if summary.table is not None:
            self.table = summary.table if self.table is None else self.table + summary.table
        if summary.scores is not None:
            held = np.dtype(np.float64).itemsize * self._scores
            self._scores += len(summary.scores)
            needed = RANKING_ARRAYS * np.dtype(np.float64).itemsize * self._scores
            require_if_large(needed, f"the AUC of {self._scores:,} scores", held=3 * held)
        if summary.grouped is not None:
            self._rows += summary.rows
            held = np.dtype(np.float64).itemsize * 3 * self._rows
            require_if_large(Outcome.bytes_needed(self._rows, 1), f"ranking {self._rows:,} rows", held=held)
        self._summaries.append(replace(summary, classes=None, table=None))

    @property
    def usable(self) -> bool:
        """As `Outcome.usable`."""
        return self._finite and bool(self._summaries)

    @property
    def ranking(self) -> Ranking:
        """The weights of all rows, by score."""
        scores = np.concatenate([summary.scores for summary in self._summaries if summary.scores is not None])
        rankings = [summary.ranking for summary in self._summaries if summary.ranking is not None]
        return summed_by_score(scores, Ranking(*map(np.concatenate, zip(*rankings, strict=True))))[1]

    @property
    def class_weights(self) -> ClassWeights:
        """The weights of all rows, by class."""
        assert self._classes is not None
        return self._classes.present()

    def mean(self, name: str) -> float:
        """Return the mean over all rows. The training loss has no weights."""
        weights = [summary.rows if name == LOSS else summary.weight for summary in self._summaries]
        values = [summary.means[name] for summary in self._summaries]
        if not all(map(math.isfinite, values)):
            return math.nan if any(map(math.isnan, values)) else math.inf
        return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)

    def figures(self, names: Iterable[str], scorer: Scorer) -> dict[str, float]:
        """Return values by name, in the order of the names; nan if undefined. The extents must have been summed up for
        these."""
        return {
            name: model_sparsity(scorer.model) if name == SPARSITY else self._figure(name) if self.usable else math.nan
            for name in names
        }

    @cached_property
    def _grouped(self) -> Outcome:
        """All rows with their groups."""
        summaries = [summary.grouped for summary in self._summaries if summary.grouped is not None]
        groups = [summary.group for summary in summaries if summary.group is not None]
        return Outcome(
            summaries[0].loss,
            np.concatenate([summary.label for summary in summaries]),
            np.concatenate([summary.score for summary in summaries]),
            group=np.concatenate(groups) if groups else None,
            relevance=summaries[0].relevance,
        )

    def _figure(self, name: str) -> float:
        if need_groups([name] if name != LOSS else []):
            return metric_of(name).compute(self._grouped)
        if name in OF_RANKINGS:
            return OF_RANKINGS[name](self)
        if name in OF_CLASSES:
            return OF_CLASSES[name](self)
        if name in ACCURACIES:
            correct, labelled, _ = self.class_weights
            return float(correct.sum() / labelled.sum())
        if name in ROOTS:
            return math.sqrt(self.mean("rmse"))
        if name in SHARES:
            assert self.label is not None
            variance = self.label.squares / self.label.weight
            return 1.0 - self.mean("rmse") / variance if variance > 0 else math.nan
        return self.mean(name)
