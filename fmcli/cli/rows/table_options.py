"""What the columns of tables are, by choices or a file, and the log of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.rows.prepared import table_of
from fmcli.errors import UsageError
from fmcli.text import printable_json

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.data.tables.schema import Schema
    from fmcli.registry.choices import Choices

MOST_SHOWN, WIDEST = 40, 40  # columns in the log, and characters of a name that others are aligned with


def inputs_of(choices: Choices, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the inputs: these files, or the query. Raises UsageError if there are none, or both."""
    if choices.sql is None and not paths:
        raise UsageError("missing argument 'TRAIN...': the rows to train on, or a query with --sql")
    return paths if choices.sql is None else (table_of(paths[0] if paths else None, choices.sql),)


def print_schema(schema: Schema) -> None:
    """Write a schema to standard output."""
    click.echo(printable_json(schema.entry(), indent=1))


def log_schema(log: Log, schema: Schema, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Log the kinds of the columns of a table."""
    from fmcli.data.tables.schema import LABEL

    width = min(max(map(len, schema.kinds)), WIDEST)
    for name, kind in list(schema.kinds.items())[:MOST_SHOWN]:
        figures = facts.get(name) if kind != LABEL else None
        log.line(f"  column {name:<{width}}  {kind:<8}  {', '.join(about(name, schema, figures))}".rstrip())
    if len(schema.kinds) > MOST_SHOWN:
        log.line(f"  and {len(schema.kinds) - MOST_SHOWN:,} more columns")


def about(name: str, schema: Schema, figures: Mapping[str, Any] | None) -> list[str]:
    """Return the kind of the cells of a column, and the treatment of its missing cells."""
    from fmcli.data.tables.kinds import without
    from fmcli.data.tables.schema import NUMBER, TIME, VECTOR

    if not name:
        return ["no name"]
    gap = f"feature {name}=" if name in schema.gaps else ""
    if not figures:
        read_once = ["a missing cell: no number, " + gap] if gap and schema.kinds[name] == NUMBER else []
        return read_once
    if not figures["example"]:
        return ["all cells missing"]
    markers = schema.markers.get(name, ())
    figures = without(markers, figures)
    found = [f"{cells_of(figures)}, such as {figures['example'][:40]}"]
    if schema.kinds[name] == TIME:
        first = f"the {schema.orders[name]} comes first, " if schema.orders[name] else ""
        found.append(f"{first}features month, weekday{', hour' if name in schema.hours else ''} and days since 1970")
    if schema.kinds[name] == VECTOR:
        found.append(f"{schema.lengths[name]:,} numbers each")
    if figures["missing"] or figures["unmatched"]:
        means = schema.means.get(name, ())
        mean = f"mean {means[0]:.6g}" if len(means) == 1 else "means of their places" if means else ""
        read_as = ", ".join(filter(None, (mean, gap)))
        such = f" ({', '.join(markers)})" if markers else ""
        missing = [f"{figures['missing']:,} missing{such}"] if figures["missing"] else []
        unmatched = [f"{figures['unmatched']:,} rows without one"] if figures["unmatched"] else []
        found.append(f"{', '.join([*missing, *unmatched])}{': ' if read_as else ''}{read_as}")
    return found


def cells_of(figures: Mapping[str, Any]) -> str:
    """Return the kind of the cells of a column, and how often each cell occurs on average if they are whole numbers."""
    if figures["fractions"] or not figures["distinct"]:
        return "fractions" if figures["fractions"] else "numbers"
    distinct = f"{'more than ' if figures['uncounted'] else ''}{figures['distinct']:,}"
    if figures["texts"] or figures["is_text"]:
        return f"{distinct} distinct"
    rows = (figures["cells"] - figures["missing"]) * figures["times"] / figures["distinct"]
    return f"{distinct} distinct whole numbers, {rows:,.{0 if rows >= 10 else 1}f} rows to each"
