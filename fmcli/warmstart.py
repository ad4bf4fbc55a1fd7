"""Going on from an earlier model: its weights, and its solver's state where that was kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli._core.model import Model
from fmcli._core.solver import Solver
from fmcli.errors import UsageError
from fmcli.labels import Labels
from fmcli.registry import MODELS
from fmcli.specs import Spec

# Name of a state array in a model file: slot 0 of V is state.0.V.
STATE = "state"


def state_arrays(model: Model) -> dict[str, NDArray[Any]]:
    """The solver's state by the names it has in model files."""
    return {f"{STATE}.{slot}.{name}": array for name, slots in model.states.items() for slot, array in enumerate(slots)}


@dataclass(frozen=True)
class Earlier:
    """An earlier model.

    path : its file, for messages.
    model : its parameters, attached.
    arrays : all arrays of its file, state included.
    slots : arrays of solver state that were kept for each of parameters, maybe 0; None: no state was kept.
    updates : those that its solver has made.
    fields : of its data; 0 where it knows none.
    """

    path: str
    model: Model
    kind: str
    solver: str
    labels: Labels
    norm: bool
    seen: NDArray[np.bool_]
    arrays: Mapping[str, NDArray[Any]]
    slots: int | None
    updates: int
    fields: int

    def labels_for(self, spec: Spec) -> Labels:
        """The earlier model's labels, for the loss stays what it is. Raises UsageError where another is asked for."""
        if spec.loss is not None and spec.loss != self.labels.loss:
            raise UsageError(f"{self.path} was trained with loss {self.labels.loss}, not {spec.loss}")
        return self.labels

    def check(self, spec: Spec, model: Model) -> None:
        """Raises UsageError where the model to be trained is of another kind or rank, or for rows of another scale."""
        if MODELS[spec.model].closed_form:
            raise UsageError(f"{spec.model} is solved anew from its data, not from {self.path}; leave out -i")
        if spec.values["norm"] != self.norm:
            raise UsageError(
                f"{self.path} was trained {'with --norm' if self.norm else 'without --norm'}; so must this be"
            )
        if spec.model != self.kind:
            raise UsageError(f"{self.path} is a model of kind {self.kind}, not {spec.model}; say -m {self.kind}")
        ours, theirs = model.shapes(), self.model.shapes()
        if ours.keys() != theirs.keys():
            different = ", ".join(sorted(ours.keys() ^ theirs.keys()))
            raise UsageError(f"{self.path} and this run differ in having {different}; give the same options")
        for name in ours:
            axis = model.feature_axis(name)
            if without(ours[name], axis) != without(theirs[name], axis):
                raise UsageError(
                    f"{self.path} has {name} of shape {theirs[name]}, this run {ours[name]}; give its --rank"
                )

    def has_state(self, spec: Spec, solver: Solver) -> bool:
        """Whether its file holds the state of the solver that goes on."""
        return self.solver == spec.solver and self.slots == solver.slots

    def restore_state(self, model: Model, solver: Solver) -> None:
        """Give the solver the kept state, where there is one; features that are new start as in a fresh run."""
        solver.start()
        for name, array in state_arrays(model).items():
            self.copy_known(self.arrays[name], array, model.feature_axis(name.split(".", 2)[2]))
        solver.resume(self.updates)

    def also_seen(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which features a run or the earlier model has seen."""
        both = seen.copy()
        both[: len(self.seen)] |= self.seen
        return both

    def copy_known(self, old: NDArray[Any], new: NDArray[Any], axis: int | None) -> None:
        """Copy what belongs to features that the earlier model has seen, or to none, into an array of a model that may
        have more features; the rest stays. `axis` counts features; None: none does."""
        if axis is None:
            new[...] = old
        else:
            known = np.flatnonzero(self.seen)
            np.moveaxis(new, axis, 0)[known] = np.moveaxis(old, axis, 0)[known]


def without(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """A shape without one of its axes."""
    return shape if axis is None else shape[:axis] + shape[axis + 1 :]


def take_over(earlier: Earlier, model: Model, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Copy an earlier model's parameters into a started one; which features either has seen.

    Features that are new keep their start values.
    """
    for name, array in model.parameters.items():
        earlier.copy_known(earlier.model.parameters[name], array, model.feature_axis(name))
    model.go_on(earlier.seen)
    return earlier.also_seen(seen)
