"""A solver's state among the arrays of a model file."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fmcli.models.model import Model

# Name of a state array in a model file: slot 0 of V is state.0.V.
STATE = "state"


def state_arrays(model: Model) -> dict[str, NDArray[Any]]:
    """The solver's state by the names it has in model files."""
    return {state_name(slot, name): array for name, slots in model.states.items() for slot, array in enumerate(slots)}


def state_name(slot: int, name: str) -> str:
    """The name that a slot of an array's state has in model files."""
    return f"{STATE}.{slot}.{name}"
