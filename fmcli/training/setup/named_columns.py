"""The columns of tables that the choices of a run name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fmcli.base.json_files import parse, text_of
from fmcli.data.tables.agreement import agreed
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.schema import CATEGORY, IGNORED, Schema
from fmcli.errors import LEAVE_OUT, BadInputError, UsageError, called
from fmcli.names import repeated
from fmcli.registry.row_choices import LATIN_1, OF_TABLES, SEPARATOR
from fmcli.text import names_in, shell_word
from fmcli.training.setup.ages import decay_of

if TYPE_CHECKING:
    from fmcli.registry.choices import Choices


def named_of(choices: Choices, group: str | None = None, aside: str | None = None) -> ColumnRoles:
    """Return the columns that choices name. group : as in ColumnRoles; aside : a column of times by which rows are held
    out. Raises UsageError."""
    if not choices.separator:
        raise UsageError(f"{called('separator')} needs at least one character")
    if choices.separator != SEPARATOR and not (choices.several or choices.vector):
        separator = shell_word(choices.separator)
        raise UsageError(
            f"{called('separator')} {separator} is between the values in a cell of {called('several')} or "
            f"{called('vector')}; between cells, it is {called('delimiter')} {separator}"
        )
    own, joined = names_of_tables(choices)
    decay = decay_of(choices)
    form = replace(
        form_of(own, choices.delimiter, choices.encoding, choices.decimal),
        separator=choices.separator,
        missing=tuple(choices.missing_values),
        joined_names=joined,
    )
    return ColumnRoles(
        choices.label,
        choices.weight_column,
        group,
        choices.categorical,
        choices.numeric,
        choices.several,
        choices.ignore,
        choices.vector,
        aside=tuple(one for one in (aside, decay and decay.column) if one is not None),
        form=form,
        bins=choices.bins or 0,
        gap_features=choices.missing,
    )


# What excludes other ways to read a table: its columns are known already, it is read in pieces or once, or others read
# the same columns beside the run.
READ_ONE_WAY = ("schema", "init_model", "disk", "online", "implicit", "cluster", "calibrate", "test", "relations")


def may_read_otherwise(choices: Choices) -> bool:
    """Return whether a quick search may read the tables of a run in other ways, too."""
    return not choices.differing(READ_ONE_WAY)


def with_sides(named: ColumnRoles, choices: Choices, names: Sequence[str]) -> ColumnRoles:
    """Return the columns of a table with these names, of observed pairs: without a label, but perhaps with a count or a
    weight, which takes its place. Columns that are of neither side are ignored. Raises UsageError."""
    sides, weight = (*choices.user, *choices.item), choices.count or choices.weight_column
    known = {**named.kinds(), **dict.fromkeys(sides, CATEGORY)}
    given = {name: kind for name, kind in named.kinds().items() if kind not in (CATEGORY, IGNORED)}
    others = [name for name in names if name not in sides and name != weight]
    if extra := [name for name, kind in known.items() if kind != IGNORED and name in others]:
        raise UsageError(
            f"the column {extra[0]!r} is neither of {called('user')} nor of {called('item')}; name it in one"
        )
    return replace(
        named,
        label=weight,
        weight=None,
        categorical=tuple(name for name in dict.fromkeys((*named.categorical, *sides)) if name not in given),
        ignored=tuple(dict.fromkeys((*named.ignored, *others))),
        labeled=False,
    )


def fields_of_sides(choices: Choices, table: Schema | None) -> tuple[frozenset[int], frozenset[int]]:
    """Return the fields of the entries of users, and of items. Raises UsageError."""
    found = []
    for name in ("user", "item"):
        given = choices.values[name]
        if not given:
            raise UsageError(f"{called('implicit')} needs the columns of users and of items", **{name: None})
        if table is not None:
            columns = {*given, *(one for column in given for one in table.joins.get(column, ()))}
            found.append(frozenset(place for place, column in enumerate(table.features) if column in columns))
        elif all(column.isdecimal() for column in given):
            found.append(frozenset(map(int, given)))
        else:
            raise UsageError(f"the rows are not a table, and have fields, such as {called(name)} 0, not {given[0]!r}")
    users, items = found
    if users & items:
        raise UsageError(f"{called('user')} and {called('item')} have a column in common")
    return users, items


def known_schema(
    choices: Choices, columns_of: Callable[[Schema], Collection[str]], of_model: Schema | None = None
) -> Schema | None:
    """Return the columns by a schema file, or as a model knows them; None without either.

    columns_of : as in `agreed`.

    Raises BadInputError, MissingInputError, and UsageError if options say something else.
    """
    found = of_model
    if choices.schema is not None:
        found = schema_of(choices.schema)
        if of_model is not None and found != of_model:
            raise UsageError(
                f"the model of {called('init_model')} knows its columns, and not as {choices.schema} does",
                schema=LEAVE_OUT,
            )
    if found is None:
        return None
    given = [name for name in OF_TABLES if name in choices.given]
    known_by = choices.schema or f"the model of {called('init_model')}"
    return agreed(found, named_of(choices), given, known_by, columns_of)


def schema_of(path: str) -> Schema:
    """Return the schema in a file. Raises BadInputError and MissingInputError."""
    text = text_of(path, "a schema")
    try:
        return Schema.of_entry(parse(text))
    except (ValueError, BadInputError) as error:
        raise BadInputError(f"{path}: is not a schema, as {called('print_schema')} writes it: {error}") from error


def names_of_tables(choices: Choices) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the names of the columns of the table, and column -> the names of the table that is joined by it. Raises
    UsageError."""
    own, joined = list[str](), dict[str, tuple[str, ...]]()
    for value in choices.columns:
        table = max((path for _, path in choices.join if value.startswith(f"{path}=")), key=len, default=None)
        if table is None and "=" in value:
            raise UsageError(
                f"{called('columns')} {value}: no such table is joined; give it with {called('join')} COLUMN=TABLE"
            )
        if table is None:
            own += listed(value)
        else:
            found = tuple(listed(value.removeprefix(f"{table}=")))
            joined |= {column: (*joined.get(column, ()), *found) for column, path in choices.join if path == table}
    return tuple(own), joined


def listed(value: str) -> list[str]:
    """Return the names in a text of columns. Raises UsageError."""
    try:
        return names_in(value)
    except ValueError as error:
        raise UsageError(f"{called('columns')}: {error}") from error


def form_of(columns: Sequence[str], delimiter: str | None, encoding: str, decimal: str | None = None) -> Schema:
    """Return how a table is read. Raises UsageError."""
    if (twice := repeated(columns)) is not None:
        raise UsageError(f"{called('columns')} has {twice!r} twice; columns need different names")
    return Schema(
        {},
        names=tuple(columns),
        delimiter=check_delimiter(delimiter),
        latin1=encoding == LATIN_1,
        decimal=decimal or "",
    )


def check_delimiter(delimiter: str | None) -> str | None:
    r"""Return the delimiter, with "\t" and "tab" for a tab. Raises UsageError."""
    if delimiter in ("\\t", "tab"):
        return "\t"
    if delimiter is not None and (not delimiter or any(c in '\r\n"' for c in delimiter)):
        raise UsageError(f"{called('delimiter')} needs text without line breaks and quotation marks")
    return delimiter
