"""Two models on the same rows: the difference of a metric, and its standard error.

The rows are a sample, so the better model may be worse on them by chance. The difference is paired: both models predict
the same rows, and most of what makes a row easy or hard cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import Labels, listed_texts
from fmcli.errors import UsageError
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.scoring.evaluation import OF_MODELS
from fmcli.scoring.metrics import Outcome, RowMean, check, measure, metric_of
from fmcli.scoring.statistics import Sums
from fmcli.system.memory import available
from fmcli.system.parallel import in_parallel
from fmcli.text import figures_apart, number

# The jackknife leaves out one of this many slices of rows at a time: the relative error of its standard error is
# 1 / sqrt(2 * 49), a tenth.
SLICES = 50
# A difference of more standard errors than this is not due to chance: of two equally good models, one is this much
# worse on one of 44 samples.
MOST_ERRORS = 2.0
# A smaller share of the metric is a tie, even with a tiny standard error: between two nearly equal models, the error
# is a matter of rounding, and no user sees the difference.
TIE = 1e-4
# The derivative of a metric that is a function of a mean over rows, given the metric's value.
SLOPES: dict[Callable[[Sums], float], Callable[[float], float]] = {
    Sums.mean: lambda _: 1.0,
    Sums.root: lambda value: 1 / (2 * value) if value else 1.0,
}


@dataclass(frozen=True)
class Difference:
    """A metric of two models on the same rows.

    value, current : of the new model, and of the current model.
    error : the standard error of value - current.
    """

    metric: str
    value: float
    current: float
    error: float

    @property
    def difference(self) -> float:
        """The value minus the current one."""
        return self.value - self.current

    @property
    def worse(self) -> float:
        """How much worse the value is; negative if it is better."""
        return -self.difference if metric_of(self.metric).larger_is_better else self.difference

    def better_by(self, errors: float) -> bool:
        """Return whether the value is better by more than `errors` standard errors, and not a tie."""
        return -self.worse > max(errors * self.error, TIE * abs(self.current))

    @property
    def figures(self) -> dict[str, str | float]:
        """The figures by name."""
        return {
            "metric": self.metric,
            "value": self.value,
            "current": self.current,
            "difference": self.difference,
            "standard_error": self.error,
        }

    def complaint(self, margin: float) -> str:
        """Return a message if the value is worse by more than a margin, and by more than chance explains; else "". An
        undefined value counts as worse, and so does a worse value with an undefined error."""
        if math.isnan(self.value):
            return f"{self.metric} is undefined on these rows"
        worse = self.worse
        if math.isnan(self.current) or worse <= margin or worse <= MOST_ERRORS * self.error:
            return ""
        value, current = figures_apart(self.value, self.current)
        by = f"{self.metric} is {value} instead of {current}, worse by {worse:.3g}"
        if math.isnan(self.error):
            return f"{by}, with a standard error that is undefined on these rows"
        return f"{by}: more than {number(margin)}, and more than {MOST_ERRORS:g} standard errors of {self.error:.3g}"


def check_comparable(name: str, new: Labels, current: Labels) -> None:
    """Raise UsageError unless a metric can compare two models with these labels."""
    if name in OF_MODELS:
        raise UsageError(f"metric {name} depends on how a model was trained, so it cannot compare two models")
    if (new.values, new.names) != (current.values, current.names):
        raise UsageError(
            f"the models cannot be compared, because their labels differ: {described(new)}, and {described(current)}"
        )
    for labels in (new, current):
        check([name], labels.loss)


def described(labels: Labels) -> str:
    """Return the labels that a model knows, in words."""
    return f"{listed_texts(labels.texts) if labels.values else 'numbers'} (loss {labels.loss})"


def difference(name: str, new: Outcome, current: Outcome, threads: int = 1) -> Difference:
    """Return the difference of a metric of two models on the same rows, and its standard error, which is NaN if there
    are too few rows or the metric is undefined.

    For a mean over rows, it is the standard error of the mean of the rows' differences; for the root of a mean, this
    error times the derivative of the root; for other metrics, the jackknife's over slices of consecutive rows, or of
    whole groups for group metrics.
    """
    both, metric = (new, current), metric_of(name)
    value, own = (measure([name], outcome, threads)[name] for outcome in both)
    error = math.nan
    if not math.isnan(value) and not math.isnan(own):
        slope, statistic = SLOPES.get(metric.finish), metric.statistic
        if slope and isinstance(statistic, RowMean):
            values = [slope(figure) * statistic.of_rows(one) for figure, one in zip((value, own), both, strict=True)]
            error = error_of_means(values[0] - values[1], new)
        else:
            error = jackknifed(name, both, threads)
    return Difference(name, value, own, error)


def error_of_means(differences: Floats, rows: Outcome) -> float:
    """Return the standard error of the weighted mean of the rows' differences."""
    count, weight = len(differences), rows.weight
    if count < 2:
        return math.nan
    deviations = weight * (differences - rows.mean(differences))
    return float(math.sqrt(count / (count - 1) * (deviations**2).sum()) / weight.sum())


def jackknifed(name: str, both: tuple[Outcome, Outcome], threads: int) -> float:
    """Return the standard error of a metric's difference, by the jackknife over slices."""
    number = slices_of(both[0], metric_of(name).of_groups is not None)
    count = int(number.max()) + 1

    def without(left_out: int) -> float:
        values = [measure([name], outcome.take(number != left_out))[name] for outcome in both]
        return values[0] - values[1]

    if count < 2:
        return math.nan
    affordable = available() // (2 * Outcome.bytes_needed(*both[0].score.shape))
    differences = np.array(in_parallel(without, range(count), max(1, min(threads, affordable))))
    return float(np.sqrt((count - 1) / count * ((differences - differences.mean()) ** 2).sum()))


def slices_of(outcome: Outcome, of_groups: bool) -> NDArray[np.intp]:
    """Return (rows) the slice of each row, from 0: at most SLICES slices of consecutive rows, or of whole groups."""
    unit = np.arange(len(outcome.label))
    if of_groups and outcome.group is not None:
        unit = np.unique(outcome.group, return_inverse=True)[1]
    units = int(unit.max()) + 1
    return unit * min(SLICES, units) // units
