"""The parts that commands which write rows share: their outputs, lists of columns, and the log of what was written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fmcli.cli.files import DATA, OutputFile
from fmcli.cli.options import option
from fmcli.cli.output import Log, open_sink
from fmcli.cli.relations import names_option
from fmcli.errors import UsageError
from fmcli.names import repeated

if TYPE_CHECKING:
    from fmcli.data.tables.schema import Schema
    from fmcli.prepare.written import Written

F = TypeVar("F", bound=Callable[..., Any])


UTF_8, LATIN_1 = "utf-8", "latin-1"


DECIMAL = (
    "Of a table: the decimal mark of numbers in local notation: with a comma, 1.067,5 is 1067.5; with a point, 1,067.5 "
    "is, $5.50 is 5.5, and 12% is 12. [default: numbers are plain]"
)


def decimal_option(section: str, help: str = DECIMAL) -> Callable[[F], F]:
    """Return --decimal: the notation of numbers."""
    return option(
        section,
        "--decimal",
        type=click.Choice([",", "."]),
        metavar="CHAR",
        help=help,
    )


def table_options(function: F) -> F:
    """Add --columns, --delimiter and --encoding: how a table is read."""
    function = option(
        "run",
        "--encoding",
        type=click.Choice([UTF_8, LATIN_1]),
        default=UTF_8,
        help="Encoding of the table. [default: utf-8]",
    )(function)
    function = option(
        "run",
        "--delimiter",
        metavar="TEXT",
        help=r"What separates cells. [default: the first of ::, tab, comma, semicolon, | in the first line]",
    )(function)
    return names_option(
        "run",
        "--columns",
        metavar="NAMES",
        help="Names of the columns, with commas between them: the table has no header. [default: the header's]",
    )(function)


def output_option(kind: str = DATA) -> Callable[[F], F]:
    """-o: the output, a file of a kind."""
    more = "Output file. [default: standard output]"
    return option("output", "-o", "--output", type=OutputFile(kind), metavar="FILE", help=more)


def seed_option(function: F) -> F:
    """Return --seed: the seed of random choices."""
    return option(
        "run", "--seed", type=click.IntRange(min=0), metavar="N", default=0, help="Random seed. [default: 0; >= 0]"
    )(function)


def check_delimiter(delimiter: str | None) -> str | None:
    r"""Return the delimiter, with "\t" and "tab" for a tab. Raises UsageError."""
    if delimiter in ("\\t", "tab"):
        return "\t"
    if delimiter is not None and (not delimiter or any(c in '\r\n"' for c in delimiter)):
        raise UsageError("--delimiter needs text without line breaks and quotation marks")
    return delimiter


def form_of(columns: Sequence[str], delimiter: str | None, encoding: str, decimal: str | None = None) -> Schema:
    """Return how a table is read. Raises UsageError."""
    from fmcli.data.tables.schema import Schema

    if (twice := repeated(columns)) is not None:
        raise UsageError(f"--columns has {twice!r} twice; columns need different names")
    return Schema(
        {},
        names=tuple(columns),
        delimiter=check_delimiter(delimiter),
        latin1=encoding == LATIN_1,
        decimal=decimal or "",
    )


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
        log.line("the query has no ORDER BY, so that the order of its rows is not fixed; it is read by one thread")


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
    log.line(f"{path or 'standard output'}: {written.rows:,} rows, sha256 {written.digest}")
