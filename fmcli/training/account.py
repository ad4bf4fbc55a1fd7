"""The memory that a training run needs: the sum of its components' `bytes_needed`, known before any is allocated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fmcli.data.counts import occurrences
from fmcli.data.dataset import Dataset
from fmcli.data.scaling import SCALE, ZSCORE, is_scaled
from fmcli.models.model import Model
from fmcli.models.workspace import Workspace
from fmcli.records import dataclass
from fmcli.registry.build import build_trainer
from fmcli.scoring.metrics import Outcome
from fmcli.training.draws import draws_bytes
from fmcli.training.validation import compares_last, measured_at_most

if TYPE_CHECKING:
    from fmcli.data.labels import Labels
    from fmcli.registry.specs import Spec
    from fmcli.training.planning import Plan
    from fmcli.training.validation import Validation

# Numbers for each column while the scales of columns are checked.
COLUMNS = 6


@dataclass(frozen=True)
class MemoryNeed:
    """The most memory that a run needs, including its rows; `held` bytes of it are in use already."""

    total: int
    held: int


def held(datasets: Iterable[Dataset]) -> int:
    """Return bytes of the arrays of some Datasets, which may share them."""
    arrays = {id(array): array for data in datasets for array in data.arrays}
    return sum(array.nbytes for array in arrays.values())


def copies(spec: Spec, labels: Labels, data: Dataset, held_out: int) -> int:
    """Return bytes that planning a run allocates beside the data: the values that are scaled by column or by row, with
    a norm a copy of the `held_out` rows, the labels as the loss expects them, and the scales of columns."""
    value = np.dtype(np.float32).itemsize
    changes = int(bool(spec.values["norm"])) + int(is_scaled(spec.values))
    scaled = changes * value * data.nnz
    if spec.values[SCALE] == ZSCORE:  # at most twice the entries
        scaled += data.nbytes
    columns = COLUMNS * value * data.features if is_scaled(spec.values) or data.value is not None else data.features
    copied = held_out / max(data.rows, 1) * (data.nbytes + scaled) if spec.values["norm"] else 0
    return int(copied) + scaled + labels.bytes_needed(data.rows) + columns


def of_plan(plan: Plan) -> MemoryNeed:
    """Return the memory that a run needs: its rows, and what training and saving need beside them.

    The epochs (with a copy of the best one, and of the first run's model while a refit compares its own), the
    evaluation on the training rows, and the count of features for the model file come one after the other, so that only
    the largest of the three counts.
    """
    model, data, spec, warm_start = plan.model, plan.data, plan.spec, plan.warm_start
    trainer = build_trainer(plan.task)
    parameters = model.bytes_needed(trainer.slots)
    epochs, validation = trainer.bytes_needed(), plan.validation
    draws = draws_bytes(spec, model)
    copy = parameters if plan.settings.may_keep_state(spec, model, trainer.slots) else model.bytes_needed(0)
    if plan.compares_last:
        epochs += copy
    if validation is not None:
        epochs += scoring_bytes(model, validation.data, validation, validation.count) + (0 if draws else copy)
        if validation.held_out and plan.settings.refits(spec, plan.source) and compares_last(spec):
            epochs += copy
    seen = 2 * model.features
    counting = occurrences.bytes_needed(model.features, resumed=warm_start is not None)
    known = sum(array.nbytes for array in warm_start.arrays.values()) + parameters // 4 if warm_start else 0
    needed = parameters + draws + seen + known + max(epochs, measuring_bytes(model, data, plan.evaluation), counting)
    held = plan.held
    if plan.tested is not None:
        held += int(plan.tested.data.nbytes)
        needed += plan.tested.scoring_bytes
    return MemoryNeed(held + needed + plan.beside, held=held)


def scoring_bytes(model: Model, data: Dataset, evaluation: Validation, rows: int) -> int:
    """Return bytes that scoring so many rows and computing metrics need."""
    rooms = evaluation.threads * Workspace.bytes_needed(model, data.longest, gradients=False)
    return rooms + Outcome.bytes_needed(rows, model.columns)


def measuring_bytes(model: Model, data: Dataset, evaluation: Validation) -> int:
    """Return bytes that scoring the rows by which a trained model is measured, and computing metrics, need."""
    return scoring_bytes(model, data, evaluation, measured_at_most(data))
