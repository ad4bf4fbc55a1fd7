"""The kinds of models and solvers that --auto compares with a run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fmcli.errors import UsageError
from fmcli.names import find_name
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.modes import suits
from fmcli.registry.ranges import COMMA, Range
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import SOLVER, Spec, make_spec


def suited(spec: Spec, given: Mapping[str, object], *, model_given: bool) -> tuple[Spec, list[Spec]]:
    """Return the spec and its alternatives that suit the modes of a command's options. If the spec itself does not suit
    them, return an alternative as the spec, out of all solvers."""
    if suits(given, spec):
        return spec, [one for one in alternatives(spec, model_given=model_given) if suits(given, one)]
    found = [one for one in alternatives(spec, model_given=model_given, every=True) if suits(given, one)]
    return (found[0], found[1:]) if found else (spec, [])


def alternatives(spec: Spec, *, model_given: bool, every: bool = False) -> Iterator[Spec]:
    """Yield specs of other kinds and solvers that take the given options and the loss of a spec.

    model_given : whether the kind was given; then all of its solvers are compared. If the spec's solver was given, only
        kinds are compared.
    every : whether to compare all solvers in any case.
    """
    given = {name: spec.values[name] for name in spec.given if name != SOLVER}
    kinds = [MODELS[spec.model]] if model_given else [kind for kind in MODELS.values() if kind.compared_with]
    for kind in kinds:
        solvers = SOLVERS if model_given or every else kind.compared_with
        for solver in (spec.solver,) if SOLVER in spec.given else solvers:
            if (kind.name, solver) == (spec.model, spec.solver):
                continue
            try:
                alternative = make_spec(kind.name, solver, spec.loss, given)
            except UsageError:
                continue
            yield replace(alternative, given=alternative.given | {SOLVER})


def begun(
    model: str | None, solver: str | None, loss: str | None, options: Mapping[str, Any], ranges: Mapping[str, Range]
) -> Spec:
    """Return the spec that starts a search in ranges: each option has the value nearest to its default. Raises the
    errors of `make_spec`."""
    model = model or DEFAULT_MODEL
    usual = make_spec(model, solver, loss, options).values
    return make_spec(
        model, solver, loss, {**options, **{name: one.nearest(usual.get(name)) for name, one in ranges.items()}}
    )


def combined(
    models: Sequence[str],
    solvers: Sequence[str],
    loss: str | None,
    options: Mapping[str, Any],
    ranges: Mapping[str, Range],
) -> list[Spec]:
    """Return the specs of all valid combinations of kinds and solvers that take the options.

    models, solvers : names; if empty, the ones compared by default.
    ranges : of options; specs have the values that start the search. A named kind or solver need not take an option
        that another kind or solver takes.

    Raises UsageError if there are none.
    """
    found, refused = list[Spec](), list[UsageError]()
    of_models = {name for kind in MODELS.values() for name in kind.options}
    for kind in [MODELS[name] for name in models] or [kind for kind in MODELS.values() if kind.compared_with]:
        for solver in solvers or kind.compared_with or (kind.solver,):
            try:
                usual = make_spec(kind.name, solver, loss, options)
                taken = {
                    name: one
                    for name, one in ranges.items()
                    if usual.takes(name) or not (models if name in of_models else solvers)
                }
                spec = begun(kind.name, solver, loss, options, taken)
            except UsageError as error:
                refused.append(error)
                continue
            found.append(replace(spec, given=spec.given | {SOLVER}))
    for name in ranges:
        if found and not any(spec.takes(name) for spec in found):
            begun(found[0].model, found[0].solver, loss, options, {name: ranges[name]})  # raises with the reason
    if not found:
        raise refused[0]
    return found


def several(
    model: str | None, solver: str | None, loss: str | None, options: Mapping[str, Any], ranges: Mapping[str, Range]
) -> list[Spec]:
    """Return the specs of all kinds and solvers in names with commas; an empty list without commas. The parameters are
    as in `combined`. Raises UsageError if no combination is valid."""
    names = [
        None if text is None else [find_name(what, name, table) for name in text.split(COMMA)]
        for what, text, table in (("model", model, MODELS), (SOLVER, solver, SOLVERS))
    ]
    if all(found is None or len(found) < 2 for found in names):
        return []
    models, solvers = names
    return combined(models or (), solvers or (), loss, options, ranges)
