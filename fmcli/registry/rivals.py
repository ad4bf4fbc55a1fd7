"""The kinds of models and solvers that are compared with those of a run (--auto)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fmcli.errors import UsageError
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import SOLVER, Spec, make_spec


def rivals(spec: Spec, *, model_given: bool) -> Iterator[Spec]:
    """Yield specs of other kinds and solvers that take the given options and the loss of a spec.

    model_given : whether the kind was given, so that all of its solvers are compared. If the solver of the spec was
        given, only kinds are.
    """
    given = {name: spec.values[name] for name in spec.given if name != SOLVER}
    kinds = [MODELS[spec.model]] if model_given else [kind for kind in MODELS.values() if kind.rival_with]
    for kind in kinds:
        for solver in (spec.solver,) if SOLVER in spec.given else SOLVERS if model_given else kind.rival_with:
            if (kind.name, solver) == (spec.model, spec.solver):
                continue
            try:
                rival = make_spec(kind.name, solver, spec.loss, given)
            except UsageError:
                continue
            yield replace(rival, given=rival.given | {SOLVER})
