"""The parameters that the rows of partitions need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fmcli.cluster import work
from fmcli.cluster.residents import Resident
from fmcli.cluster.shared import Columns, Values
from fmcli.models.model import Model
from fmcli.solvers.rounds.parameter_rows import read_rows, rows_of

if TYPE_CHECKING:
    from fmcli.cluster.cache import PartitionedCache


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


def columns_of_each(partitions: PartitionedCache, shared: Resident) -> dict[int, Columns]:
    """Return the features that the rows of each partition have; None: all are needed."""
    return dict(partitions.each(work.columns_of, shared, purpose="looking at"))
