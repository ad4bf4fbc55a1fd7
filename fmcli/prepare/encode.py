"""Tables as text of features: one-hot columns, columns with several values, columns of numbers, and joined tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import field
from typing import Any, NamedTuple

from fmcli.data.tables.head import Head
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.reading import By, joined_rows, opened, translated
from fmcli.data.tables.schema import IGNORED, Layout, Schema
from fmcli.data.tables.surveying import schema_of
from fmcli.data.text.faults import describe
from fmcli.data.text.parser import PADDING
from fmcli.data.text.sources import FileRange, Gaps
from fmcli.data.text.workers import in_order
from fmcli.errors import BadInputError
from fmcli.records import dataclass

GROUP = "qid"
# A field and the name of a feature in ffm text.
FEATURE = re.compile(rb"(?<![^ \n])(\d+):([^ :\n]+):")


class EncodedRows(NamedTuple):
    """Rows as lines of features, valid until the next ones are requested. read : bytes of the table up to their end."""

    text: bytes | memoryview
    rows: int
    read: int


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become features.

    named : the columns that the caller names.
    fields : whether to write ffm text. Its fields are the used columns, numbered from 0 in the order of the table and
        then of the joined tables.
    joined : column -> another table; its columns are added to the rows with the same cell in this column.
    threads : the number of threads that read the table.
    known : the schema; None: it follows from `named` and from the cells, and the table is read twice.
    gaps : gets the gaps of the rows that were read last.

    An empty cell gives no feature, or its column's mean if the column has numbers; the number 0 gives no feature.
    """

    named: ColumnRoles
    fields: bool = False
    joined: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1
    known: Schema | None = None
    gaps: Gaps = field(default_factory=Gaps)

    def __post_init__(self) -> None:
        if GROUP in self.named.numeric:
            raise BadInputError(f"a feature cannot have the name {GROUP!r}, which begins the number of a group")

    def lines(self, path: str) -> Iterator[EncodedRows]:
        """Yield the rows of a table, chunk by chunk. Raises MissingInputError, and BadInputError, which names the file,
        line and column."""
        yield from self._lines(path, fields=self.fields)

    def numbered(self, path: str) -> tuple[Mapping[bytes, int], Iterator[EncodedRows]]:
        """Return name -> number of the features, from 1, in the order of the columns and, within a column, of its
        values (as numbers if all are); and the rows with numbers in place of names. The table is read twice."""
        by_column: dict[int, set[bytes]] = {}
        for chunk in self._lines(path, fields=True):
            for column, name in FEATURE.findall(chunk.text):
                by_column.setdefault(int(column), set()).add(name)
        names = [name for column in sorted(by_column) for name in in_order_of_values(by_column[column])]
        numbers = {name: number for number, name in enumerate(names, start=1)}

        def replaced(found: re.Match[bytes]) -> bytes:
            column = found[1] + b":" if self.fields else b""
            return b"%b%d:" % (column, numbers[found[2]])

        whole = self._lines(path, fields=True)
        return numbers, (chunk._replace(text=FEATURE.sub(replaced, chunk.text)) for chunk in whole)

    def schema(self, path: str) -> Schema | None:
        """Return the schema of a table; None for standard input, whose header gives the names. Raises BadInputError,
        MissingInputError and UsageError."""
        if self.known is not None:
            return self.known
        if path == "-" and not (self.named.form.names or self.joined):
            return None
        return schema_of([path], self.named, self.threads, self.joined)[0]

    def _lines(self, path: str, *, fields: bool) -> Iterator[EncodedRows]:
        schema = self.schema(path)
        training, read = self.named.label is not None or self.known is not None, 0

        def layout(head: Head, source: str) -> Layout:
            found = schema
            if found is None:
                self.named.check(head.names, source)
                self.named.require_all(head.names, source)
                found = self.named.schema(head.names, {}, source, {})
            else:
                found.check(head.names, source, training=training)
            return found.layout(head.names, fields=fields)

        form = schema or self.named.form
        named = [name for name, kind in self.named.kinds().items() if kind != IGNORED]
        used = [*named, *self.joined, *(() if schema is None else schema.features)]
        by = By(self.named.group) if self.named.group is not None else None
        filled, unmatched = dict[str, int](), dict[str, int]()
        joins = {
            column: joined_rows(table, column, form, fields=fields, filled=filled)
            for column, table in self.joined.items()
        }
        source = FileRange(path, used=frozenset(used))
        more: dict[str, Any] = {"joins": joins, "by": by, "filled": filled, "unmatched": unmatched}
        buffers = opened(source, form, layout, [], training=training, **more)
        with closing(in_order(buffers, translated, self.threads)) as results:
            line = 0
            for buffer, (text, lines, rows, faulty, faults) in results:
                line += buffer.before
                if faulty:
                    raise BadInputError(describe(buffer.name, line + faults[0].number + 1, faults[0]))
                line, read = line + lines, read + buffer.size
                with memoryview(text)[:-PADDING] as found:
                    yield EncodedRows(found, rows, read)
                assert buffer.scanner is not None
                buffer.scanner.reuse(text)
        vars(self.gaps).update(vars(Gaps.of_table(filled, unmatched, self.joined)))


def in_order_of_values(names: set[bytes]) -> list[bytes]:
    """Return names in the order of their values: as numbers if all of them are numbers, otherwise as text."""
    values = {name: name.partition(b"=")[2] for name in names}
    if all(value.isdigit() for value in values.values()):
        return sorted(names, key=lambda name: (int(values[name]), name))
    return sorted(names)
