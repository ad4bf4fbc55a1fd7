"""fmcli models: list the models, solvers, losses and penalties, and which of them can be combined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from fmcli.cli.layout import NARROW, columns, wrapped
from fmcli.cli.options import SectionCommand, logging_options, option
from fmcli.cli.output import write_report
from fmcli.cli.registered import notes
from fmcli.registry.options import OPTIONS

YES, NO = "yes", "-"


@click.command(
    cls=SectionCommand,
    name="models",
    examples=["# As tables.", "fmcli models", "# As JSON.", "fmcli models --json"],
)
@option("output", "--json", is_flag=True, help="Print one JSON object.")
@logging_options
def command(json: bool, quiet: int, verbose: bool) -> None:
    """List models, solvers, losses and penalties, with the defaults of their options, and unsupported combinations."""
    from fmcli.registry.catalogue import catalogue, refusals

    listed = catalogue()
    if json:
        import json as text

        write_report(text.dumps({**listed, "refused": refusals()}) + "\n")
    else:
        write_report("".join(f"{line}\n" for line in lines(listed, refusals())))


def lines(listed: dict[str, list[dict[str, Any]]], refused: list[str]) -> Iterator[str]:
    """The catalogue as text."""
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
    """Whether a solver trains a model, and whether it does so by default."""
    return "default" if solver == usual else YES if solver in possible else NO


def grid(rows: list[list[str]]) -> Iterator[str]:
    """The cells as aligned columns; on a narrow terminal, a list of the columns whose cells are not empty."""
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
    """A component: its name, its help, and its options."""
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
    """Options with their defaults: "--rank 8, --no-bias"."""
    # The default of a switch that can only be turned off is omitted.
    return ", ".join(
        OPTIONS[name].flag if OPTIONS[name].negative or value is None else f"{OPTIONS[name].flag} {shown(value)}"
        for name, value in defaults.items()
    )


def shown(value: Any) -> str:
    """A default as text."""
    if isinstance(value, bool):
        return "(on)" if value else "(off)"
    return value if isinstance(value, str) else f"{value:g}"
