"""Summaries of the rows of an input's extents, from which the metrics of all rows are computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.records import dataclass
from fmcli.scoring.evaluation import LOSS, OF_MODELS, confusion, training_loss
from fmcli.scoring.metrics import Outcome, RowMean, Statistic, metric_of
from fmcli.scoring.scorer import Scorer
from fmcli.scoring.sparsity import SPARSITY, model_sparsity
from fmcli.scoring.statistics import GroupedRows, Ranking, Sums
from fmcli.system.memory import require_if_large

# The number of arrays of the size of the distinct scores in use while rankings are combined.
RANKING_ARRAYS = 9
# The keys of statistics; the training loss has its name as the key.
Key = Statistic | RowMean | str


@dataclass(frozen=True)
class Summary:
    """The facts about some rows that metrics need.

    rows : the number of rows with a positive weight.
    finite : whether all scores are finite; if not, there are no other facts.
    statistics : the statistics of the chosen metrics.
    table : the confusion matrix.
    """

    rows: int
    finite: bool
    statistics: dict[Key, Any] = field(default_factory=dict)
    table: NDArray[np.int64] | None = None


def check_combined(names: Iterable[str]) -> None:
    """Raise UsageError for a metric whose statistics of parts do not combine."""
    for name in names:
        if name not in OF_MODELS and metric_of(name).statistic.part is None:
            raise UsageError(f"metric {name} needs all rows at once, which a cluster does not have", cluster=LEAVE_OUT)


def summary_of(outcome: Outcome, metrics: Iterable[str], scorer: Scorer, with_table: bool) -> Summary:
    """Return the summary for these metrics; names as in `figures` of fmcli.scoring.evaluation."""
    names = list(metrics)
    rows, finite = len(outcome.label), bool(np.isfinite(outcome.score).all())
    if not rows or not finite:
        return Summary(rows, finite)
    chosen = dict.fromkeys(metric_of(name).statistic for name in names if name not in OF_MODELS)
    with np.errstate(over="ignore", invalid="ignore"):  # as in `measure`
        statistics: dict[Key, Any] = {statistic: statistic.of(outcome) for statistic in chosen}
    if LOSS in names:  # the training loss ignores weights
        statistics[LOSS] = Sums(rows * training_loss(outcome, scorer), rows)
    return Summary(rows, finite, statistics, confusion(outcome) if with_table else None)


class Runs:
    """The statistics of consecutive extents, combined in runs whose lengths are decreasing powers of two. So each of n
    extents is combined at most log2(n) times, and few statistics are held."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, Any]] = []  # the number of extents of each run, and the run's statistic

    def add(self, part: Any) -> None:
        """Add the statistic of the next extent. Raises NotEnoughMemoryError if it does not fit into memory."""
        require_room([held for _, held in self._runs], part)
        length = 1
        while self._runs and self._runs[-1][0] == length:
            part, length = self._runs.pop()[1].combined(part), 2 * length
        self._runs.append((length, part))

    def all(self) -> Any:
        """Return the statistic of all extents."""
        while len(self._runs) > 1:
            (length, before), (further, part) = self._runs[-2:]
            self._runs[-2:] = [(length + further, before.combined(part))]
        return self._runs[0][1]


def require_room(held: list[Any], part: Any) -> None:
    """Raise NotEnoughMemoryError if the arrays of a further statistic do not fit into memory."""
    number = np.dtype(np.float64).itemsize
    if not isinstance(part, Ranking | GroupedRows):
        return
    before = sum(len(one.score) for one in held)
    count = before + len(part.score)
    needed, what = Outcome.bytes_needed(count, 1), f"ranking {count:,} rows"
    if isinstance(part, Ranking):
        needed, what = RANKING_ARRAYS * number * count, f"the AUC of {count:,} scores"
    require_if_large(needed, what, held=3 * number * before)


class Combined:
    """The summary of all extents. Extents are added in order."""

    def __init__(self) -> None:
        self._finite = True
        self._statistics: dict[Key, Runs] = {}
        self._rows = 0
        self.table: NDArray[np.int64] | None = None

    def add(self, summary: Summary) -> None:
        """Add the summary of the next extent. Raises NotEnoughMemoryError if there are too many distinct scores."""
        self._finite &= summary.finite
        if not summary.rows or not summary.finite:
            return
        self._rows += summary.rows
        if summary.table is not None:
            self.table = summary.table if self.table is None else self.table + summary.table
        for key, part in summary.statistics.items():
            self._statistics.setdefault(key, Runs()).add(part)

    @property
    def usable(self) -> bool:
        """As `Outcome.usable`."""
        return self._finite and self._rows > 0

    def figures(self, names: Iterable[str], scorer: Scorer) -> dict[str, float]:
        """Return values by name, in the order of the names; NaN if undefined. The extents' summaries must have the
        statistics of these metrics."""
        return {name: model_sparsity(scorer.model) if name == SPARSITY else self._figure(name) for name in names}

    def _figure(self, name: str) -> float:
        if not self.usable:
            return math.nan
        if name == LOSS:
            return Sums.mean(self._statistics[LOSS].all())
        metric = metric_of(name)
        return metric.finish(self._statistics[metric.statistic].all())
