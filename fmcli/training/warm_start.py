"""Warm start: resuming from an earlier model, with its options, its parameters, and its solver's state if kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import Labels
from fmcli.data.occurrences import UNKNOWN, Occurrences
from fmcli.data.scaling import Divisors
from fmcli.errors import UsageError
from fmcli.model_file.state import state_name
from fmcli.models.model import Model
from fmcli.registry.losses import CLIPPED_LOSS, LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import REFINES, SOLVER, Spec, as_given, make_spec, takes
from fmcli.scoring.metrics import Range
from fmcli.solvers.trainer import Trainer

# Options that are penalties, not the losses' own.
PENALTIES = frozenset(
    name
    for name, option in OPTIONS.items()
    if option.group == "penalty" and not any(name in loss.options for loss in LOSSES.values())
)


@dataclass(frozen=True)
class WarmStart:
    """An earlier model, from which training resumes.

    path : its file, for messages.
    model : the model, attached to the arrays of the file.
    arrays : all arrays of its file, including the solver's state.
    options : all options of its run, with defaults filled in.
    given : names of the options that its run was explicitly given; SOLVER means the solver.
    slots : number of state arrays that were kept for each parameter array, possibly 0; None: no state was kept.
    updates : number of updates that its solver has made.
    epochs : number of epochs that its parameters were trained for, in its run and the runs that it resumed from.
    fields : number of fields of its data; 0 if the model has no fields.
    range : of the labels it was trained on, if predictions can be clipped to it.
    occurrences : how often features occur in the rows it was trained on.
    """

    path: str
    model: Model
    kind: str
    options: Mapping[str, Any]
    solver: str
    labels: Labels
    norm: bool
    scale: Divisors | None
    seen: NDArray[np.bool_]
    arrays: Mapping[str, NDArray[Any]]
    slots: int | None
    updates: int
    epochs: int
    fields: int
    given: frozenset[str]
    range: Range | None
    occurrences: Occurrences = UNKNOWN

    def labels_for(self, spec: Spec) -> Labels:
        """The earlier model's labels, under the loss of the spec. Raises UsageError for a loss that takes others."""
        loss = spec.loss or self.labels.loss
        if LOSSES[loss].task != LOSSES[self.labels.loss].task:
            raise UsageError(
                f"{self.path} was trained with loss {self.labels.loss}, not {loss}, whose labels mean something else; "
                f"leave out --loss {loss}"
            )
        return replace(self.labels, loss=loss)

    def continued(self, model: str | None, solver: str | None, loss: str | None, options: Mapping[str, Any]) -> Spec:
        """The spec of a run that resumes from this model; arguments that are None or missing are inherited.

        Inherited are the options that the earlier run was given, and all options that the meaning of its parameters
        depends on; other defaults are computed again. Penalties are not inherited by another kind of model, which has
        its own, nor between solvers of which one weighs them against the sum of the losses and the other against their
        mean. A solver's options are not inherited by another solver.

        Raises the errors of make_spec.
        """
        kind = model or self.kind
        for name in (self.kind, kind):
            if name in MODELS and MODELS[name].closed_form:
                raise UsageError(f"{name} is solved from its data and cannot resume from {self.path}; leave out -i")
        chosen = solver or (self.solver if SOLVER in self.given else None)
        taking = chosen or (MODELS[kind].solver if kind in MODELS else self.solver)
        names = self.lasting() | (self.given - {SOLVER, "epochs"})
        if taking != self.solver:
            names -= set(SOLVERS[self.solver].options)
        if kind != self.kind or sums_losses(taking) != sums_losses(self.solver):
            names -= PENALTIES
        names -= {part for part, whole in REFINES.items() if whole in options}
        if (loss or self.labels.loss) != CLIPPED_LOSS and self.options.get("clip"):
            names.discard("clip")
        inherited = {
            name: self.options[name]
            for name in names - options.keys()
            if name in self.options and takes(name, kind, taking, loss or self.labels.loss)
        }
        spec = make_spec(kind, chosen, loss or self.labels.loss, {**inherited, **options})
        return replace(spec, given=spec.given - (inherited.keys() - self.given))

    def lasting(self) -> set[str]:
        """Options that determine the meaning of the parameters or scores, whether they were given or not."""
        return {"scale", "norm", "clip", *MODELS[self.kind].options} - REFINES.keys()

    def kept(self, spec: Spec) -> list[str]:
        """The options of the earlier run that a spec has inherited, in words: "solver ftrl", "--rank 16"."""
        solver = [f"{SOLVER} {spec.solver}"] if SOLVER in self.given and spec.solver == self.solver else []
        names = sorted(self.given & spec.values.keys() - {"epochs"})
        return solver + [in_words(name, spec.values[name]) for name in names if spec.values[name] == self.options[name]]

    def changes(self, spec: Spec) -> list[str]:
        """The differences from the earlier run, in words: "--l2 0.001 (was 1e-05)". Options that only the earlier run
        has are listed if it was given them."""
        changes = [
            f"{what} {now} (was {before})"
            for what, now, before in (
                ("model", spec.model, self.kind),
                (SOLVER, spec.solver, self.solver),
                ("loss", spec.loss, self.labels.loss),
            )
            if now != before
        ]
        moved = {
            name: (before, spec.values[name])
            for name, before in self.options.items()
            if name in spec.values and spec.values[name] != before and name != "epochs"
        }
        for name, (before, now) in moved.items():
            if name not in REFINES or moved.get(REFINES[name]) != (before, now):
                was = in_words(name, before).rpartition(" ")[2]
                changes.append(f"{in_words(name, now)} (was {was})")
        dropped = sorted(name for name in self.given & self.options.keys() if name not in spec.values)
        return changes + [f"without {in_words(name, self.options[name])}" for name in dropped]

    def check(self, spec: Spec, model: Model) -> None:
        """Raises UsageError if the model to be trained has other parameters.

        model : as the spec makes it for as many features and fields as the earlier model has.
        """
        if MODELS[spec.model].closed_form:
            raise UsageError(f"{spec.model} is solved from its data and cannot resume from {self.path}; leave out -i")
        if MODELS[spec.model].path != MODELS[self.kind].path:
            raise UsageError(
                f"{self.path} is a model of kind {self.kind}, whose parameters are not those of {spec.model}; use -m "
                f"{self.kind}"
            )
        ours_order, theirs_order = spec.values.get("order"), self.options.get("order")
        if ours_order != theirs_order:
            raise UsageError(
                f"{self.path} is of order {theirs_order}, not {ours_order}; use {OPTIONS['order'].flag} {theirs_order}"
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

    def keep_scale(self, divisors: Divisors, method: str) -> None:
        """Replace the divisors of columns that this model has seen by its own, if they are from the same method."""
        if self.scale is not None and self.options["scale"] == method:
            np.copyto(divisors[: len(self.seen)], self.scale, where=self.seen)

    def has_state(self, spec: Spec, slots: int) -> bool:
        """Whether its file has the state of the spec's solver: `slots` state arrays beside each parameter array."""
        return self.solver == spec.solver and self.slots == slots

    def restore_state(self, model: Model, trainer: Trainer) -> None:
        """Restore the saved state in a prepared trainer; new features keep the state of a new run."""
        for name, slots in model.states.items():
            for slot, array in enumerate(slots):
                self.copy_known(name, self.arrays[state_name(slot, name)], array)
        trainer.resume(self.updates)

    def also_seen(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool (features): which features a run or the earlier model has seen."""
        both = seen.copy()
        both[: len(self.seen)] |= self.seen
        return both

    def copy_known(self, name: str, old: NDArray[Any], new: NDArray[Any]) -> None:
        """Copy the values that the earlier model has learned, of a parameter or its state, into an array that may be
        larger; the other values stay."""
        known = self.model.known(name, self.seen)
        known = known.reshape(known.shape + (1,) * (old.ndim - 1 - known.ndim))
        np.copyto(new[tuple(map(slice, old.shape))], old, where=known)


def sums_losses(solver: str) -> bool:
    """Whether a solver weighs penalties against the sum of the losses, not their mean."""
    return solver in SOLVERS and SOLVERS[solver].sums_losses


def in_words(name: str, value: Any) -> str:
    """An option with a value, as on the command line."""
    option = OPTIONS[name]
    if option.kind is not bool:
        return f"{option.flag} {as_given(value)}"
    flag = name.replace("_", "-")
    return f"--{flag}" if value else f"--no-{flag}"


def take_over(earlier: WarmStart, model: Model, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Copy an earlier model's parameters into a model that has its start values, which new features keep.

    Returns bool (features): which features either has seen.
    """
    for name, array in model.parameters.items():
        earlier.copy_known(name, earlier.model.parameters[name], array)
    model.project()
    return earlier.also_seen(seen)
