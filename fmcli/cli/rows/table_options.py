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
    from fmcli.data.tables.description import column_lines

    for line, is_detail in column_lines(schema, facts, "--verbose"):
        (log.detail if is_detail else log.line)(line)
