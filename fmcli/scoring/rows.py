"""Scores of all rows of a data set, computed with several threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.model import Model, Workspace
from fmcli.scoring.scores import scores

# Rows per task of a thread: enough to make the overhead of Python negligible.
ROWS_A_TASK = 1 << 14


def score_rows(model: Model, data: Dataset, threads: int = 1) -> NDArray[np.float64]:
    """Raw scores (rows, outputs), the same for any number of threads."""
    out = np.empty((data.rows, model.outputs))

    def some(start: int) -> None:
        room = Workspace(model, data.longest, gradients=False)
        scores(model, data, room, start, min(start + ROWS_A_TASK, data.rows), out)

    starts = range(0, data.rows, ROWS_A_TASK)
    if threads == 1 or len(starts) < 2:
        for start in starts:
            some(start)
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, starts))
    return out
