"""What a training run takes of memory: the sum of what its pieces say of themselves, known before they take it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fmcli.data import occurrences
from fmcli.data.dataset import Dataset
from fmcli.data.scaling import is_scaled
from fmcli.models.model import Model, Workspace
from fmcli.scoring.metrics import Outcome
from fmcli.solvers.trainer import Trainer

if TYPE_CHECKING:
    from fmcli.registry.specs import Spec
    from fmcli.training.validation import Validation
    from fmcli.training.warm_start import Earlier

# Numbers for each column while the magnitudes of columns are looked at.
COLUMNS = 6


def held(datasets: Iterable[Dataset]) -> int:
    """Bytes of the arrays of some Datasets, which may share them."""
    arrays = {id(array): array for data in datasets for array in data.arrays}
    return sum(array.nbytes for array in arrays.values())


def copies(spec: Spec, data: Dataset, judged: int) -> int:
    """Bytes that come to data while a run is planned: a copy of the rows to judge by, so many of them; values that are
    scaled by column or by row; a label for each row; and the magnitudes of columns."""
    value, label = np.dtype(np.float32).itemsize, np.dtype(np.float64).itemsize
    changes = int(bool(spec.values["norm"])) + int(is_scaled(spec.values))
    scaled = changes * value * data.nnz
    columns = COLUMNS * value * data.features if is_scaled(spec.values) or data.value is not None else data.features
    return int(judged / max(data.rows, 1) * (data.nbytes + scaled)) + scaled + label * data.rows + columns


def training(trainer: Trainer, judge: Validation, validation: Validation | None, earlier: Earlier | None) -> int:
    """Bytes that training and saving take beside the rows that are in memory.

    The epochs, with a copy of the best one, are over when the training rows are judged; that is over when the features
    are counted for the model file.
    """
    model, data = trainer.task.model, trainer.task.data
    parameters = model.bytes_needed(trainer.slots)
    epochs = trainer.bytes_needed()
    if validation is not None:
        epochs += parameters + judging(model, validation.data, validation)
    seen = 2 * model.features
    counting = occurrences.bytes_needed(model.features, resumed=earlier is not None)
    known = sum(array.nbytes for array in earlier.arrays.values()) + parameters // 4 if earlier else 0
    return parameters + seen + known + max(epochs, judging(model, data, judge), counting)


def judging(model: Model, data: Dataset, judge: Validation) -> int:
    """Bytes that scoring rows and measuring the scores take."""
    rooms = judge.threads * Workspace.bytes_needed(model, data.longest, gradients=False)
    return rooms + Outcome.bytes_needed(data.rows, model.outputs)
