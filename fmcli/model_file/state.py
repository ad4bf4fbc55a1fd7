"""The names of solver state, and of further draws of the parameters, among the arrays of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.models.layout import CUTPOINTS, REAL_TYPE
from fmcli.models.parameters import Parameters

# The prefix of state arrays in a model file: slot 0 of V is state.0.V.
STATE = "state"
# The prefix of what is kept of the loss of the rows as a function of each parameter: past.curvature.V, past.slope.V.
PAST, CURVATURE, SLOPE = "past", "curvature", "slope"
# The prefix of arrays of the draws before the last one, whose arrays have their own names: draw.0.V.
DRAW = "draw"
# The type of numbers in these if many draws are kept of a large model: half of the bytes. Their rounding errors are far
# below what draws differ by, and average out.
HALF = np.dtype("<f2")
MOST_HALF, LEAST_HALF = float(np.finfo(HALF).max), float(np.finfo(HALF).smallest_normal)


def state_arrays(model: Parameters) -> dict[str, NDArray[Any]]:
    """Return the state of the solver by its names in model files."""
    return {state_name(slot, name): array for name, slots in model.states.items() for slot, array in enumerate(slots)}


def state_name(slot: int, name: str) -> str:
    """Return the name of a state slot of an array in model files."""
    return f"{STATE}.{slot}.{name}"


def parameter_of(name: str) -> str:
    """Return the name of the array that a state array, one of a draw or one about the loss of rows belongs to; other
    names do not change."""
    return name.split(".", 2)[2] if name.startswith((f"{STATE}.", f"{DRAW}.", f"{PAST}.")) else name


def past_name(kind: str, name: str) -> str:
    """Return the name in model files of the curvatures or slopes of an array."""
    return f"{PAST}.{kind}.{name}"


def draw_name(number: int, name: str) -> str:
    """Return the name of an array of a draw in model files."""
    return f"{DRAW}.{number}.{name}"


def drawn_names(model: Parameters, members: int = 1) -> list[str]:
    """Return the names of the arrays that each draw has: those that training changes, or for several members of an
    ensemble, which begin with other constants, too, all."""
    if members > 1:
        return [*model.shapes(), *model.constants]
    names = [name for layout in model.layout if layout.trained for name in layout.names]
    return [*names, CUTPOINTS] if model.cutpoints else names


def as_reals(draw: Mapping[str, NDArray[Any]], model: Parameters) -> dict[str, NDArray[Any]]:
    """Return the arrays of a draw as a model attaches them: those of parameters in the type of reals of this build."""
    shapes = model.shapes()
    return {name: array.astype(REAL_TYPE, copy=False) if name in shapes else array for name, array in draw.items()}


def as_halves(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in 16 bits; the same array if a number is too large for these, or all are too small to keep
    their digits."""
    largest = float(max(array.max(initial=0), -array.min(initial=0)))
    fits = largest == 0 or LEAST_HALF <= largest <= MOST_HALF
    return array.astype(HALF) if fits else array
