"""Scores and losses of the rows of a data set, computed with several threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.layout import CUTPOINTS
from fmcli.models.model import Model
from fmcli.models.related.sums import RelatedSums
from fmcli.models.workspace import Workspace
from fmcli.scoring.scores import joined_scores, losses, scores
from fmcli.system.parallel import in_parallel

# Rows per task of a thread: enough to make Python's overhead negligible.
ROWS_A_TASK = 1 << 14


def score_rows(
    model: Model, data: Dataset, threads: int = 1, rows: NDArray[np.int32] | None = None
) -> NDArray[np.float64]:
    """Return raw scores (rows, columns) of all rows, or of the rows with these indices; the same for any number of
    threads.

    A model with cutpoints has a column for each cutpoint: the score minus the cutpoint.
    """
    count = data.rows if rows is None else len(rows)
    out = np.empty((count, model.outputs))
    parts = measured_relations(model, data, threads) if data.relations else []

    def some(start: int) -> None:
        room = Workspace(model, data.longest, gradients=False)
        stop = min(start + ROWS_A_TASK, count)
        if parts:
            joined_scores(parts, data, room, start, stop, out, rows)
        else:
            scores(model, data, room, start, stop, out, rows)

    in_parallel(some, range(0, count, ROWS_A_TASK), threads)
    return out - model.parameters[CUTPOINTS] if model.cutpoints else out


def measured_relations(model: Model, data: Dataset, threads: int) -> list[RelatedSums]:
    """Return the relations of rows, for a model that joins them."""
    parts = [RelatedSums(model, relation.data, relation.row) for relation in data.relations]

    def some(task: tuple[RelatedSums, int]) -> None:
        part, start = task
        part.measure(start, min(start + ROWS_A_TASK, part.data.rows))

    in_parallel(some, [(part, at) for part in parts for at in range(0, part.data.rows, ROWS_A_TASK)], threads)
    return parts


def row_losses(loss: Loss, label: NDArray[np.float64], score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (rows) the loss of each row, given labels (rows) and scores (rows, outputs)."""
    out = np.empty(len(label))
    losses(loss, label, score, out)
    return out
