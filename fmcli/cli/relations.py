"""The options for relations, and for tables that are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fmcli.errors import UsageError
from fmcli.names import repeated
from fmcli.text import names_in

if TYPE_CHECKING:
    from fmcli.data.related.files import RelationFiles
    from fmcli.scoring.scorer import Scorer


def names(value: str) -> tuple[str, ...]:
    """Return a list of names with commas between them; a name with a comma is in quotes."""
    try:
        return tuple(names_in(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def once_each(context: click.Context, option: click.Parameter, pairs: tuple[tuple[str, str], ...]) -> Any:
    """Return the values COLUMN=TABLE of an option. Raises UsageError for two tables of one column."""
    if (twice := repeated(column for column, _ in pairs)) is not None:
        raise UsageError(f"{option.opts[0]} names two tables for {twice!r}; give one of them")
    return pairs


def parse_relations(texts: Sequence[str]) -> tuple[RelationFiles, ...]:
    """Return the files of relations. Raises UsageError."""
    if not texts:
        return ()
    from fmcli.data.related.files import RelationFiles

    found = []
    for text in texts:
        rows, _, numbers = text.rpartition("=")
        if not rows or not numbers:
            raise UsageError(f"--relation {text}: it must be ROWS=MAP with the names of two files")
        found.append(RelationFiles(rows, numbers))
    return tuple(found)


def check_model(relations: Sequence[RelationFiles], scorer: Scorer) -> None:
    """Raise UsageError if a model cannot score rows with relations."""
    if relations and scorer.needs_fields:
        raise UsageError(
            f"{scorer.path} needs fields, which the libsvm text of --relation does not have; join the files as ffm text"
        )
