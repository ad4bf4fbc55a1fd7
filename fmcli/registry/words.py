"""The options of the registry in words: their ranges, their defaults, and the components that take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fmcli.registry.derived import Derived
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.options import COMMON, OPTIONS, Option
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import REFINES, takers_of


def notes(choice: Option, usual: str | None = None) -> str:
    """Return the default and the range of an option: "[default: 0.5; 0 to 1]". usual : the default in words; None: the
    default unless a component has its own."""
    usual = usual_default(choice) if usual is None else usual
    parts = [choice.range()] if choice.choices else []
    parts += [f"default: {usual}"] if usual and not choice.negative else []
    permitted = choice.range(exact=False)
    parts += [permitted] if permitted and not choice.choices else []
    return f"[{'; '.join(parts)}]" if parts else ""


def usual_default(choice: Option, of: Callable[[str], str] = lambda name: OPTIONS[name].flag) -> str:
    """Return the default of an option that applies unless a component has its own. of : a front end's spelling of
    another option, whose value may be the default."""
    return of(REFINES[choice.name]) if choice.name in REFINES else in_words(choice, choice.default)


def takers(choice: Option) -> str:
    """Return the components that take an option: "fm, ffm", "all", or "all but mcmc"."""
    tables = (MODELS, SOLVERS, LOSSES)
    refusers = [entry.name for table in tables for entry in table.values() if choice.name in entry.refuses]
    if choice.name in COMMON:
        return f"all but {', '.join(refusers)}" if refusers else "all"
    return ", ".join(name for table in tables for name in takers_of(table, choice.name))


def defaults_in_words(choice: Option) -> str:
    """Return all defaults of an option: "0.01; 0.03 for ffm; 0.05 for shfm with ftrl; at most 8 for lifted-anova"."""
    special = [
        f"{value} for {', '.join(names)}{f' with {solver}' if solver else ''}"
        for (value, solver), names in special_defaults(choice).items()
    ]
    limits = {kind.name: kind.limits[choice.name] for kind in MODELS.values() if choice.name in kind.limits}
    most = [f"at most {limit} for {name}" for name, limit in limits.items()]
    usual = "not given" if choice.negative else usual_default(choice) or "see the option"
    return "; ".join([usual, *special, *most])


def special_defaults(choice: Option) -> dict[tuple[str, str], list[str]]:
    """Return (default, solver) -> names of the models, solvers and losses whose default of an option differs from the
    usual one; the solver is "" if the default applies to any solver."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in (*SOLVERS.values(), *LOSSES.values(), *MODELS.values()):
        if choice.name in entry.defaults and choice.name not in entry.refuses:
            found.setdefault((in_words(choice, entry.defaults[choice.name]), ""), []).append(entry.name)
        for solver, defaults in entry.with_solver.items() if isinstance(entry, ModelEntry) else ():
            if choice.name in defaults:
                found.setdefault((in_words(choice, defaults[choice.name]), solver), []).append(entry.name)
    return found


def in_words(choice: Option, value: Any) -> str:
    """Return a default of an option as text: for a switch, its flag without dashes; "" for None."""
    if value is None or isinstance(value, Derived):
        return str(value or "")
    if choice.kind is bool:
        flag = choice.name.replace("_", "-")
        return flag if value else f"no-{flag}"
    return value if choice.kind is str else f"{value:g}"
