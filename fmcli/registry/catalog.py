"""The lists of models, solvers, losses and penalties, and their valid combinations, as determined by the checks of
`make_spec`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fmcli.errors import UsageError
from fmcli.registry.derived import Derived
from fmcli.registry.entry import Entry
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.options import COMMON, OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import REFINES, make_spec, takes

# Penalties by option name.
PENALTIES = {name: OPTIONS[name] for name in COMMON if OPTIONS[name].group == "penalty"}
# The value with which `refusal` tries a penalty option; an option that counts epochs is tried with its lowest value.
SOME_STRENGTH = 1e-3


def catalog() -> dict[str, list[dict[str, Any]]]:
    """Return all entries by type of component, each with the defaults of its options and the components that it
    supports."""
    return {
        "models": [
            {
                **described(model),
                "solver": model.solver,
                "with_solver": {
                    solver: {name: in_json(value) for name, value in defaults.items()}
                    for solver, defaults in model.with_solver.items()
                },
                "solvers": [name for name in SOLVERS if not refusal(model.name, name)],
                "losses": [name for name in LOSSES if not refusal(model.name, loss=name)],
                "penalties": [name for name in PENALTIES if not refusal(model.name, penalty=name)],
            }
            for model in MODELS.values()
        ],
        "solvers": [
            {
                **described(solver),
                "losses": [name for name in LOSSES if not refusal(solver=solver.name, loss=name)],
                "penalties": [name for name in PENALTIES if not refusal(solver=solver.name, penalty=name)],
            }
            for solver in SOLVERS.values()
        ],
        "losses": [{**described(loss), "labels": loss.task} for loss in LOSSES.values()],
        "penalties": [
            {"name": name, "flag": penalty.flag, "help": penalty.help, "default": in_json(penalty.default)}
            for name, penalty in PENALTIES.items()
        ],
    }


def defaults_by_solver(model: str) -> dict[str, dict[str, Any]]:
    """Return solver -> option -> its default in a run of a model, for the options that such runs take. Options that
    refine another option and have its value are left out. The model's own solver and options come first."""
    usual = MODELS[model].solver
    solvers = [usual, *(name for name in SOLVERS if name != usual and not refusal(model, name))]
    specs = [make_spec(model, None if name == usual else name) for name in solvers]
    return {
        spec.solver: {
            name: in_json(spec.values[name])
            for name in dict.fromkeys((*MODELS[model].options, *spec.solver_entry.options, *spec.values))
            if takes(name, model, spec.solver, spec.loss or "") and not is_whole(name, spec.values)
        }
        for spec in specs
    }


def is_whole(name: str, values: Mapping[str, Any]) -> bool:
    """Return whether an option refines another option and has its value."""
    return name in REFINES and REFINES[name] in values and values[name] == values[REFINES[name]]


def described(entry: Entry) -> dict[str, Any]:
    """Return the name, the help, and the options with their defaults of an entry; None: the default of another
    option."""
    return {
        "name": entry.name,
        "help": entry.help,
        "options": {name: in_json(entry.defaults.get(name, OPTIONS[name].default)) for name in options_of(entry)},
    }


def options_of(entry: Entry) -> Iterator[str]:
    """Yield the options that an entry takes, or whose default it changes, except for options that it refuses."""
    yield from entry.options
    yield from (name for name in entry.defaults if name not in entry.options and name not in entry.refuses)


def in_json(default: Any) -> Any:
    """Return a default as a JSON value. A default that depends on the data is described in words."""
    return default.text if isinstance(default, Derived) else default


def refusal(
    model: str = DEFAULT_MODEL,
    solver: str | None = None,
    loss: str | None = None,
    penalty: str | None = None,
    of: Callable[[str], str] = str,
) -> str:
    """Return why this combination is refused, with choices spelled by `of`, or "" if it is supported."""
    option = OPTIONS[penalty] if penalty else None
    options: Mapping[str, Any] = {option.name: option.kind(max(option.low or 0, SOME_STRENGTH))} if option else {}
    try:
        make_spec(model, solver, loss, options)
    except UsageError as error:
        return error.text(of)
    return ""


def refusals(of: Callable[[str], str]) -> list[str]:
    """Return the reasons why combinations are refused, each once, in the order of the registry, with choices spelled by
    `of`."""
    return list(
        dict.fromkeys(
            reason
            for reason in (
                *(refusal(model, solver, of=of) for model in MODELS for solver in SOLVERS),
                *(refusal(model, loss=loss, of=of) for model in MODELS for loss in LOSSES),
                *(refusal(model, penalty=penalty, of=of) for model in MODELS for penalty in PENALTIES),
                *(refusal(solver=solver, loss=loss, of=of) for solver in SOLVERS for loss in LOSSES),
                *(refusal(solver=solver, penalty=penalty, of=of) for solver in SOLVERS for penalty in PENALTIES),
            )
            if reason
        )
    )
