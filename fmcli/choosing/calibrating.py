"""Calibration of a model by rows that models of the same options have not seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fmcli.choosing.cross_validation import Candidate, Validated, cross_validate, fold_numbers
from fmcli.choosing.folds import Folding, folds_of
from fmcli.data.dataset import Dataset
from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.registry.losses import LOSSES
from fmcli.scoring.calibration import Calibration, fitted
from fmcli.training.rows import RowsInMemory

FOLDS = 5


def calibrated(
    method: str,
    candidate: Candidate,
    rows: RowsInMemory,
    format: str,
    valid: Dataset | None = None,
    on_fold: Callable[[Validated], None] = lambda fold: None,
) -> Calibration:
    """Return the calibration of the scores of a model that the candidate trains on all rows.

    It is fitted to scores of rows that the model which scores them has not seen, neither to train on nor to choose the
    epoch: each fold of the rows is scored by a model of the others.

    method : isotonic or platt.
    rows, format, valid : see `cross_validate`.
    on_fold : called after each fold.

    Raises UsageError unless the loss has probabilities of two labels, and the errors of `cross_validate`.
    """
    candidate = candidate.with_loss_of(rows)
    loss = LOSSES[candidate.loss]
    if loss.task != "binary" or loss.load_link().inverse is None:
        raise UsageError(
            f"only probabilities of two labels are calibrated, and loss {loss.name} has none", calibrate=LEAVE_OUT
        )
    folds = list(folds_of(fold_numbers(candidate, rows, Folding(FOLDS)), in_order=False))
    score = np.empty(rows.data.rows)
    for one in cross_validate(candidate, rows, folds, [], format, valid):
        score[one.fold.test] = one.score[:, 0]
        on_fold(one)
    label = rows.data.label
    return fitted(method, label == label.max(), score, rows.data.weight)
