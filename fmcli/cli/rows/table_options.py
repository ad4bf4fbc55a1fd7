"""Options for tables: what their columns are, and the log of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fmcli.cli.files import InputFile, QueryFile
from fmcli.cli.options import gathered, option
from fmcli.cli.relations import join_option, names, names_option
from fmcli.cli.rows.prepared import LATIN_1, UTF_8, decimal_option, form_of, table_of
from fmcli.errors import LEAVE_OUT, BadInputError, UsageError
from fmcli.records import dataclass
from fmcli.text import printable_json, shell_word

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.data.tables.named import Named
    from fmcli.data.tables.schema import Schema

SEPARATOR = "|"  # of --separator
MOST_SHOWN, WIDEST = 40, 40  # columns in the log, and characters of a name that others are aligned with


@dataclass(frozen=True)
class TableChoice:
    """The options that say what the columns of tables are."""

    label: str | None
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    several: tuple[str, ...]
    vector: tuple[str, ...]
    separator: str
    ignore: tuple[str, ...]
    weight_column: str | None
    missing_values: tuple[str, ...]
    missing: str
    decimal: str | None
    bins: int | None
    columns: tuple[str, ...]
    delimiter: str | None
    encoding: str
    schema: str | None
    print_schema: bool
    sql: str | None
    join: tuple[tuple[str, str], ...]

    def inputs(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Return the inputs: these files, or the query. Raises UsageError if there are none, or both."""
        if self.sql is None and not paths:
            raise UsageError("missing argument 'TRAIN...': the rows to train on, or a query with --sql")
        return paths if self.sql is None else (table_of(paths[0] if paths else None, self.sql),)

    @property
    def asked(self) -> bool:
        """Whether an option says that the inputs are tables."""
        return bool(self.given)

    @property
    def given(self) -> list[str]:
        """The names of the options that are given."""
        context = click.get_current_context()
        return [name for name in vars(self) if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]

    def named(self, group: str | None, aside: str | None) -> Named:
        """Return the columns that options name. group, aside : as in Named. Raises UsageError."""
        from fmcli.data.tables.named import Named

        if not self.separator:
            raise UsageError("--separator needs at least one character")
        if self.separator != SEPARATOR and not (self.several or self.vector):
            separator = shell_word(self.separator)
            raise UsageError(
                f"--separator {separator} is between the values in a cell of --several or --vector; between cells, "
                f"it is --delimiter {separator}"
            )
        own, joined = self._names()
        form = replace(
            form_of(own, self.delimiter, self.encoding, self.decimal),
            separator=self.separator,
            missing=self.missing_values,
            joined_names=joined,
        )
        return Named(
            self.label,
            self.weight_column,
            group,
            self.categorical,
            self.numeric,
            self.several,
            self.ignore,
            self.vector,
            aside=aside,
            form=form,
            bins=self.bins or 0,
            gap_features=self.missing,
        )

    def _names(self) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
        """Return the names of the columns of the table, and column -> those of the table that is joined by it. Raises
        UsageError."""
        own, joined = list[str](), dict[str, tuple[str, ...]]()
        for value in self.columns:
            table = max((path for _, path in self.join if value.startswith(f"{path}=")), key=len, default=None)
            if table is None and "=" in value:
                raise UsageError(f"--columns {value}: no such table is joined; give it with --join COLUMN=TABLE")
            if table is None:
                own += names(value)
            else:
                found = names(value.removeprefix(f"{table}="))
                joined |= {column: (*joined.get(column, ()), *found) for column, path in self.join if path == table}
        return tuple(own), joined

    def known(self, columns_of: Callable[[Schema], Collection[str]], of_model: Schema | None = None) -> Schema | None:
        """Return what the columns are by --schema, or as the model of -i knows them; None if there is neither.

        columns_of : as in `agreed`.

        Raises BadInputError, MissingInputError, and UsageError if options say something else.
        """
        from fmcli.data.tables.agreement import agreed

        found = of_model
        if self.schema is not None:
            found = schema_of(self.schema)
            if of_model is not None and found != of_model:
                raise UsageError(f"the model of -i knows its columns, and not as {self.schema} does", schema=LEAVE_OUT)
        if found is None:
            return None
        return agreed(found, self.named(None, None), self.given, self.schema or "the model of -i", columns_of)


def schema_of(path: str) -> Schema:
    """Return the schema in a file. Raises BadInputError and MissingInputError."""
    from fmcli.base.json_files import parse, text_of
    from fmcli.data.tables.schema import Schema

    text = text_of(path, "a schema")
    try:
        return Schema.of_entry(parse(text))
    except (ValueError, BadInputError) as error:
        raise BadInputError(f"{path}: is not a schema, as --print-schema writes it: {error}") from error


table_options = gathered(
    "tables",
    TableChoice,
    option("data", "--label", metavar="COLUMN", help="Of a table: the column of the label. [default: none]"),
    names_option(
        "data",
        "--categorical",
        metavar="COLUMNS",
        help="Of a table: columns of names, each a feature column=name. [default: columns of text, and of whole "
        "numbers with 100 rows to each, 40 if they are few, 5 in columns named as ids]",
    ),
    names_option(
        "data",
        "--numeric",
        metavar="COLUMNS",
        help="Of a table: columns of numbers; --scale scales them. [default: columns of numbers with fractions, of 0 "
        "and 1 only, or of whole numbers with fewer rows to each]",
    ),
    names_option(
        "data",
        "--several",
        metavar="COLUMNS",
        help="Of a table: multi-valued columns, with a feature for each value in a cell. [default: none]",
    ),
    names_option(
        "data",
        "--vector",
        metavar="COLUMNS",
        help="Of a table: columns of vectors of numbers, such as .03|.12, with a feature for each place. [default: "
        "lists of floats, and of one length, in Parquet and queries]",
    ),
    option(
        "data",
        "--separator",
        default=SEPARATOR,
        metavar="TEXT",
        help="Separator of the values in a cell of a --several or --vector column. [default: |]",
    ),
    names_option(
        "data",
        "--ignore",
        metavar="COLUMNS",
        help="Of a table: columns to ignore. [default: none]",
    ),
    option(
        "data", "--weight-column", metavar="COLUMN", help="Of a table: the column of the rows' weights. [default: none]"
    ),
    names_option(
        "data",
        "--missing-values",
        metavar="TEXTS",
        help="Of a table: cells that are like empty ones, such as ?,NA. [default: none; in columns of numbers the "
        "usual ones, if all other cells are numbers]",
    ),
    option(
        "data",
        "--missing",
        type=click.Choice(["auto", "none", "feature"]),
        default="auto",
        help="Of a table: in which columns a missing cell is the feature column=: columns of numbers with gaps in "
        "training, none, or all. A missing number is also the mean of its column. [default: auto]",
    ),
    decimal_option("data"),
    option(
        "data",
        "--bins",
        type=click.IntRange(min=2),
        metavar="N",
        help="Of a table: cut each column of numbers into N bins with equal numbers of rows, which are features; fewer "
        "if numbers repeat. [default: none: the number is the value of one feature; >= 2]",
    ),
    option(
        "data",
        "--columns",
        multiple=True,
        metavar="[TABLE=]NAMES",
        help="Of a table: names of the columns, if it has no header; of the table of --join, if that has none. May be "
        "repeated. [default: the header's]",
    ),
    option(
        "data",
        "--delimiter",
        metavar="TEXT",
        help="What separates cells. [default: the first of ::, tab, comma, semicolon, | that the first line has]",
    ),
    option(
        "data",
        "--encoding",
        type=click.Choice([UTF_8, LATIN_1]),
        default=UTF_8,
        help="Encoding of tables. [default: utf-8]",
    ),
    option(
        "data",
        "--schema",
        type=InputFile(),
        metavar="FILE",
        help="Of a table: what its columns are, as --print-schema writes it. [default: options, and the cells]",
    ),
    option(
        "data",
        "--sql",
        type=QueryFile(),
        metavar="QUERY",
        help="The result of a SELECT statement in place of a file, by DuckDB: FROM 'ratings.parquet' JOIN "
        "'users.csv' USING (user). [default: none]",
    ),
    join_option,
    option("data", "--print-schema", is_flag=True, help="Write what the columns of a table are, in JSON, and exit."),
)


def print_schema(schema: Schema) -> None:
    """Write a schema to standard output."""
    click.echo(printable_json(schema.entry(), indent=1))


def log_schema(log: Log, schema: Schema, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Log what the columns of a table are."""
    from fmcli.data.tables.schema import LABEL

    width = min(max(map(len, schema.kinds)), WIDEST)
    for name, kind in list(schema.kinds.items())[:MOST_SHOWN]:
        figures = facts.get(name) if kind != LABEL else None
        log.line(f"  column {name:<{width}}  {kind:<8}  {', '.join(about(name, schema, figures))}".rstrip())
    if len(schema.kinds) > MOST_SHOWN:
        log.line(f"  and {len(schema.kinds) - MOST_SHOWN:,} more columns")


def about(name: str, schema: Schema, figures: Mapping[str, Any] | None) -> list[str]:
    """Return what the cells of a column are, and what its missing cells are."""
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
    """Return what the cells of a column are, and, if they are whole numbers, how many rows each of these has."""
    if figures["fractions"] or not figures["distinct"]:
        return "fractions" if figures["fractions"] else "numbers"
    distinct = f"{'more than ' if figures['uncounted'] else ''}{figures['distinct']:,}"
    if figures["texts"] or figures["is_text"]:
        return f"{distinct} distinct"
    rows = (figures["cells"] - figures["missing"]) * figures["times"] / figures["distinct"]
    return f"{distinct} distinct whole numbers, {rows:,.{0 if rows >= 10 else 1}f} rows to each"
