"""Sparsity, the only metric of parameters instead of predictions."""

from __future__ import annotations

from collections.abc import Iterable

from fmcli.base.scan import zeros
from fmcli.models.parameters import Parameters

SPARSITY = "sparsity"


def of_predictions(metrics: Iterable[str]) -> list[str]:
    """Return the metrics that depend on predictions: all but the sparsity."""
    return [name for name in metrics if name != SPARSITY]


def model_sparsity(model: Parameters) -> float:
    """Return the share of exact zeros among the linear weights and factors of all features ([SGL]: n_z / n_a)."""
    names = [name for layout in model.layout for name in layout.names if layout.penalty == "full"]
    arrays = [model.parameters[name] for name in names]
    of_absent = sum(
        model.outputs * layout.rows(model.absent) * layout.columns
        for layout in model.layout
        if layout.penalty == "full" and layout.by_feature
    )
    return (of_absent + sum(map(zeros, arrays))) / max(1, of_absent + sum(array.size for array in arrays))
