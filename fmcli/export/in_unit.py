"""The parameters of a model in the unit of its labels: its formula then gives scores in the user's unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import LabelUnit

Arrays = dict[str, NDArray[Any]]

# The name of the array with the center and the scale, if other arrays cannot include them.
UNIT = "unit"
# Linear terms, the weights of pairs, and the weights of kernels or degrees: scores are linear in each.
LINEAR, WEIGHTS = ("w", "W"), ("beta", "theta")
# The factors of the first of the functions whose product is a term.
FIRST = ("U1", "U")
OF_DEGREE = re.compile(r"P(\d+)")
# The factors of a term (as many as the order, or two), and the numbers that multiply them in place of constants.
FACTORS = ("V", "P", "v0", "gamma")


def in_unit(arrays: Arrays, unit: LabelUnit, options: Mapping[str, Any]) -> Arrays:
    """Return a model's exported arrays (guide/exporting.md) changed so that the formula of its kind gives center +
    scale * score. If the terms of the kind have no common degree, the array UNIT has both numbers.

    options : the options of the model; `order` is the number of factors of a term.
    """
    if unit.is_one:
        return arrays
    degrees = degrees_of(arrays, options)
    if degrees is None:
        return {**arrays, UNIT: np.array(unit.pair)}
    found = dict(arrays)
    for name, degree in degrees.items():
        found[name] = (arrays[name] * unit.scale ** (1 / degree)).astype(arrays[name].dtype)
    if "U1" in arrays and "gamma" in arrays:  # the constants of each function; the next to last axis has the functions
        found["gamma"] = arrays["gamma"].copy()
        found["gamma"][..., 0, :] *= unit.scale
    if "bias" in arrays:
        found["bias"] = unit.undo(arrays["bias"].astype(np.float64))
    return found


def degrees_of(arrays: Arrays, options: Mapping[str, Any]) -> dict[str, int] | None:
    """Return name -> the number of factors of a term in this array; arrays without an entry stay unchanged. None: the
    model's terms have different numbers of factors."""
    linear = {name: 1 for name in LINEAR if name in arrays}
    for names in (WEIGHTS, FIRST):
        if chosen := [name for name in names if name in arrays]:
            return {**linear, chosen[0]: 1}
    by_degree = {name: int(match[1]) for name in arrays if (match := OF_DEGREE.fullmatch(name))}
    factors = [name for name in FACTORS if name in arrays]
    if "P" in factors and "order" not in options:
        return None
    return {**linear, **by_degree, **dict.fromkeys(factors, options.get("order", 2))}
