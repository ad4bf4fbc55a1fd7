"""The schema of tables from all of their cells: a survey of columns that are not named, and the edges of bins."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fmcli.data.tables.head import Head
from fmcli.data.tables.kinds import check_order
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.reading import head_of_table, joined_rows, no_match, opened, translated
from fmcli.data.tables.scanner import TableFacts
from fmcli.data.tables.schema import CATEGORY, IGNORED, LABEL, NUMBER, VECTOR, WEIGHT, ColumnForm, Layout, Schema
from fmcli.data.tables.unclear import date_order
from fmcli.data.text.faults import describe
from fmcli.data.text.sources import FileRange, Input, TextBuffer, name_of
from fmcli.data.text.workers import in_order
from fmcli.errors import LEAVE_OUT, BadInputError, UsageError
from fmcli.names import listing
from fmcli.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fmcli.data.text.parser import Fault

# Whether a column's type is numeric -> its kind; None: its cells tell.
KINDS_OF_TYPES = {True: NUMBER, False: CATEGORY, None: None}
# The role of a column in a survey; columns of other kinds need no survey. A label may be in local notation.
UNKNOWN = "unknown"
SURVEYED = {kind: kind for kind in (UNKNOWN, CATEGORY, NUMBER, VECTOR, WEIGHT)} | {LABEL: UNKNOWN}
# Column -> its facts.
ColumnFacts = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class AllBut:
    """A container of all names except these."""

    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name not in self.names


def roles_of(named: ColumnRoles) -> Callable[[str, Head], str]:
    """Return a function that gives the role in a survey of a table's column, given the table's head; IGNORED: nothing
    needs to be known."""
    kinds, rest = named.kinds(), named.rest or UNKNOWN
    kinds |= {name: UNKNOWN for name in named.aside if kinds[name] == IGNORED}

    def role(name: str, head: Head) -> str:
        kind = kinds.get(name, rest)
        return VECTOR if kind == UNKNOWN and name in head.vectors else SURVEYED.get(kind, IGNORED)

    return role


def surveyed(
    paths: Sequence[Input], named: ColumnRoles, threads: int, check: Callable[[list[str], str], None]
) -> tuple[Head, TableFacts, int]:
    """Return the head of the first table, the facts about all cells of columns that need a survey, and the number of
    rows. All tables must have the same columns.

    check : gets the names of the columns and the name of the table.

    Raises BadInputError and MissingInputError.
    """
    form, roles = named.form, roles_of(named)
    kinds, rest = named.kinds(), named.rest or UNKNOWN
    unused = AllBut(frozenset(name for name, kind in kinds.items() if kind == IGNORED and name not in named.aside))
    used: Container[str] = frozenset(kinds) if rest == IGNORED else unused
    heads: list[Head] = []
    forms = {role: ColumnForm(role, missing=form.missing) for role in (*SURVEYED.values(), IGNORED)}

    def layout(head: Head, name: str) -> Layout:
        heads.append(head)
        if head.names != heads[0].names:
            raise BadInputError(
                f"{name}: its columns are {listing(head.names)}, not {listing(heads[0].names)}, as in the table before"
            )
        check([*head.names, *head.unread], name)
        return [forms[roles(column, head)] for column in head.names]

    def survey(_: int, buffer: TextBuffer) -> tuple[TableFacts, int, int, int, list[Fault]]:
        assert buffer.scanner is not None
        return buffer.scanner.survey(buffer.data, buffer.start, buffer.stop)

    total: TableFacts | None = None
    rows = 0
    for path in paths:
        lines = 0
        source = FileRange(path, used=used) if isinstance(path, str) else replace(path, used=used)
        with closing(in_order(opened(source, form, layout, []), survey, threads)) as results:
            for buffer, (facts, read, found, faulty, faults) in results:
                assert buffer.scanner is not None
                lines += buffer.before
                if faulty:
                    raise BadInputError(describe(buffer.name, lines + faults[0].number + 1, faults[0]))
                total = total or TableFacts(len(heads[0].names))
                total.take(facts, lines)
                buffer.scanner.reuse(facts)
                lines, rows = lines + read, rows + found
    assert total is not None
    return heads[0], total, rows


def order_of_dates(path: Input, column: str, form: Schema) -> str | None:
    """Return how all dates in a column begin, one of ORDERS; None if some cells are not dates. Raises BadInputError if
    both day and month are possible."""
    named = ColumnRoles(aside=(column,), form=form, rest=IGNORED)
    head, facts, _ = surveyed([path], named, 1, lambda names, name: None)
    found = figures(head, facts, named, 1.0)[column]
    check_order(column, found, name_of(str(path)))
    return date_order(found)


def schema_of(
    paths: Sequence[Input],
    named: ColumnRoles,
    threads: int,
    joined: Mapping[str, str] | None = None,
    *,
    once: bool = False,
) -> tuple[Schema, ColumnFacts]:
    """Return the schema of some tables, and the facts about their columns. The facts cover all rows, unless every
    column is named and the tables are read only once.

    joined : column -> the table whose rows it refers to. Its columns count for as many rows as the referring table has.
    once : whether the tables are read only once, like standard input.

    Raises BadInputError, MissingInputError, and UsageError for columns that are not named if tables are read once.
    """
    source = name_of(paths[0]) if isinstance(paths[0], str) else str(paths[0])
    joined = joined or {}
    joins = {
        column: tuple(name for name in head_of_table(table, named.form.of_joined(column)).names if name != column)
        for column, table in joined.items()
    }
    others = [name for names in joins.values() for name in names]
    if once or "-" in paths:
        if "-" in paths and not named.form.names:
            raise UsageError("columns of standard input must be named", columns=None)
        names = named.form.names or head_of_table(paths[0], named.form).names
        if named.bins:
            raise UsageError(f"bins need all rows before, but {source} is read only once", bins=LEAVE_OUT)
        named.check(names, source, others)
        named.require_all([*names, *others], source)
        return named.schema([*names, *others], {}, source, joins), {}
    head, facts, rows = surveyed(paths, named, threads, lambda names, name: named.check(names, name, others))
    if not rows:
        raise BadInputError(f"{source}: the table has a header, but no rows")
    of_frame = isinstance(paths[0], FileRange) and paths[0].frame is not None
    found = figures(head, facts, named, 1.0, declared=of_frame)
    without = unmatched_rows(paths, named.form, joined, threads)
    for column, table in joined.items():
        its = replace(named, form=named.form.of_joined(column))
        of_table, facts, its_rows = surveyed([table], its, threads, lambda names, name: None)
        if without[column] == rows:
            raise BadInputError(f"{source}: {no_match(column, table)}")
        of_rows = figures(of_table, facts, named, rows / max(its_rows, 1))
        of_rows.pop(column, None)
        found |= {name: {**one, "unmatched": without[column]} for name, one in of_rows.items()}
    schema = named.schema([*head.names, *others], found, source, joins)
    if named.bins:
        if NUMBER not in schema.kinds.values():
            raise UsageError(f"{source} has no columns of numbers, which bins would cut", bins=LEAVE_OUT)
        tables = [(paths, schema, tuple(head.names))]
        tables += [([table], schema.of_joined(column), joins[column]) for column, table in joined.items()]
        bins = [
            quantiles(its_paths, its, named.bins, threads)
            for its_paths, its, names in tables
            if NUMBER in map(schema.kinds.get, names)
        ]
        schema = replace(schema, bins=dict(ChainMap(*bins)))
    return schema, found


def unmatched_rows(paths: Sequence[Input], form: Schema, joined: Mapping[str, str], threads: int) -> dict[str, int]:
    """Return column -> the number of rows that refer to no row of the table joined by it. Raises BadInputError and
    MissingInputError."""
    found = dict.fromkeys(joined, 0)
    if not joined:
        return found
    joins = {column: joined_rows(table, column, form, fields=False) for column, table in joined.items()}

    def layout(head: Head, source: str) -> Layout:
        return form.layout(head.names, fields=False)

    for path in paths:
        source = (
            FileRange(path, used=frozenset(joined)) if isinstance(path, str) else replace(path, used=frozenset(joined))
        )
        rows = opened(source, form, layout, [], joins=joins, unmatched=found)
        with closing(in_order(rows, translated, threads)) as results:
            for buffer, (text, *_) in results:
                assert buffer.scanner is not None
                buffer.scanner.reuse(text)
    return found


def quantiles(paths: Sequence[Input], schema: Schema, bins: int, threads: int) -> dict[str, tuple[float, ...]]:
    """Return column of numbers -> the numbers that divide it into bins with equal numbers of rows, as far as distinct
    numbers allow: at most `bins` - 1 of them. Raises BadInputError and MissingInputError."""
    heads: list[Head] = []

    def layout(head: Head, source: str) -> Layout:
        heads.append(head)
        layout = schema.layout(head.names, fields=False)
        return [one if one.role == NUMBER else one._replace(role=IGNORED) for one in layout]

    def columns() -> list[int]:
        return [at for at, name in enumerate(heads[0].names) if schema.kinds.get(name) == NUMBER]

    def numbers(_: int, buffer: TextBuffer) -> tuple[NDArray[np.float64], int, list[Fault]]:
        assert buffer.scanner is not None
        return buffer.scanner.numbers(buffer.data, buffer.start, buffer.stop, columns())

    found = []
    for path in paths:
        line = 0
        with closing(in_order(opened(path, schema, layout, []), numbers, threads)) as results:
            for buffer, (values, lines, faults) in results:
                line += buffer.before
                if faults:
                    raise BadInputError(describe(buffer.name, line + faults[0].number + 1, faults[0]))
                found.append(values)
                line += lines
    shares = np.arange(1, bins) / bins
    edges = {}
    for name, values in zip((heads[0].names[at] for at in columns()), np.concatenate(found).T, strict=True):
        present = np.sort(values[~np.isnan(values)])
        cut = np.unique(np.quantile(present, shares, method="inverted_cdf")) if len(present) else present
        edges[name] = tuple(cut[cut < present[-1]].tolist()) if len(present) else ()
    return {name: found for name, found in edges.items() if found}


def figures(head: Head, facts: TableFacts, named: ColumnRoles, times: float, *, declared: bool = False) -> ColumnFacts:
    """Return the facts about columns by name.

    times : how often each row counts.
    declared : whether text columns are declared as text, as in a frame; then names may hardly repeat.
    """
    roles, found = roles_of(named), ColumnFacts()
    for column, name in enumerate(head.names):
        if roles(name, head) == IGNORED:
            continue
        found[name], kind = facts.of(column), KINDS_OF_TYPES.get(head.types.get(name))
        if kind is not None:
            found[name]["grouped_cell"] = ""
        found[name].update(
            times=times,
            is_text=name in head.texts,
            declared=declared and name in head.texts,
            kind=kind,
            is_vector=name in head.vectors,
            unmatched=0,
        )
    return found
