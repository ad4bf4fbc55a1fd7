"""Rows that a run predicts while it samples: by the mean over all sweeps after the burn-in, not over the kept draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.links import Floats
from fmcli.models.model import Model
from fmcli.records import dataclass
from fmcli.scoring.averages import average_of
from fmcli.scoring.metrics import Outcome, need_groups
from fmcli.scoring.prediction import Counts
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import Scorer
from fmcli.training.validation import Validation


@dataclass(frozen=True)
class TestedRows:
    """Rows to predict.

    scorer : has read the rows, and knows the form of predictions. Its model is the model of the run.
    data : the rows as the model scores them; the label is NaN if it is missing, or unknown to the model.
    skipped : the rows that stand for lines with errors.
    counts : the numbers of rows and entries.
    """

    scorer: Scorer
    data: Dataset
    skipped: NDArray[np.int64]
    counts: Counts
    threads: int

    @property
    def scoring_bytes(self) -> int:
        """Bytes of a sweep's scores, of their sums and of the metrics."""
        columns = self.scorer.model.columns
        scores = (1 + average_of(self.scorer.labels.loss).count) * columns * self.data.rows
        sums = np.dtype(np.float64).itemsize * scores
        return sums + Outcome.bytes_needed(self.data.rows, columns)

    @property
    def labeled(self) -> NDArray[np.int32]:
        """The rows that have a label."""
        return np.flatnonzero(~np.isnan(self.data.label)).astype(np.int32)

    def scores(self, model: Model) -> Floats:
        """Return (rows, outputs) the scores, in the unit of training."""
        return score_rows(model, self.data, self.threads)

    def text(self, score: Floats) -> bytes:
        """Return the lines that `predict` writes for rows with these scores."""
        scorer = self.scorer
        predictions = scorer.predicted(scorer.labels.unit.undo(score), scorer.default_output())
        predictions[self.skipped] = np.nan
        return scorer.text(predictions, scorer.default_output())

    def metrics(self, model: Model, evaluation: Validation, score: Floats) -> dict[str, float]:
        """Return the metrics of the rows with a label, except metrics of groups; empty if no row has a label."""
        rows = self.labeled
        if not len(rows):
            return {}
        grouped = need_groups(evaluation.measured)
        names = tuple(name for name in evaluation.metrics if name not in grouped)
        tested = replace(evaluation, data=self.data, metrics=names)
        return tested.measure(model, tested.outcome_of(score[rows], rows))
