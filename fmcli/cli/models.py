"""fmcli models: list the models, solvers, losses and penalties, and which of them can be combined; or describe one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from fmcli.cli.choices import with_choices
from fmcli.cli.flags import flag_of
from fmcli.cli.layout import NARROW, columns, wrapped
from fmcli.cli.logging import LOGGING
from fmcli.cli.options import SectionCommand, option
from fmcli.cli.output import write_report
from fmcli.registry.choices import Choices, spelled
from fmcli.registry.losses import LABELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.words import notes

YES, NO = "yes", "-"


@click.command(
    cls=SectionCommand,
    name="models",
    examples=[
        "# As tables.",
        "fmcli models",
        "# One of them, with its defaults by solver.",
        "fmcli models shfm",
        "# As JSON.",
        "fmcli models --json",
    ],
)
@click.argument("name", metavar="[NAME]", required=False)
@option("output", "--json", is_flag=True, help="Print one JSON object.")
@with_choices(*LOGGING)
def command(name: str | None, json: bool, choices: Choices) -> None:
    """List models, solvers, losses and penalties, with the defaults of their options, and unsupported combinations.
    With the NAME of a model, solver or loss, describe it."""
    from fmcli.registry.catalog import catalog, refusals

    listed = catalog()
    found: dict[str, Any] = {**listed, "refused": refusals(flag_of)}
    text = lines(listed, found["refused"])
    if name is not None:
        found = named(listed, name)
        text = described(found)
    if json:
        from json import dumps

        write_report(dumps(found) + "\n")
    else:
        write_report("".join(f"{line}\n" for line in text))


def named(listed: dict[str, list[dict[str, Any]]], name: str) -> dict[str, Any]:
    """Return the component of this name. Raises UsageError if there is none."""
    from fmcli.names import find_name
    from fmcli.registry.catalog import defaults_by_solver
    from fmcli.registry.models import MODELS

    pieces = {piece["name"]: piece for kind in ("models", "solvers", "losses") for piece in listed[kind]}
    piece = pieces[find_name("model, solver or loss", name, pieces)]
    return {**piece, "defaults": defaults_by_solver(name)} if name in MODELS else piece


def described(piece: dict[str, Any]) -> Iterator[str]:
    """Yield a component as text: its partners, its options and their defaults, for a model by solver."""
    yield from wrapped(f"{piece['name']}: {piece['help']}", columns())
    yield ""
    solvers = [f"{name} (default)" if name == piece.get("solver") else name for name in piece.get("solvers", ())]
    labels = [LABELS[piece["labels"]]] if "labels" in piece else []
    facts = {"Solvers": solvers, "Losses": piece.get("losses", ()), "Labels": labels}
    for title, names in facts.items():
        if listed := ", ".join(names):
            yield from entry(title, listed, "")
    (usual, defaults), *others = piece.get("defaults", {"": piece["options"]}).items()
    yield ""
    yield f"Options, and their defaults with {usual}" if usual else "Options, and their defaults"
    for name, value in defaults.items():
        yield from wrapped(
            f"{options({name: value})}: {spelled(OPTIONS[name].help, flag_of)}", columns(), "  ", "      "
        )
    for solver, values in others:
        own = {name: value for name, value in values.items() if name not in defaults or defaults[name] != value}
        yield from ["", *wrapped(f"With {solver}: {options(own)}", columns(), "", "  ")] if own else []


def lines(listed: dict[str, list[dict[str, Any]]], refused: list[str]) -> Iterator[str]:
    """Yield the catalog as text."""
    solvers = [piece["name"] for piece in listed["solvers"]]
    yield from wrapped("Models (-m), and the solvers (-s) that train them", columns())
    yield from grid(
        [["", *solvers]]
        + [
            [model["name"], *(mark(model["solver"], solver, model["solvers"]) for solver in solvers)]
            for model in listed["models"]
        ]
    )
    for title, kind in (("Models", "models"), ("Solvers", "solvers"), ("Losses (--loss)", "losses")):
        yield ""
        yield title
        for piece in listed[kind]:
            yield from entry(piece["name"], piece["help"], options(piece["options"]))
            for solver, defaults in piece.get("with_solver", {}).items():
                yield from entry("", f"With {solver}: {options(defaults)}", "")
    yield ""
    yield "Penalties"
    for piece in listed["penalties"]:
        yield from entry(piece["flag"], f"{piece['help']} {notes(OPTIONS[piece['name']])}", "")
    yield ""
    yield "Unsupported combinations" if refused else "All models, solvers, losses and penalties combine."
    for reason in refused:
        yield from wrapped(reason, columns(), "  ", "    ")


def mark(usual: str, solver: str, possible: list[str]) -> str:
    """Return whether a solver trains a model, and whether it does so by default."""
    return "default" if solver == usual else YES if solver in possible else NO


def grid(rows: list[list[str]]) -> Iterator[str]:
    """Yield the cells as aligned columns; on a narrow terminal, a list of the columns whose cells are not empty."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    if max(map(len, lines)) <= columns():
        yield from lines
        return
    for name, *cells in rows[1:]:
        chosen = [(solver, cell) for solver, cell in zip(rows[0][1:], cells, strict=True) if cell != NO]
        text = ", ".join(f"{solver} ({cell})" if cell != YES else solver for solver, cell in chosen)
        yield from wrapped(f"{name}: {text or 'none'}", columns(), "  ", "      ")


def entry(name: str, text: str, options: str) -> Iterator[str]:
    """Yield a component: its name, its help, and its options."""
    indent = " " * 18
    width = columns()
    if width < NARROW:
        indent = " " * 6
        yield from wrapped(name, width, "  ", indent)
        yield from wrapped(text, width, indent, indent)
    else:
        yield from wrapped(text, width, f"  {name:<14}  ", indent)
    if options:
        yield from wrapped(options, width, indent, indent + "  ")


def options(defaults: dict[str, Any]) -> str:
    """Return options with their defaults: "--rank 8, --no-bias"."""
    # The default of a switch that can only be turned off is omitted.
    return ", ".join(
        OPTIONS[name].flag if OPTIONS[name].negative or value is None else f"{OPTIONS[name].flag} {shown(value)}"
        for name, value in defaults.items()
    )


def shown(value: Any) -> str:
    """Return a default as text."""
    if isinstance(value, bool):
        return "(on)" if value else "(off)"
    return value if isinstance(value, str) else f"{value:g}"
