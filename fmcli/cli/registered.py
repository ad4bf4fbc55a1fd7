"""Options of the registry as options of the command line, their notes in help, and their defaults by component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fmcli.cli.options import F, option
from fmcli.cli.spellings.translate import LIBFM
from fmcli.registry.derived import Derived, of_libfm
from fmcli.registry.entry import Entry
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.options import COMMON, OPTIONS, Option
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import REFINES, takers_of

METAVARS = {int: "N", float: "X", str: "NAME"}


def by_degree(kind: type) -> Callable[[str], Any]:
    """Return the type of an option that is a number, or several numbers separated by slashes."""
    one = click.types.convert_type(kind)

    def convert(value: str) -> Any:
        numbers = [one(part) for part in value.split("/")]
        return numbers if len(numbers) > 1 else numbers[0]

    return convert


def strength(value: str) -> float | Derived:
    """Return the type of an L2 penalty option: a number, or the prefix LIBFM and a strength in libFM's convention."""
    number = float(click.FLOAT(value.removeprefix(LIBFM)))
    return of_libfm(number) if value.startswith(LIBFM) else number


# Types of options whose values are not only numbers.
TYPES = {"l2_w": strength, "l2_v": strength}


def registered(section: str) -> Callable[[F], F]:
    """Return the options of one group of the registry. An option that is not given is None, to distinguish it from a
    given default."""

    def decorate(function: F) -> F:
        for choice in reversed([choice for choice in OPTIONS.values() if choice.group == section]):
            function = _registered(choice)(function)
        return function

    return decorate


def _registered(choice: Option) -> Callable[[F], F]:
    flag = choice.name.replace("_", "-")
    text = f"{choice.help} {notes(choice)}".rstrip()
    if choice.kind is bool:
        declaration = f" /--no-{flag}" if choice.negative else f"--{flag}/--no-{flag}"
        return option(choice.group, declaration, choice.name, default=None, help=text)
    return option(
        choice.group,
        *choice.flags,
        f"--{flag}",
        choice.name,
        type=by_degree(choice.kind) if choice.by_degree else TYPES.get(choice.name, choice.kind),
        metavar=METAVARS[choice.kind],
        help=text,
        names=choice.choices,
    )


def notes(choice: Option) -> str:
    """Return the usual default of an option and its range: "[default: 0.5; 0 to 1]"."""
    parts = [choice.range()] if choice.choices else []
    usual = usual_default(choice)
    parts += [f"default: {usual}"] if usual and not choice.negative else []
    permitted = choice.range(exact=False)
    parts += [permitted] if permitted and not choice.choices else []
    return f"[{'; '.join(parts)}]" if parts else ""


def usual_default(choice: Option) -> str:
    """Return the default of an option, unless a component has one of its own."""
    return OPTIONS[REFINES[choice.name]].flag if choice.name in REFINES else in_words(choice, choice.default)


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
    """Return (default, solver) -> names of the models, solvers and losses with a default of an option that differs from
    its usual one; the solver is "" if the default applies to any solver."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in (*SOLVERS.values(), *LOSSES.values(), *MODELS.values()):
        if shows(entry, choice.name):
            found.setdefault((in_words(choice, entry.defaults[choice.name]), ""), []).append(entry.name)
        for solver, defaults in entry.with_solver.items() if isinstance(entry, ModelEntry) else ():
            if choice.name in defaults:
                found.setdefault((in_words(choice, defaults[choice.name]), solver), []).append(entry.name)
    return found


def shows(entry: Entry, name: str) -> bool:
    """Return whether an entry has a separate default for an option that it does not refuse."""
    return name in entry.defaults and name not in entry.refuses


def in_words(choice: Option, value: Any) -> str:
    """Return a default of an option as text: for a switch, the flag without its dashes; "" for None."""
    if value is None or isinstance(value, Derived):
        return str(value or "")
    if choice.kind is bool:
        flag = choice.name.replace("_", "-")
        return flag if value else f"no-{flag}"
    return value if choice.kind is str else f"{value:g}"
