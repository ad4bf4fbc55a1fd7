"""The run that a warm start comes from: the choices that another run inherits, and the choices that it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from fmcli.records import dataclass
from fmcli.registry.derived import Derived
from fmcli.registry.losses import CLIPPED_LOSS, LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import HYPERPRIORS, POOLED, SOLVERS
from fmcli.registry.specs import OF_SCHEDULE, REFINES, SCALE_LABELS, SOLVER, Spec, make_spec, takes

# Options that are penalties, not the losses' own.
PENALTIES = frozenset(
    name
    for name, option in OPTIONS.items()
    if option.group == "penalty" and not any(name in loss.options for loss in LOSSES.values())
)


# The solver of new features, and its options: as many epochs as it takes until all parameters stand still.
LEARNS_NEW = next(solver for solver in SOLVERS.values() if solver.learns_new)
OF_NEW_FEATURES = {"epochs": 1000, "tol": 1e-6, "l1_from_epoch": 1}
# Of observed pairs: their penalties are weaker, so rounding errors move parameters further.
OF_NEW_PAIRS = {"epochs": 300, "tol": 1e-5, "l1_from_epoch": 1}
# The sweeps over the new features for each draw of a solver that samples; the last sweep is kept. The factors of a
# feature are drawn jointly, given all others, so a few sweeps forget the start.
SWEEPS = {"epochs": 20, "burn_in": 19, "draws": 1}


@dataclass(frozen=True)
class PreviousRun:
    """The choices of the run that trained a model.

    options : all options, with defaults filled in.
    given : names of the options that the run was explicitly given; SOLVER means the solver.
    epochs : the number of epochs that the parameters were trained for, in this run and in the runs it resumed from.
    multiples : as of Spec.
    """

    model: str
    solver: str
    loss: str
    options: Mapping[str, Any]
    given: frozenset[str]
    epochs: int
    multiples: Mapping[str, float] = field(default_factory=dict)

    def continued(self, model: str | None, solver: str | None, loss: str | None, options: Mapping[str, Any]) -> Spec:
        """Return the spec of a run that resumes from this one's model; arguments that are None or missing are
        inherited.

        Raises the errors of make_spec.
        """
        inherited = self.inherited(model, solver, loss, options)
        chosen = solver or (self.solver if SOLVER in self.given else None)
        spec = make_spec(model or self.model, chosen, loss or self.loss, {**inherited, **options})
        return self.with_multiples(replace(spec, given=spec.given - (inherited.keys() - self.given)), inherited)

    def with_multiples(self, spec: Spec, inherited: Mapping[str, Any]) -> Spec:
        """Return the spec in which inherited penalties that the data have chosen are as many times the default, which
        is weaker for more rows."""
        usual = make_spec(spec.model, spec.solver, spec.loss).values
        multiples = {name: self.multiples[name] for name in self.multiples.keys() & inherited.keys()}
        multiples = {name: factor for name, factor in multiples.items() if isinstance(usual[name], Derived)}
        values = {**spec.values, **{name: usual[name].times(factor) for name, factor in multiples.items()}}
        return replace(spec, values=values, multiples=multiples)

    def of_new_features(self, options: Mapping[str, Any], *, of_pairs: bool = False) -> Spec:
        """Return the spec of a run that learns new features alone: by coordinate descent, whatever solver this run had,
        with that solver's penalties, which are then relative to the sum of the losses, or with the penalties of this
        run on observed pairs, which depend on the pairs of a feature; or if this run's solver samples, by that one.

        Raises the errors of make_spec.
        """
        sampled = SOLVERS[self.solver].is_sampler
        kind, solver = MODELS[self.model], SOLVERS[self.solver] if sampled else LEARNS_NEW
        of_priors = (*HYPERPRIORS, POOLED) if sampled else ()
        names = self.options.keys() & {*self.lasting(), *LOSSES[self.loss].options, *of_priors}
        lasting = {name: self.options[name] for name in names if takes(name, self.model, solver.name, self.loss)}
        if sampled:
            return make_spec(self.model, solver.name, self.loss, {**lasting, **SWEEPS, **options})
        usual = self.options if of_pairs else {**solver.defaults, **kind.with_solver.get(solver.name, {})}
        ending = OF_NEW_PAIRS if of_pairs else OF_NEW_FEATURES
        penalties = {name: usual[name] for name in ("l2_w", "l2_v") if REFINES[name] not in options}
        return make_spec(self.model, solver.name, self.loss, {**lasting, **penalties, **ending, **options})

    def inherited(
        self, model: str | None, solver: str | None, loss: str | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the options of this run that a run inherits which resumes from its model, with these choices.

        These are the options that this run was given, and all options that the meaning of its parameters depends
        on; other defaults are computed again. Penalties are not inherited by another kind of model, which has its own,
        nor between a solver that weighs them against the sum of the losses and a solver that weighs them against the
        mean, nor from a solver that dense rows chose, because a quick search chose its penalties. A
        solver's options are not inherited by another solver.
        """
        kind, new_loss = model or self.model, loss or self.loss
        chosen = solver or (self.solver if SOLVER in self.given else None)
        taking = chosen or (MODELS[kind].solver if kind in MODELS else self.solver)
        names = self.lasting() | (self.given - {SOLVER, "epochs"})
        if taking != self.solver:
            names -= set(SOLVERS[self.solver].options)
        by_data = SOLVER not in self.given and taking != self.solver != MODELS[self.model].solver
        if kind != self.model or by_data or sums_losses(taking) != sums_losses(self.solver):
            names -= PENALTIES
        names -= {part for part, whole in REFINES.items() if whole in options}
        schedule = options.get("schedule", self.options.get("schedule"))
        names -= {name for name, owner in OF_SCHEDULE.items() if owner != schedule}
        if new_loss != CLIPPED_LOSS and self.options.get("clip"):
            names.discard("clip")
        return {
            name: self.options[name]
            for name in names - options.keys()
            if name in self.options and takes(name, kind, taking, new_loss)
        }

    def lasting(self) -> set[str]:
        """Return options that determine the meaning of the parameters or scores, whether they were given or not."""
        return {"scale", "norm", "clip", SCALE_LABELS, *MODELS[self.model].options} - REFINES.keys()

    def kept(self, spec: Spec) -> dict[str, Any]:
        """Return name -> value of the choices that this run was given and a spec has inherited."""
        solver = {SOLVER: spec.solver} if SOLVER in self.given and spec.solver == self.solver else {}
        names = sorted(self.given & spec.values.keys() - {"epochs"})
        return solver | {name: spec.values[name] for name in names if spec.values[name] == self.options[name]}

    def changed(self, spec: Spec) -> dict[str, tuple[Any, Any]]:
        """Return name -> (value in this run, value in the spec) of the choices that differ. An option that refines
        another one is omitted if both change in the same way."""
        before = {"model": self.model, SOLVER: self.solver, "loss": self.loss, **self.options}
        after = {"model": spec.model, SOLVER: spec.solver, "loss": spec.loss, **spec.values}
        changed = {
            name: (before[name], after[name])
            for name in before
            if name in after and before[name] != after[name] and name != "epochs"
        }
        return {name: both for name, both in changed.items() if changed.get(REFINES.get(name, "")) != both}

    def dropped(self, spec: Spec) -> dict[str, Any]:
        """Return name -> value of the options that this run was given and a spec does not take."""
        return {name: self.options[name] for name in sorted(self.given & self.options.keys() - spec.values.keys())}


def sums_losses(solver: str) -> bool:
    """Return whether a solver weighs penalties against the sum of the losses, not their mean."""
    return solver in SOLVERS and SOLVERS[solver].sums_losses
