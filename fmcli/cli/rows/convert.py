"""fmcli convert: write a table, such as CSV, as rows of features."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import click

from fmcli.cli.options import LogChoice, SectionCommand, logging_options, option
from fmcli.cli.rows.prepared import (
    check_paths,
    check_twice,
    column_table,
    form_of,
    log_order,
    log_written,
    names,
    output_option,
    table_of,
    table_options,
    written_to,
)
from fmcli.errors import UsageError


@click.command(
    cls=SectionCommand,
    name="convert",
    examples=[
        "# Ratings with a header: rows such as 4 user=7:1 film=12:1.",
        "fmcli convert --label rating --categorical user,film ratings.csv -o ratings.libsvm",
        "# A table without a header, as text with fields for ffm.",
        "fmcli convert --columns user,film,rating,time --label rating --categorical user,film --to ffm u.data -o u.ffm",
        "# Attributes from a second table, by the column user.",
        "fmcli convert --join user=users.csv --label rating --categorical user,film,job --numeric age ratings.csv",
        "# A Parquet file.",
        "fmcli convert --label rating --categorical user,film ratings.parquet -o ratings.libsvm",
        "# Numbers instead of names, for programs that need them.",
        "fmcli convert --numbers --label rating --categorical user,film ratings.csv -o ratings.libsvm",
    ],
)
@click.argument("table", metavar="TABLE", required=False)
@option(
    "run",
    "--sql",
    metavar="QUERY",
    help="The result of a SELECT statement in place of TABLE, by DuckDB: FROM 'ratings.parquet' JOIN 'users.csv' USING "
    "(user). [default: none]",
)
@option("run", "--label", metavar="COLUMN", help="The column of the label. [default: none: rows to predict]")
@option(
    "run",
    "--categorical",
    type=names,
    default=(),
    metavar="COLUMNS",
    help="Columns of names: a feature column=cell with the value 1 (one-hot). [default: none]",
)
@option(
    "run",
    "--several",
    type=names,
    default=(),
    metavar="COLUMNS",
    help="Multi-valued columns: one feature for each value in the cell. [default: none]",
)
@option(
    "run",
    "--separator",
    default="|",
    metavar="TEXT",
    help="What separates the names in a cell of --several. [default: |]",
)
@option(
    "run",
    "--numeric",
    type=names,
    default=(),
    metavar="COLUMNS",
    help="Columns of numbers: a feature with the value of the cell; train --scale scales them. [default: none]",
)
@option("run", "--group", metavar="COLUMN", help="The column of the group, a whole number: qid:N. [default: none]")
@option(
    "run",
    "--join",
    type=column_table,
    multiple=True,
    metavar="COLUMN=TABLE",
    help="Left join with TABLE, which has a header, on this column. May be repeated. [default: none]",
)
@table_options
@option("output", "--to", type=click.Choice(["libsvm", "ffm"]), default="libsvm", help="Format. [default: libsvm]")
@option(
    "output",
    "--numbers",
    is_flag=True,
    help="Write features as numbers from 1 on instead of names. The table is read twice, and all names are kept in "
    "memory; the numbers hold for this table alone, so split it afterwards.",
)
@output_option
@logging_options
def command(
    table: str | None,
    sql: str | None,
    label: str | None,
    categorical: tuple[str, ...],
    several: tuple[str, ...],
    separator: str,
    numeric: tuple[str, ...],
    group: str | None,
    join: tuple[tuple[str, str], ...],
    columns: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
    to: str,
    numbers: bool,
    output: str | None,
    logging: LogChoice,
) -> None:
    """Write a table, CSV or Parquet, as rows of features that the other commands read. Standard input is "-".

    Cells may be in double quotes if the delimiter is a comma or a semicolon. Blanks, colons and % in names become %XX.
    An empty cell gives no feature, and so does the number 0. In ffm text, the fields are the columns used, from 0 on,
    in the order of the table. The log has the number of rows and the SHA-256 digest of the output."""
    source = table_of(table, sql)
    if not (categorical or several or numeric):
        raise UsageError("no column is used; name some with --categorical, --several or --numeric")
    if not separator:
        raise UsageError("--separator needs at least one character")
    if numbers:
        check_twice(source, "--numbers")
    check_paths([source, *(path for _, path in join)], [output] if output else [])
    from fmcli.data.sources import text_bytes
    from fmcli.data.tables.schema import Named
    from fmcli.prepare.encode import Encoding
    from fmcli.system.machine import cpu_count

    form = replace(form_of(columns, delimiter, encoding), separator=separator)
    named = Named(label, None, group, categorical, numeric, several, form=form)
    features_of = Encoding(named, to == "ffm", dict(join), cpu_count())

    on_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    with logging.opened(progress=not on_terminal) as log:
        log_order(log, source)
        size = text_bytes([source]) if log.shows_progress else 0
        begin, rows = time.perf_counter(), 0
        features, lines = features_of.numbered(source) if numbers else (None, features_of.lines(source))
        with written_to(output) as sink:
            for chunk in lines:
                rows += chunk.rows
                sink.lines(chunk.text, chunk.rows)
                if log.due():
                    log.progress_of_rows(rows, time.perf_counter() - begin, chunk.read, size)
        log_written(log, output, sink)
        if features is not None:
            log.line(f"{len(features):,} features")
