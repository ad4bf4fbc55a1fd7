"""The parts that commands which write rows share: their outputs, lists of columns, and the log of the written rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fmcli.cli.choices import ATTRIBUTES
from fmcli.cli.options import option
from fmcli.cli.output import Log, open_sink
from fmcli.errors import UsageError
from fmcli.registry.kinds import NAMES
from fmcli.text import counted

if TYPE_CHECKING:
    from fmcli.prepare.written import Written

F = TypeVar("F", bound=Callable[..., Any])


# How commands that read a single table describe the choices about its form.
TABLE: Mapping[str, Mapping[str, Any]] = {
    "columns": {
        "section": "run",
        **ATTRIBUTES[NAMES],
        "metavar": "NAMES",
        "help": "Names of the columns, with commas between them: the table has no header. [default: the header's]",
    },
    "delimiter": {"section": "run"},
    "encoding": {"section": "run"},
}


def seed_option(function: F) -> F:
    """Return --seed: the seed of random choices."""
    return option(
        "run", "--seed", type=click.IntRange(min=0), metavar="N", default=0, help="Random seed. [default: 0; >= 0]"
    )(function)


def table_of(path: str | None, query: str | None) -> str:
    """Return the input of a command that takes a table or a query. Raises UsageError if there is not one of them."""
    from fmcli.system.addresses import QUERY

    if (path is None) == (query is None):
        raise UsageError("give one table, or a query with --sql")
    return path if path is not None else f"{QUERY}{query}"


def log_order(log: Log, path: str) -> None:
    """Log that the rows of a query have no fixed order, if this is so."""
    from fmcli.system.addresses import QUERY, is_query

    if not is_query(path):
        return
    from fmcli.data.queries import is_ordered

    if not is_ordered(path.removeprefix(QUERY)):
        log.line("the query has no ORDER BY, so the order of its rows is not fixed; it is read by one thread")


def check_twice(path: str, what: str) -> None:
    """Raise UsageError if an input, which `what` reads twice, can be read only once. A missing one is found later."""
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        raise UsageError(f"{what} reads the rows twice, which {named(path)} cannot be; give a file")


def named(path: str) -> str:
    """Return the name of an input that is no file, in words."""
    return "standard input" if path == "-" else path


@contextmanager
def written_to(path: str | None) -> Iterator[Written]:
    """Open an output, which is in place after the context."""
    from fmcli.prepare.written import Written

    with open_sink(path) as sink:
        written = Written(sink.write)
        yield written
        written.flush()


def log_written(log: Log, path: str | None, written: Written) -> None:
    """Log the rows and the digest of an output."""
    log.line(f"{path or 'standard output'}: {counted(written.rows, 'row')}, sha256 {written.digest}")
