"""The names of solver state and of earlier draws of the parameters among the arrays of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.models.kept import HALF, widened
from fmcli.models.layout import CUTPOINTS, REAL_TYPE
from fmcli.models.parameters import Parameters

# The prefix of state arrays in a model file: slot 0 of V is state.0.V.
STATE = "state"
# The prefix of a parameter's curvature and slope of the loss of earlier rows: past.curvature.V, past.slope.V.
PAST, CURVATURE, SLOPE = "past", "curvature", "slope"
# What the rows say about pairs of features: the sum of values * basis basis'.
PAIR_BASIS, PAIR_VALUES = "pairs.basis", "pairs.values"
# The prefix of the arrays of all draws but the last, whose arrays have their own names: draw.0.V.
DRAW = "draw"
MOST_HALF, LEAST_HALF = float(np.finfo(HALF).max), float(np.finfo(HALF).smallest_normal)


def state_arrays(model: Parameters) -> dict[str, NDArray[Any]]:
    """Return the state of the solver by names in model files."""
    return {state_name(slot, name): array for name, slots in model.states.items() for slot, array in enumerate(slots)}


def state_name(slot: int, name: str) -> str:
    """Return the name of an array's state slot in model files."""
    return f"{STATE}.{slot}.{name}"


def parameter_of(name: str) -> str:
    """Return the name of the array that a state array, a draw's array or an array about past rows belongs to; other
    names do not change."""
    return name.split(".", 2)[2] if name.startswith((f"{STATE}.", f"{DRAW}.", f"{PAST}.")) else name


def past_name(kind: str, name: str) -> str:
    """Return the name of an array's curvatures or slopes in model files."""
    return f"{PAST}.{kind}.{name}"


def draw_name(number: int, name: str) -> str:
    """Return the name of a draw's array in model files."""
    return f"{DRAW}.{number}.{name}"


def drawn_names(model: Parameters, members: int = 1) -> list[str]:
    """Return the names of the arrays of each draw: the arrays that training changes; for an ensemble, all arrays,
    because its members begin with different constants, too."""
    if members > 1:
        return [*model.shapes(), *model.constants]
    names = [name for layout in model.layout if layout.trained for name in layout.names]
    return [*names, CUTPOINTS] if model.cutpoints else names


def as_reals(draw: Mapping[str, NDArray[Any]], model: Parameters) -> dict[str, NDArray[Any]]:
    """Return a draw's arrays in the types that a model attaches: parameters in the real type of the build."""
    whole = {name: widened(array) if array.dtype == HALF else array for name, array in draw.items()}
    return as_kept(whole, model)


def as_kept(draw: Mapping[str, NDArray[Any]], model: Parameters) -> dict[str, NDArray[Any]]:
    """Return a draw's arrays. Parameters have the real type of the build unless they are kept in 16 bits."""
    shapes = model.shapes()
    return {
        name: array.astype(REAL_TYPE, copy=False) if name in shapes and array.dtype != HALF else array
        for name, array in draw.items()
    }


def as_halves(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in 16 bits; or the same array if 16 bits cannot hold its largest number, or would lose its
    digits."""
    largest = float(max(array.max(initial=0), -array.min(initial=0)))
    fits = largest == 0 or LEAST_HALF <= largest <= MOST_HALF
    return array.astype(HALF) if fits else array
