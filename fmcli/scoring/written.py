"""Predictions as text."""

from __future__ import annotations

import numpy as np

from fmcli.base.label_unit import LabelUnit
from fmcli.data.writer import format_table, format_values
from fmcli.losses.links import Floats
from fmcli.models.layout import REAL_TYPE


def lines_of(predictions: Floats, unit: LabelUnit) -> bytes:
    """Return a line for each row of predictions (rows, columns). Numbers have the fewest digits that read back as the
    same number of the build's real type; or, if this type is too coarse for the unit of the labels, the decimals that
    the parameters determine."""
    if unit.needs_doubles:
        rows = unit.rounded(predictions).tolist()
        return "".join([f"{' '.join(map(repr, row))}\n" for row in rows]).encode()
    if predictions.shape[1] == 1:
        return format_values(np.ascontiguousarray(predictions[:, 0]))
    return format_table(predictions)


def are_written(predictions: Floats, unit: LabelUnit) -> Floats:
    """Return the predictions with the precision in which they are written."""
    with np.errstate(over="ignore"):
        return predictions if unit.needs_doubles else predictions.astype(REAL_TYPE).astype(np.float64)
