"""Rows with their groups and times, which decide the part of a split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import field, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from fmcli.data.tables.head import Head
from fmcli.data.tables.reading import opened
from fmcli.data.tables.scanner import Keys
from fmcli.data.tables.schema import IGNORED, ORDERS, ColumnForm, Layout, Schema
from fmcli.data.tables.surveying import order_of_dates
from fmcli.data.text.chunks import Columns, Piece, score_chunks
from fmcli.data.text.faults import describe
from fmcli.data.text.formats import COMMENT, RowGroups, Stream
from fmcli.data.text.sources import Input, TextBuffer, buffers
from fmcli.errors import BadInputError, UsageError
from fmcli.names import no_such
from fmcli.prepare.rules import Groups, Times
from fmcli.records import dataclass
from fmcli.system import mistaken

CHUNK_ROWS, BUFFER_BYTES = 1 << 14, 1 << 22
QUERY = "qid"
HASH_BITS = 20  # for the ids of features, which are not used here


class KeyedRows(NamedTuple):
    """Some consecutive rows.

    texts : the texts of the rows, each with a line break.
    groups, times : of the rows. All groups are 0 if the rows have none; the default times are the numbers of the rows.
    header : the header of the table, in the first rows.
    """

    texts: list[bytes]
    groups: Groups
    times: Times
    header: bytes = b""


@dataclass
class Source:
    """A file whose rows can be read several times.

    group, time : the columns of a table with the groups and times; in text, one of them is "qid" or a field. None: no
        groups; the order of the rows as times.
    header : whether the first line is the header of a table.
    form : how a table is read, if the file is known to be a table.
    skipped : the number of blank lines and comments read in other text.
    """

    path: Input
    group: str | None = None
    time: str | None = None
    header: bool = False
    form: Schema = field(default_factory=lambda: Schema({}))
    skipped: int = field(default=0, init=False)

    def read(self) -> Iterator[KeyedRows]:
        """Yield the rows in chunks. Raises MissingInputError, BadInputError, and UsageError for columns that text does
        not have."""
        if self.is_table:
            return self._table()
        columns = [name for name in (self.group, self.time) if name is not None]
        if len(columns) > 1:
            raise UsageError(
                f"{self.path} is not a table; in other files, the order of the rows is their order in time: "
                f"leave out the time {self.time!r}"
            )
        return self._grouped(*columns) if columns else self._plain()

    @cached_property
    def is_table(self) -> bool:
        """Whether the file is a table: because the caller says so or, if a column decides, by its first row."""
        if self.header or self.form.names or self.form.delimiter:
            return True
        return (self.group is not None or self.time is not None) and looks_like_table(self.path)

    def _plain(self) -> Iterator[KeyedRows]:
        """Yield the rows of any text: every line that is neither blank nor a comment."""

        def is_row(text: bytes) -> bool:
            row = bool(text.strip()) and not COMMENT.match(text)
            self.skipped += not row
            return row

        self.skipped = first = 0
        found = (text + b"\n" for text in lines_of(self.path) if is_row(text))
        while texts := list(islice(found, CHUNK_ROWS)):
            yield KeyedRows(texts, np.zeros(len(texts), dtype=np.int64), numbers_from(first, len(texts)))
            first += len(texts)

    def _grouped(self, group: str) -> Iterator[KeyedRows]:
        """Yield the rows of libsvm or ffm text with groups as in training; the groups may serve as times."""
        if group != QUERY and not group.isdecimal():
            what = "groups" if self.time is None else "times"
            raise UsageError(
                f"{self.path} is not a table, and other rows have {what} by qid, or by a field of ffm text, such as 0, "
                f"not by {group!r}",
                **({} if self.time is None else {"by_order": {True: "if they are in the order of time"}}),
            )
        row_groups = RowGroups(None if group == QUERY else int(group))
        chunks = score_chunks(
            [self.path],
            _lines_and_groups,
            Columns(hash_bits=HASH_BITS),
            format="auto" if group == QUERY else "ffm",
            labeled=True,
            stream=Stream(passthrough=True, label_weights=True, row_groups=row_groups),
            labels=None,
        )
        first = 0
        for chunk in chunks:
            texts, groups = chunk.result
            if self.time is None:
                yield KeyedRows(texts, groups, numbers_from(first, len(texts)))
            else:
                yield KeyedRows(texts, np.zeros(len(texts), dtype=np.int64), groups.astype(np.float64))
            first += len(texts)

    def _table(self) -> Iterator[KeyedRows]:
        first = 0
        for head, buffer, keys in self.keyed():
            text = memoryview(buffer.data)
            texts = [bytes(text[begin:end]) for begin, end in zip(keys.begins, keys.ends, strict=True)]
            times = numbers_from(first, len(texts)) if keys.times is None else keys.times
            yield KeyedRows(texts, keys.groups, times, b"" if first else head.text)
            first += len(texts)

    def keyed(self) -> Iterator[tuple[Head, TextBuffer, Keys]]:
        """Yield the head of a table with some of its text, and the groups and times in it. Raises the errors of
        `read`."""
        heads: list[Head] = []

        def layout(head: Head, source: str) -> Layout:
            for name in (self.group, self.time):
                if name is not None and name not in head.names:
                    raise BadInputError(f"{source}: {no_such('column', name, head.names)}")
            heads.append(head)
            return [ColumnForm(IGNORED, order=ORDERS.index(self.form.orders.get(name, ""))) for name in head.names]

        keys: Keys | None = None
        line, read = 0, False
        with closing(opened(self.path, self.form, layout, [])) as found:
            for buffer in found:
                assert buffer.scanner is not None
                if keys is None:
                    columns = (-1 if name is None else heads[0].names.index(name) for name in (self.group, self.time))
                    keys = Keys(next(columns), next(columns), self.time or "")
                line += buffer.before
                lines_read, faults = keys.read(buffer.scanner, buffer.data, buffer.start, buffer.stop)
                if faults and not read and self._finds_order():
                    yield from self.keyed()
                    return
                if faults:
                    raise BadInputError(describe(buffer.name, line + faults[0].number + 1, faults[0]))
                yield heads[0], buffer, keys
                line, read = line + lines_read, True

    def _finds_order(self) -> bool:
        """Determine from all rows whether the times are dates that begin with the day or the month, unless this is
        known. Return whether they are. Raises BadInputError if both are possible."""
        if self.time is None or self.time in self.form.orders:
            return False
        order = order_of_dates(self.path, self.time, self.form)
        if not order:
            return False
        self.form = replace(self.form, orders={self.time: order})
        return True


def numbers_from(first: int, rows: int) -> Times:
    """Return the numbers of `rows` rows, from `first` on."""
    return np.arange(first, first + rows, dtype=np.float64)


def looks_like_table(path: Input) -> bool:
    """Return whether the first row looks like a table's. Raises MissingInputError."""
    first = next((text for text in lines_of(path) if text.strip() and not COMMENT.match(text)), b"")
    return mistaken.is_table(first)


def lines_of(path: Input) -> Iterator[bytes]:
    """Yield the lines of a text, without line breaks. Raises the errors of fmcli.data.text.sources.buffers."""
    spare: list[bytearray] = []
    for buffer in buffers([path], spare, BUFFER_BYTES):
        text = bytes(memoryview(buffer.data)[buffer.start : buffer.stop])
        yield from (line.removesuffix(b"\r") for line in text.split(b"\n")[:-1])
        spare.append(buffer.data)


def _lines_and_groups(piece: Piece) -> tuple[list[bytes], Groups]:
    assert piece.beside is not None
    assert piece.data.group is not None
    return [line + b"\n" for line in piece.beside.texts], np.asarray(piece.data.group, dtype=np.int64)
