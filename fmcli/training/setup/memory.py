"""The memory of the rows of a run, and of the transform learned from them before training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.labels import Labels
from fmcli.data.scaling import SCALE, ZSCORE, is_scaled
from fmcli.registry.specs import Spec

# Numbers for each column while the scales of columns are checked.
COLUMNS = 6


def held_bytes(datasets: Iterable[Dataset]) -> int:
    """Return bytes of the arrays of some Datasets, which may share them."""
    arrays = {id(array): array for data in datasets for array in data.arrays}
    return sum(array.nbytes for array in arrays.values())


def copied_bytes(spec: Spec, labels: Labels, data: Dataset, held_out: int) -> int:
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
