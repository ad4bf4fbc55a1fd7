"""fmcli convert: write a table, such as CSV, as rows of features."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import click

from fmcli.cli.choices import with_choices
from fmcli.cli.files import InputFile, check_files
from fmcli.cli.gaps import log_gaps
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, option, output_option
from fmcli.cli.rows.prepared import check_twice, log_order, log_written, table_of, written_to
from fmcli.cli.rows.table_options import print_schema
from fmcli.errors import UsageError
from fmcli.registry.choices import Choices
from fmcli.registry.row_choices import OF_TABLES


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
        "# Numbers instead of names, for programs that need them.",
        "fmcli convert --numbers --label rating --categorical user,film ratings.csv -o ratings.libsvm",
    ],
)
@click.argument("table", type=InputFile(), metavar="TABLE", required=False)
@option(
    "data",
    "--group-field",
    "--group",
    "group",
    metavar="COLUMN",
    help="The column of the group: qid:N. [default: none]",
)
@option("output", "--to", type=click.Choice(["libsvm", "ffm"]), default="libsvm", help="Format. [default: libsvm]")
@option(
    "output",
    "--numbers",
    is_flag=True,
    help="Write features as numbers from 1 on instead of names. The table is read twice, and all names are kept in "
    "memory; the numbers hold for this table alone, so split it afterwards.",
)
@output_option()
@with_choices(*OF_TABLES, *LOGGING)
def command(
    table: str | None,
    group: str | None,
    to: str,
    numbers: bool,
    output: str | None,
    choices: Choices,
) -> None:
    """Write a table, CSV or Parquet, as rows of features that the other commands read. Standard input is "-".

    Columns are what they are in fmcli train. Cells may be in double quotes if the delimiter is a comma or a
    semicolon. Blanks, colons and % in names become %XX. An empty cell gives no feature, in a column of numbers the
    mean and the feature column=; the number 0 gives none. In ffm text, the fields are the columns used, from 0 on,
    in the order of the table. The log has the number of rows and the SHA-256 digest of the output."""
    source = table_of(table, choices.sql)
    if numbers:
        check_twice(source, "--numbers")
    check_files()
    from fmcli.data.tables.reading import columns_of
    from fmcli.data.text.sources import text_bytes
    from fmcli.prepare.encode import Encoding
    from fmcli.system.machine import cpu_count
    from fmcli.training.setup.named_columns import known_schema, named_of

    named = named_of(choices, group)
    named = replace(named, labeled=False)
    known = known_schema(choices, lambda form: columns_of([source], form))
    features_of = Encoding(named, to == "ffm", dict(choices.join), cpu_count(), known)
    if choices.print_schema:
        schema = features_of.schema(source)
        if schema is None:
            raise UsageError("--print-schema needs the names of columns of standard input", columns=None)
        print_schema(schema)
        return

    on_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    with log_of(choices, progress=not on_terminal) as log:
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
        log_gaps(log, features_of.gaps, rows)
        log_written(log, output, sink)
        if features is not None:
            log.line(f"{len(features):,} features")
