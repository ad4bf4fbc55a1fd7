"""Finite numbers, and the message for numbers that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from fmcli.base.scan import all_finite


def are_finite(arrays: Iterable[NDArray[Any]]) -> bool:
    """Return whether all numbers of all arrays are finite; integers are. Unlike np.isfinite, this makes no array of
    answers."""
    return all(all_finite(array) for array in arrays if array.dtype.kind == "f")


def finite(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures with None for NaN and infinity, which JSON does not have, also inside nested figures and
    lists."""

    def one(value: Any) -> Any:
        if isinstance(value, dict):
            return finite(value)
        if isinstance(value, list):
            return [one(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {name: one(value) for name, value in figures.items()}
