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
from fmcli.registry import MODELS, OPTIONS
from fmcli.specs import Spec

# Name of a state array in a model file: slot 0 of V is state.0.V.
STATE = "state"


def state_arrays(model: Model) -> dict[str, NDArray[Any]]:
    """The solver's state by the names it has in model files."""
    return {state_name(slot, name): array for name, slots in model.states.items() for slot, array in enumerate(slots)}


def state_name(slot: int, name: str) -> str:
    """The name that a slot of an array's state has in model files."""
    return f"{STATE}.{slot}.{name}"


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
    options: Mapping[str, Any]
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
        """Raises UsageError where the model to be trained is of another kind or rank, or for rows of another scale.

        model : as the spec makes it for as many features and fields as the earlier model has.
        """
        if MODELS[spec.model].closed_form:
            raise UsageError(f"{spec.model} is solved anew from its data, not from {self.path}; leave out -i")
        if spec.values["norm"] != self.norm:
            raise UsageError(
                f"{self.path} was trained {'with --norm' if self.norm else 'without --norm'}; so must this be"
            )
        if spec.model != self.kind:
            raise UsageError(f"{self.path} is a model of kind {self.kind}, not {spec.model}; say -m {self.kind}")
        ours_order, theirs_order = spec.values.get("order"), self.options.get("order")
        if ours_order != theirs_order:
            raise UsageError(
                f"{self.path} is of order {theirs_order}, not {ours_order}; say {OPTIONS['order'].flag} {theirs_order}"
            )
        ours, theirs = model.shapes(), self.model.shapes()
        if ours.keys() != theirs.keys():
            different = ", ".join(sorted(ours.keys() ^ theirs.keys()))
            raise UsageError(f"{self.path} and this run differ in having {different}; give the same options")
        for name in ours:
            if ours[name] != theirs[name]:
                sizes = [OPTIONS[size].flag for size in ("rank", "anchors", "pair_bits") if size in spec.values]
                raise UsageError(
                    f"{self.path} has {name} of shape {theirs[name]}, this run {ours[name]}; give its "
                    f"{' and '.join(sizes)}"
                )

    def has_state(self, spec: Spec, solver: Solver) -> bool:
        """Whether its file holds the state of the solver that goes on."""
        return self.solver == spec.solver and self.slots == solver.slots

    def restore_state(self, model: Model, solver: Solver) -> None:
        """Give the solver the kept state, where there is one; features that are new start as in a fresh run."""
        solver.start()
        for name, slots in model.states.items():
            for slot, array in enumerate(slots):
                self.copy_known(name, self.arrays[state_name(slot, name)], array)
        solver.resume(self.updates)

    def also_seen(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which features a run or the earlier model has seen."""
        both = seen.copy()
        both[: len(self.seen)] |= self.seen
        return both

    def copy_known(self, name: str, old: NDArray[Any], new: NDArray[Any]) -> None:
        """Copy what the earlier model has learned of a parameter, or of its state, into an array that may have grown;
        the rest stays."""
        known = self.model.known(name, self.seen)
        known = known.reshape(known.shape + (1,) * (old.ndim - 1 - known.ndim))
        np.copyto(new[tuple(map(slice, old.shape))], old, where=known)


def take_over(earlier: Earlier, model: Model, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Copy an earlier model's parameters into a started one; which features either has seen.

    Features that are new keep their start values.
    """
    for name, array in model.parameters.items():
        earlier.copy_known(name, earlier.model.parameters[name], array)
    model.project()
    return earlier.also_seen(seen)
