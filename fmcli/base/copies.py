"""Copies of arrays with short rows that lie apart, such as parameters between the state of a solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def copy_to(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy an array into another of its shape.

    Numpy copies such a row number by number, unless the row is one item: rows of 4 floats took three times as long.
    """
    if target.ndim > 1 and target.shape == source.shape and target.dtype == source.dtype:
        row = np.dtype(f"V{target.shape[-1] * target.itemsize}")
        if target.itemsize < row.itemsize and target.strides[-1] == source.strides[-1] == target.itemsize:
            target, source = target.view(row), source.view(row)
    target[...] = source


def copy_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy in C order."""
    copy = np.empty(array.shape, array.dtype)
    copy_to(copy, array)
    return copy
