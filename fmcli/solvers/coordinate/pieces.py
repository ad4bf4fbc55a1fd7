"""The arrays that cd and lbfgs train; and large arrays, part by part: in double precision, a whole one would take
twice the memory of the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.models.layout import BlockLayout
from fmcli.models.parameters import Parameters

# Parameters that are converted to double precision at a time.
NUMBERS_AT_ONCE = 1 << 19
# Rows whose derivatives are summed at a time.
ROWS_AT_ONCE = 1 << 16


def pieces(value: NDArray[Any], numbers: int = NUMBERS_AT_ONCE) -> Iterator[NDArray[Any]]:
    """Yield views of all parts of an array of factors, of about so many numbers."""
    if value.ndim < 2:
        yield value
        return
    axis = int(np.argmax(value.shape[:-1]))
    each = max(1, value.size // max(1, value.shape[axis]))
    step = max(1, numbers // each)
    along = np.moveaxis(value, axis, 0)
    for begin in range(0, len(along), step):
        yield np.moveaxis(along[begin : begin + step], 0, axis)


def is_free(layout: BlockLayout) -> bool:
    """Return whether a block is trained without a constraint."""
    return layout.trained and not layout.constraint


def trained_arrays(model: Parameters) -> list[tuple[BlockLayout, str]]:
    """Return the arrays that are trained without a constraint, by their names, each with its block."""
    return [(layout, name) for layout in model.layout if is_free(layout) for name in layout.names]
