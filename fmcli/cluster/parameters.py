"""The parameters that the rows of partitions need."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fmcli.cluster.shared import Columns, Values
from fmcli.models.model import Model
from fmcli.solvers.rounds.parameter_rows import read_rows, rows_of


def values_of(model: Model, columns: Columns) -> Values:
    """Return the model's parameters for some features; None: for all."""
    blocks = [
        read_rows(model, number, rows_of(layout, model.outputs, model.features, columns))
        for number, layout in enumerate(model.layout)
    ]
    in_shards = {name for layout in model.layout for name in layout.names}
    others = {name: array.copy() for name, array in model.parameters.items() if name not in in_shards}
    return Values(columns, blocks, others)


def united_columns(found: Iterable[Columns]) -> Columns:
    """Return the union of the features; None (all) if any of them is None."""
    every = list(found)
    if any(columns is None for columns in every):
        return None
    return np.unique(np.concatenate([columns for columns in every if columns is not None]))
