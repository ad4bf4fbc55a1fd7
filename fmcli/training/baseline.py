"""The best constant: the prediction without any feature, which a model must beat to be worth anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import few_distinct
from fmcli.losses.loss import Loss
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.scoring.metrics import Outcome, measure, metric_of
from fmcli.scoring.scores import mean_loss
from fmcli.text import figures_apart
from fmcli.training.ranked_pairs import RankedPairs

if TYPE_CHECKING:
    from fmcli.training.planning import Plan
    from fmcli.training.validation import Validation

Floats = NDArray[np.float64]

# The relative precision of a constant: float parameters cannot tell labels apart that differ by less.
PRECISION = 1e-4
# On training rows, a model counts as worse than the constant only if the difference exceeds this share of the
# constant's metric, because stochastic steps leave the bias near its optimum, but not exactly there.
CLEARLY = 0.01
# Metrics that differ by a smaller share are the same: the metrics of a model without features differ from the
# constant's by the rounding of its bias.
ROUNDING = 1e-6
# If a smaller share of the constant's error is left on validation data, a feature probably tells the label.
HARDLY_ANY = 0.01


@dataclass(frozen=True)
class Baseline:
    """The constant that fits the training labels best.

    scores : (outputs), the same for every row, in the user's unit.
    loss : the mean loss on the training rows of a constant that is wrong by PRECISION; infinite if all labels are the
        same, so there is nothing to compare with.
    """

    scores: Floats
    loss: float

    words: ClassVar[str] = "the best constant"

    def measure(self, validation: Validation) -> dict[str, float]:
        """Return metrics of the constant on validation rows, by name, without the sparsity, which a constant does not
        have."""
        return self.on(validation.outcome_of(np.empty((validation.count, 0))), validation.measured)

    def on(self, outcome: Outcome, names: Iterable[str]) -> dict[str, float]:
        """Return metrics of the constant, by name, on the labels of an outcome; its scores are not used."""
        score = np.tile(self.scores, (len(outcome.label), 1))
        group, relevance = outcome.group, outcome.relevance
        rows = Outcome(outcome.loss, outcome.label, score, outcome.weight, group=group, relevance=relevance)
        return measure(names, rows)


class MostPopular(Baseline):
    """The most popular items for everyone, with which the order of held-out pairs is compared."""

    words = "the most popular items"

    def measure(self, validation: Validation) -> dict[str, float]:
        assert isinstance(validation, RankedPairs)
        return validation.of_popularity()


def baseline_of(plan: Plan, loss: Loss) -> Baseline:
    """Return the best constant on a plan's training rows."""
    labels = plan.source.labels
    label, weight = labels.targets, labels.weight
    with np.errstate(over="ignore", invalid="ignore"):  # no constant fits labels whose sum is beyond all numbers
        scores: Floats = loss.best_constant(label, weight, labels.rows)
        near = scores * (1 + PRECISION)
    value = mean_loss_of_constant(loss, label, near, weight) if label.min() < label.max() else np.inf
    entry = LOSSES[plan.transform.labels.loss]
    if entry.task == "binary" and not entry.likelihood:
        # Hinges start from 0, which predicts neither label; the more frequent one is the best constant prediction.
        scores = np.array([np.copysign(1.0, np.average(label, weights=weight))])
    kind = MostPopular if isinstance(plan.validation, RankedPairs) else Baseline
    return kind(plan.transform.labels.unit.undo(scores), float(value))


def mean_loss_of_constant(loss: Loss, label: Floats, scores: Floats, weight: Floats | None) -> float:
    """Return the weighted mean loss of rows that all have the same scores (outputs)."""
    values = few_distinct(label)
    if values is None:
        return mean_loss(loss, label, np.tile(scores, (len(label), 1)), weight)
    shares = [np.average(label == value, weights=weight) for value in values]
    return sum(float(share) * loss.evaluate(value, scores)[0] for share, value in zip(shares, values, strict=True))


def beats(metric: str, value: float, constant: float) -> bool:
    """Return whether a metric is better than the best constant's, or either is undefined."""
    if np.isnan(value) or np.isnan(constant):
        return True
    return value > constant if metric_of(metric).larger_is_better else value < constant


@dataclass(frozen=True)
class Comparison:
    """A metric of a model and of the best constant, on the validation data or else on the training rows."""

    metric: str
    value: float
    constant: float
    validated: bool
    than: str = Baseline.words

    @property
    def worse(self) -> bool:
        """Whether the model is worse than the constant."""
        least = ROUNDING if self.validated else CLEARLY
        clear = abs(self.value - self.constant) > least * abs(self.constant)
        return clear and beats(self.metric, self.constant, self.value)

    @property
    def nearly_perfect(self) -> bool:
        """Whether a loss or an error is nearly 0 on the validation data."""
        is_error = not metric_of(self.metric).larger_is_better
        return self.validated and is_error and self.value < HARDLY_ANY * self.constant

    @property
    def no_better(self) -> bool:
        """Whether the model is worse, or on the validation data equal."""
        same = abs(self.value - self.constant) <= ROUNDING * abs(self.constant)
        return self.worse or (self.validated and same)

    def __str__(self) -> str:
        where = "validation data" if self.validated else "training rows"
        word = "worse than" if self.worse else "no better than"
        value, constant = figures_apart(self.value, self.constant)
        return f"{self.metric} is {value} on the {where}, {word} {self.than} ({constant})"
