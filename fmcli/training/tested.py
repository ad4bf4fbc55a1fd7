"""Rows that a run predicts while it samples: by the mean over all sweeps after the burn-in, not over the kept draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.chunks import Piece
from fmcli.data.dataset import Dataset
from fmcli.data.faults import BadLines
from fmcli.data.formats import Stream
from fmcli.data.pieces import concatenated
from fmcli.errors import BadInputError
from fmcli.losses.links import Floats
from fmcli.model_file.transform import transform_entries
from fmcli.models.model import Model
from fmcli.records import dataclass
from fmcli.scoring.averages import average_of
from fmcli.scoring.metrics import Outcome, need_groups
from fmcli.scoring.prediction import Counts, each_chunk
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import Scorer
from fmcli.system.memory import require_if_large

if TYPE_CHECKING:
    from fmcli.training.planning import Plan


@dataclass(frozen=True)
class TestedRows:
    """Rows to predict.

    scorer : has read them, and knows what predictions look like. Its model is that of the run.
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
    def labelled(self) -> NDArray[np.int32]:
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

    def metrics(self, plan: Plan, score: Floats) -> dict[str, float]:
        """Return the metrics of the rows that have a label, without those that need groups; empty if no row has."""
        rows, evaluation = self.labelled, plan.evaluation
        if not len(rows):
            return {}
        grouped = need_groups(evaluation.measured)
        names = tuple(name for name in evaluation.metrics if name not in grouped)
        tested = replace(evaluation, data=self.data, metrics=names)
        return tested.measure(plan.model, tested.outcome_of(score[rows], rows))


def with_tested(
    plan: Plan, paths: Sequence[str], *, model: str, format: str, bad: BadLines, label_weights: bool = False
) -> Plan:
    """Return the plan of a run that also predicts the rows of some files, which are read as `predict` reads them;
    `model` is the file of the trained model, for messages. Raises the errors of `predict`."""
    scorer, counts = scorer_of_plan(plan, model), Counts()
    pieces: list[Dataset] = []
    skipped, read = [np.empty(0, dtype=np.int64)], 0

    def work(piece: Piece) -> tuple[Dataset, NDArray[np.int64]]:
        return with_labels(scorer.prepared(piece.data), scorer), piece.skipped

    chunks = each_chunk(
        scorer,
        paths,
        work,
        format=format,
        threads=plan.settings.threads,
        counts=counts,
        bad=bad,
        stream=Stream(label_weights=label_weights),
    )
    for data, gaps in chunks:
        pieces.append(data)
        skipped.append(gaps + read)
        read += data.rows
        require_if_large(sum(piece.nbytes for piece in pieces), "reading the rows to predict", held=plan.held)
    if not pieces:
        raise BadInputError(f"{' and '.join(paths)}: there are no rows to predict")
    tested = TestedRows(scorer, concatenated(pieces), np.concatenate(skipped), counts, plan.settings.threads)
    return replace(plan, tested=tested)


def scorer_of_plan(plan: Plan, path: str) -> Scorer:
    """Return a scorer that reads rows for the model of a plan, and writes its predictions; the model file at `path`
    will have it."""
    meta = {
        "model": plan.spec.model,
        "options": plan.spec.values,
        "members": 1,
        **transform_entries(plan.transform),
    }
    return Scorer(plan.model, plan.transform, meta, path)


def with_labels(data: Dataset, scorer: Scorer) -> Dataset:
    """Return rows with the labels that the model's loss takes, NaN where there is none."""
    label = np.full(data.rows, np.nan)
    if data.label is not None and data.rows:
        known = scorer.labels.known(data.label)
        label[known] = scorer.labels.encode(data.label[known])
    return data.changed(label=label)
