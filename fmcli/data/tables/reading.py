"""Tables as text of features, buffer by buffer: a table with its schema is read like libsvm or ffm text."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fmcli.data.file_formats import is_table
from fmcli.data.tables.head import Head
from fmcli.data.tables.scanner import Joined, Scanner
from fmcli.data.tables.schema import FEATURES, IGNORED, LABEL, WEIGHT, ColumnForm, Layout, Schema, is_header
from fmcli.data.text.faults import RETURNS, describe, ends_with_returns
from fmcli.data.text.parser import PADDING
from fmcli.data.text.sources import LONGEST_LINE, FileRange, Input, TableInput, TextBuffer, buffers, name_of
from fmcli.errors import LEAVE_OUT, BadInputError, MissingInputError, UsageError
from fmcli.names import listing, no_such, repeated
from fmcli.system.addresses import is_query
from fmcli.system.identity import can_be_read_again, identity
from fmcli.text import quote

if TYPE_CHECKING:
    from fmcli.data.text.lines import Lines
    from fmcli.data.text.parser import Fault

# The name of a column with an empty header in warnings.
UNNAMED = "one without a name"
# The first of DELIMITERS in a table's first line separates its cells. Cells may be quoted if it is one of QUOTING.
DELIMITERS, QUOTING = ("::", "\t", ",", ";", "|"), (",", ";")
# The beginning of libsvm or ffm text up to its first row with features. The pattern's group is the first feature.
TEXT_ROWS = re.compile(
    rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]*[^\s:,;#]+(?:[ \t]+qid:\d+)?[ \t]+([^\s:]\S*:[-+.\deE]+)"
    rb"(?:[ \t]+[^\s:]\S*:[-+.\deE]+)*[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)"
)
# Text in quotes, and the number of bytes that show the separator of the cells of a table.
QUOTED, FIRST_BYTES = re.compile(rb'"[^"]*"'), 1 << 13
# Bytes of a buffer. Each buffer learns its cells anew, so it is larger than a text buffer; more gains little.
BUFFER_BYTES = 1 << 21
# The most bytes of a cell in a message.
EXCERPT = 30


class By(NamedTuple):
    """The column with the groups of rows, in the order of its integers.

    times : whether the groups are times, in the order of time.
    """

    column: str
    times: bool = False


class TableSource(TableInput):
    """A table with its schema.

    frame : as in sources.FileRange.
    by : the column with the groups of training rows; None: there are no groups.
    present : the columns with features that were found, if some of them are enough; None: all are needed.
    """

    schema: Schema
    frame: Any
    joined: Mapping[str, str]
    by: By | None
    present: set[str] | None
    filled: dict[str, int]
    unmatched: dict[str, int]

    @classmethod
    def of(
        cls,
        path: str,
        schema: Schema,
        *,
        fields: bool,
        frame: Any = None,
        joined: Mapping[str, str] | None = None,
        by: By | None = None,
        partial: bool = False,
    ) -> TableSource:
        """Return a table with a schema. joined : column -> the table whose rows it refers to. partial : whether the
        table may lack some columns, and joins of some columns. Raises UsageError if `joined` does not have the columns
        of the schema's joins."""
        joined = joined or {}
        for column in joined.keys() - schema.joins.keys() if partial else schema.joins.keys() ^ joined.keys():
            if column in joined:
                raise UsageError(f"the model joins no table by {column!r}, which it would not use", join=LEAVE_OUT)
            raise UsageError(
                f"the model knows columns of a table that is joined by {column!r}", join={f"{column}=TABLE": ""}
            )
        table = cls(path)
        table.schema, table.fields, table.frame, table.joined = schema, fields, frame, joined
        table.by = by or (By(schema.group) if schema.group is not None else None)
        table.present = set() if partial else None
        return table

    def opened(
        self, extent: FileRange, spare: list[bytearray], *, unbuffered: bool, training: bool, skip: bool
    ) -> Generator[TextBuffer, None, None]:
        """Yield the rows; see TableInput. Raises the errors of the function `opened`."""

        def layout(head: Head, name: str) -> Layout:
            self.extra = frozenset(name or UNNAMED for name in set(head.names) - self.schema.kinds.keys())
            if self.present is None:
                self.schema.check(head.names, name, training=training)
            else:
                self.present |= self.found_in(head.names, name)
            found = self.schema.layout(head.names, fields=self.fields)
            return found if training else [one._replace(role=IGNORED) if one.role == WEIGHT else one for one in found]

        used = {*(name for name, kind in self.schema.kinds.items() if kind != IGNORED), *self.joined}
        if self.by is not None:
            used.add(self.by.column)
        source = replace(extent, path=str(self), frame=self.frame, used=frozenset(used))
        self.filled, self.unmatched = {}, {}
        joins = {
            column: joined_rows(table, column, self.schema, fields=self.fields, filled=self.filled)
            for column, table in self.joined.items()
        }
        more: dict[str, Any] = {"unbuffered": unbuffered, "training": training, "skip": skip, "filled": self.filled}
        by = self.by if training else None
        yield from opened(source, self.schema, layout, spare, **more, joins=joins, unmatched=self.unmatched, by=by)

    def row_starts(self, places: Sequence[int]) -> list[int]:
        head = head_of_table(str(self), self.schema)
        return row_starts(str(self), [max(place, head.start) for place in places], quoting=head.delimiter in QUOTING)

    def at(self, path: str, *, opens: bool = True) -> TableSource:
        """Return the table of another file, with the same columns."""
        return _table_path(path, {**vars(self), "opens": opens})

    def found_in(self, names: Sequence[str], source: str) -> set[str]:
        """Return the columns with features that a table with these columns has, or that are joined to it. Raises
        BadInputError if there are none."""
        joined = [column for by in self.joined if by in names for column in self.schema.joins[by]]
        found = {*names, *joined} & {*self.schema.features}
        if not found:
            known = listing(self.schema.features)
            raise BadInputError(f"{source}: the table has none of the columns that the model knows: {known}")
        return found

    def about(self) -> dict[str, Any]:
        """Return the schema, and the identities of joined tables."""
        joined = {column: identity(table) for column, table in self.joined.items()}
        return {"schema": self.schema.entry(), "fields": self.fields, "joined": joined, "by": self.by and list(self.by)}

    def __reduce__(self) -> tuple[object, ...]:
        return _table_path, (str(self), vars(self))


def _table_path(path: str, facts: Mapping[str, Any]) -> TableSource:
    table = TableSource(path)
    vars(table).update(facts)
    return table


def first_line(buffer: TextBuffer) -> tuple[int, bytes]:
    """Return the position of the first line of a buffer that is not empty, and the line."""
    start = buffer.start
    while start < buffer.stop and buffer.data[start] in b"\r\n":
        start += 1
    end = start if start == buffer.stop else buffer.data.index(b"\n", start)
    return start, bytes(buffer.data[start:end])


def delimiter_of(line: bytes, form: Schema) -> str:
    """Return the delimiter of a table with this first line."""
    found = next((one for one in DELIMITERS if one.encode() in line), ",")  # a single column has no delimiter
    return form.delimiter or found


def check_delimiter(buffer: TextBuffer, start: int, delimiter: str, lines: int) -> None:
    """Raise BadInputError if commas seem to separate the cells, but each of the first lines has the same number of
    semicolons: then commas may be decimal marks."""
    if delimiter != ",":
        return
    text = bytes(buffer.data[start : min(buffer.stop, start + FIRST_BYTES)])
    first = [QUOTED.sub(b"", line) for line in text.splitlines(keepends=True) if line.endswith(b"\n") and line.strip()]
    semicolons = {line.count(b";") for line in first}
    if len(semicolons) == 1 and semicolons != {0}:
        raise BadInputError(
            f"{buffer.name}:{lines + 1}: found commas and semicolons in all lines, as many semicolons in each; commas "
            "may be decimal marks",
            delimiter={";": "if semicolons separate cells", ",": "if commas do"},
        )


def head_of(buffer: TextBuffer, form: Schema) -> Head:
    """Return the head of a table that begins with this buffer. Raises BadInputError if it has none."""
    start, line = first_line(buffer)
    if len(form.names) == 1:  # an empty line is a row
        start = buffer.start
    lines = buffer.data.count(b"\n", buffer.start, start)
    if start == buffer.stop:
        raise BadInputError(f"{buffer.name}: the table is empty")
    if rows := TEXT_ROWS.match(buffer.data, buffer.start, buffer.stop):
        kind = "ffm" if rows[1].count(b":") == 2 else "libsvm"
        raise BadInputError(f"{buffer.name} is {kind} text already, not a table")
    if ends_with_returns(line):
        raise BadInputError(f"{buffer.name}:{lines + 1}: {RETURNS}")
    if line.lstrip().startswith(b"{"):
        raise BadInputError(f"{buffer.name}:{lines + 1}: found JSON, expected a table; write it as CSV first")
    if not (form.names or line.strip()):
        raise BadInputError(f"{buffer.name}: the table is empty")
    delimiter = delimiter_of(line, form)
    if buffer.texts is None and form.delimiter is None:
        check_delimiter(buffer, start, delimiter, lines)
    if form.names:
        return Head(list(form.names), delimiter, start, lines)
    encoding = "latin-1" if form.latin1 else "utf-8"
    try:
        cells, end = scanner_of([], delimiter, form).header(buffer.data, start, buffer.stop)
        names = [cell.decode(encoding) for cell in cells]
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{buffer.name}:{lines + 1}: the header is not UTF-8", encoding={"latin-1": "if it is that"}
        ) from error
    except ValueError as error:
        raise BadInputError(describe(buffer.name, lines + error.args[0].number + 1, error.args[0])) from error
    if buffer.texts is None and not is_header(names):  # columns of streams always have names
        raise BadInputError(
            f"{buffer.name}:{lines + 1}: found {', '.join(names[:4])} as the names of columns; the table has no header",
            columns={"NAMES": "to name them"},
        )
    if (twice := repeated(names)) is not None:
        raise BadInputError(f"{buffer.name}:{lines + 1}: found the column {twice!r} twice, expected different names")
    text = bytes(buffer.data[start:end])
    return Head(
        names,
        delimiter,
        start=end,
        lines=lines + text.count(b"\n"),
        text=text,
        texts=buffer.texts or frozenset(),
        vectors=buffer.vectors,
        unread=buffer.unread,
        types=buffer.types,
    )


def scanner_of(layout: Layout, delimiter: str, form: Schema, **more: Any) -> Scanner:
    """Return a scanner for the columns of a layout. more : further arguments of Scanner."""
    return Scanner(
        layout,
        delimiter=delimiter,
        separator=form.separator,
        quoting=delimiter in QUOTING,
        latin1=form.latin1,
        apart=form.apart,
        decimal=form.decimal,
        **more,
    )


def whole_rows(found: Iterator[TextBuffer], form: Schema) -> Generator[TextBuffer, None, None]:
    """Yield buffers that end with a row: a buffer that ends inside quotes is joined with the next one. Raises
    BadInputError for quotes of more than LONGEST_LINE bytes: with one quote too many, they would span the whole
    file."""
    quoting = None
    for buffer in found:
        if quoting is None:
            quoting = delimiter_of(first_line(buffer)[1], form) in QUOTING
        quoted = quoting and buffer.data.find(b'"', buffer.start, buffer.stop) >= 0  # much faster than counting
        if quoted and buffer.data.count(b'"', buffer.start, buffer.stop) % 2:
            text = [bytes(buffer.data[buffer.start : buffer.stop])]
            odd, size, last = True, buffer.size, buffer.last
            while odd and not last and (more := next(found, None)) is not None:
                text.append(bytes(more.data[more.start : more.stop]))
                odd ^= bool(text[-1].count(b'"') % 2)
                size, last = size + more.size, more.last
                if odd and size > LONGEST_LINE:
                    cell = text[0][text[0].rfind(b'"') + 1 :]
                    raise BadInputError(
                        f"{buffer.name}: no quote ends the cell that begins with {quote(cell[:EXCERPT])} within "
                        f"{LONGEST_LINE >> 20} MiB; double a quote within a cell, or remove it"
                    )
            data = bytearray(b"".join(text))
            buffer = replace(buffer, data=data, start=0, stop=len(data), size=size, last=last)
        yield buffer


def row_starts(path: str, places: Sequence[int], *, quoting: bool) -> list[int]:
    """Return, for each of some increasing positions in a file, the position of the first row there or later: after a
    line break outside quotes. Raises MissingInputError."""
    found, at, quoted = [], 0, False
    try:
        with open(path, "rb") as file:
            for place in places:
                while at < place - 1:
                    text = file.read(min(place - 1 - at, BUFFER_BYTES))
                    quoted ^= quoting and bool(text.count(b'"') % 2)
                    at += len(text)
                while at < place or quoted:
                    if not (line := file.readline()):
                        break
                    quoted ^= quoting and bool(line.count(b'"') % 2)
                    at += len(line)
                found.append(at)
    except OSError as error:
        raise MissingInputError(f"cannot read {name_of(path)}: {error.strerror or error}") from error
    return found


def head_of_table(path: Input, form: Schema) -> Head:
    """Return the head of a table, with columns of all types. Raises BadInputError and MissingInputError."""
    with closing(buffers([path], [], BUFFER_BYTES)) as raw:
        return head_of(next(whole_rows(raw, form)), form)


def opened(
    path: Input,
    form: Schema,
    layout: Callable[[Head, str], Layout],
    spare: list[bytearray],
    *,
    unbuffered: bool = False,
    training: bool = False,
    skip: bool = False,
    joins: Mapping[str, Joined] = MappingProxyType({}),
    by: By | None = None,
    filled: dict[str, int] | None = None,
    unmatched: dict[str, int] | None = None,
) -> Generator[TextBuffer, None, None]:
    """Yield the rows of a table, with the scanner that reads them.

    layout : returns the layout of the columns, given the head of the table and its name for messages.
    joins : column -> the features of the rows of another table, by the cells of this column.
    by : the column with the groups of rows; None: there are no groups.
    filled, unmatched : the dictionaries of TableInput, to be filled.

    Raises the errors of `sources.buffers` and `head_of`.
    """
    scanner, extent = None, path if isinstance(path, FileRange) else FileRange(path)
    inside = extent.start > 0
    with closing(buffers([path], spare, BUFFER_BYTES, unbuffered)) as raw:
        for buffer in whole_rows(raw, form):
            if scanner is None:
                head = head_of_table(replace(extent, start=0, stop=None), form) if inside else head_of(buffer, form)
                columns = layout(head, buffer.name)
                found = [
                    (head.names.index(column), rows)
                    for column, rows in joins.items()
                    if column in head.names and not form.has_joined(column, head.names)
                ]
                more = {
                    "training": training,
                    "skip": skip,
                    "joins": found,
                    "group": by and group_of(by, head, buffer.name),
                    "head": head,
                    "filled": filled,
                    "unmatched": unmatched,
                }
                scanner = scanner_of(columns, head.delimiter, form, **more)
                start, before = (buffer.start, 0) if inside else (head.start, head.lines)
                yield replace(buffer, start=start, scanner=scanner, before=before)
            else:
                yield replace(buffer, scanner=scanner)


def group_of(by: By, head: Head, source: str) -> tuple[int, bool, str]:
    """Return the column of groups, as `Scanner` takes it. Raises BadInputError if the table lacks the column."""
    if by.column not in head.names:
        raise BadInputError(f"{source}: {no_such('column', by.column, head.names)}")
    expected = f"a {'time' if by.times else 'group'} in the column {by.column!r}"
    return head.names.index(by.column), by.times, expected


def joined_rows(
    path: Input, column: str, schema: Schema, *, fields: bool, filled: dict[str, int] | None = None
) -> Joined:
    """Return the features of a table's rows by their cells in `column`, and the features of a missing row. filled : as
    in `opened`. Raises MissingInputError, and BadInputError, which names the file and the line, for a cell that occurs
    twice in `column`."""

    def layout(head: Head, source: str) -> Layout:
        if column not in head.names:
            raise BadInputError(f"{source}: {no_such('column', column, head.names)}")
        found = schema.layout(head.names, fields=fields)
        found[head.names.index(column)] = ColumnForm(IGNORED)
        found = [one if one.role in FEATURES else one._replace(role=IGNORED) for one in found]
        line = bytearray(f"{head.delimiter * (len(found) - 1)}\n".encode())
        text, *_ = scanner_of(found, head.delimiter, schema).translate(line, 0, len(line))
        rows.set_missing(text, len(text) - PADDING)
        found[head.names.index(column)] = ColumnForm(LABEL, expected=f"a {column}", missing=schema.missing)
        return found

    rows, line = Joined(), 0
    used = frozenset([*schema.features, column])
    source = FileRange(path, used=used) if isinstance(path, str) else replace(path, used=used)
    with closing(opened(source, schema.of_joined(column), layout, [], training=True, filled=filled)) as found:
        for buffer in found:
            assert buffer.scanner is not None
            of_buffer = buffer.scanner.translate(buffer.data, buffer.start, buffer.stop, counted=True)
            text, lines, _, faulty, faults = of_buffer
            line += buffer.before
            if faulty:
                raise BadInputError(describe(buffer.name, line + faults[0].number + 1, faults[0]))
            twice = rows.add(text, len(text) - PADDING)
            if twice >= 0:
                line += buffer.scanner.place_of(buffer.data, buffer.start, buffer.stop, twice, 0)[0]
                raise BadInputError(f"{buffer.name}:{line + 1}: found a {column} for the second time")
            line += lines
    return rows


def translated(_: int, buffer: TextBuffer) -> tuple[Lines, int, int, int, list[Fault]]:
    """Return the translation of a buffer by its scanner."""
    assert buffer.scanner is not None
    return buffer.scanner.translate(buffer.data, buffer.start, buffer.stop, counted=True)


def no_match(column: str, table: str) -> str:
    """Return the complaint that no row refers to a row of a table by this column."""
    return (
        f"no row has a cell in the column {column!r} that is one of {name_of(table)}: the two columns are probably of "
        "different kinds, or their cells are written in different ways"
    )


def as_tables(
    paths: Sequence[str],
    schema: Schema | None,
    *,
    fields: bool,
    joined: Mapping[str, str] | None = None,
    by: By | None = None,
    partial: bool = False,
) -> list[str]:
    """Return the inputs of a model that knows tables, with inputs that have its columns as tables. Standard input
    counts as a table. joined, by, partial : as in TableSource.of. Raises BadInputError, MissingInputError and
    UsageError."""
    if schema is None:
        if joined:
            raise UsageError("the model was not trained on tables, so it joins none", join=LEAVE_OUT)
        return list(paths)
    found = [
        TableSource.of(path, schema, fields=fields, joined=joined, by=by, partial=partial)
        if not isinstance(path, TableSource) and has_columns(path, schema)
        else path
        for path in paths
    ]
    if joined and found and not any(isinstance(path, TableSource) for path in found):
        raise UsageError(f"{name_of(found[0])} is not a table, with which others could be joined", join=LEAVE_OUT)
    return found


def ignored_columns(paths: Iterable[Input]) -> set[str]:
    """Return the columns of tables read so far that their schemas do not know."""
    return {name for path in paths if isinstance(path, TableSource) for name in path.extra}


def columns_of(paths: Iterable[Input], schema: Schema) -> set[str]:
    """Return the columns of tables, read by a schema. Pipes are read only once and are left out."""
    tables = [
        path
        for path in paths
        if isinstance(path, FileRange) or is_query(path) or (can_be_read_again(path) and has_columns(path, schema))
    ]
    return {name for path in tables for name in head_of_table(path, schema).names}


def has_columns(path: str, schema: Schema) -> bool:
    """Return whether an input is a table: by its name, or because its header has a column of the schema."""
    if path == "-" or is_table(path) or schema.names:
        return True
    try:
        names = head_of_table(path, schema).names
    except BadInputError:
        return False
    return bool(set(names) & set(schema.features))
