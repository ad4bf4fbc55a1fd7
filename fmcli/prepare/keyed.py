"""Rows with the group and the time that decide which part of a split they are in."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

import numpy as np

from fmcli.data import mistaken
from fmcli.data.chunks import Columns, Piece, score_chunks
from fmcli.data.formats import COMMENT, Grouping, Stream
from fmcli.data.labels import is_number
from fmcli.errors import BadInputError, UsageError
from fmcli.names import no_such
from fmcli.prepare.lines import lines
from fmcli.prepare.rules import Groups, Times
from fmcli.prepare.tables import Row, opened

CHUNK_ROWS = 1 << 14
QUERY = "qid"
HASH_BITS = 20  # of the ids of features, which have no use here
HASH_BYTES = 8


class KeyedRows(NamedTuple):
    """Some consecutive rows.

    texts : of the rows, each with a line break.
    groups, times : of the rows; all groups are 0 if the rows have none, and times are the numbers of rows.
    header : of their table, in the first rows.
    """

    texts: list[bytes]
    groups: Groups
    times: Times
    header: bytes = b""


@dataclass(frozen=True)
class Source:
    """A file whose rows can be read twice.

    group, time : the columns of the groups and the times of a table; in text, `group` is "qid" or a field. None: rows
        have no groups, and their order is that of the times.
    header : whether the first line is the header of a table.
    columns, delimiter : of a table without a header, as in tables.opened.
    """

    path: str
    group: str | None = None
    time: str | None = None
    header: bool = False
    columns: Sequence[str] = ()
    delimiter: str | None = None

    def read(self) -> Iterator[KeyedRows]:
        """Yield the rows in chunks. Raises BadInputError, UsageError for columns that text does not have, and
        MissingInputError."""
        if self.header or self.columns or self.delimiter or (self.by_column and looks_like_table(self.path)):
            return self._table()
        if self.time is not None:
            raise UsageError(
                f"{self.path} is not a table, and other rows have no times",
                by_order={True: "if they are in the order of time"},
            )
        return self._plain() if self.group is None else self._grouped(self.group)

    @property
    def by_column(self) -> bool:
        """Whether a column decides."""
        return self.group is not None or self.time is not None

    def _plain(self) -> Iterator[KeyedRows]:
        """Yield the rows of any text, one for each line that is neither blank nor a comment."""
        found = (line.text + b"\n" for line in lines([self.path]) if line.text.strip() and not COMMENT.match(line.text))
        first = 0
        while texts := list(islice(found, CHUNK_ROWS)):
            yield KeyedRows(texts, np.zeros(len(texts), dtype=np.int64), numbers_from(first, len(texts)))
            first += len(texts)

    def _grouped(self, group: str) -> Iterator[KeyedRows]:
        """Yield the rows of libsvm or ffm text, with groups as training knows them."""
        if group != QUERY and not group.isdecimal():
            raise UsageError(
                f"{self.path} is not a table, and other rows have groups by qid, or by a field of ffm text, such as 0, "
                f"not by {group!r}"
            )
        grouping = Grouping(None if group == QUERY else int(group))
        chunks = score_chunks(
            [self.path],
            _lines_and_groups,
            Columns(hash_bits=HASH_BITS),
            format="auto" if group == QUERY else "ffm",
            labelled=True,
            stream=Stream(passthrough=True, label_weights=True, grouping=grouping),
            labels=None,
        )
        first = 0
        for chunk in chunks:
            texts, groups = chunk.result
            yield KeyedRows(texts, groups, numbers_from(first, len(texts)))
            first += len(texts)

    def _table(self) -> Iterator[KeyedRows]:
        table = opened(self.path, self.columns, self.delimiter)
        for name in (self.group, self.time):
            if name is not None and name not in table.names:
                unnamed = any(is_number(name.encode(errors="surrogateescape")) for name in table.names)
                advice = {"columns": {"NAMES": "if the table has no header"}} if unnamed else {}
                raise BadInputError(f"{self.path}: {no_such('column', name, table.names)}", **advice)
        clock = Clock(self.time) if self.time is not None else None
        header, first = table.header, 0
        rows = (row for row in table.rows)
        while chunk := list(islice(rows, CHUNK_ROWS)):
            groups, times = np.zeros(len(chunk), dtype=np.int64), numbers_from(first, len(chunk))
            if self.group is not None:
                groups = group_numbers([row.cells[self.group] for row in chunk])
            if clock is not None:
                times = np.fromiter(map(clock, chunk), dtype=np.float64, count=len(chunk))
            yield KeyedRows([row.text for row in chunk], groups, times, header)
            header, first = b"", first + len(chunk)


class Clock:
    """Reads the times of rows: numbers, or dates and times in ISO format, which count as UTC unless they say more.

    A time beyond 2^53 is rounded, by which no time comes before an earlier one.
    """

    def __init__(self, column: str) -> None:
        self._column, self._numbers = column, True
        self._begun = False

    def __call__(self, row: Row) -> float:
        cell = row.cells[self._column].strip()
        if not self._begun:
            self._begun, self._numbers = True, is_number(cell.encode(errors="surrogateescape"))
        try:
            time = float(cell) if self._numbers else in_seconds(cell)
        except ValueError:
            time = math.nan
        if not math.isfinite(time) or "_" in cell:
            expected = "a number" if self._numbers else "a number, or a date or time such as 1997-09-20 13:05:10"
            raise BadInputError(f"{row.place}: found {cell!r} in the column {self._column!r}, expected {expected}")
        return time


def in_seconds(text: str) -> float:
    """Return the time of a date and time in ISO format. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def group_numbers(cells: Sequence[str]) -> Groups:
    """Return a number for each cell, which is the same for the same text."""
    digests = (
        hashlib.blake2b(cell.encode(errors="surrogateescape"), digest_size=HASH_BYTES).digest() for cell in cells
    )
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def numbers_from(first: int, rows: int) -> Times:
    """Return the numbers of so many rows."""
    return np.arange(first, first + rows, dtype=np.float64)


def looks_like_table(path: str) -> bool:
    """Return whether the first row looks like that of a table. Raises MissingInputError."""
    found = lines([path])
    first = next((line.text for line in found if line.text.strip() and not COMMENT.match(line.text)), b"")
    return mistaken.is_table(first)


def _lines_and_groups(piece: Piece) -> tuple[list[bytes], Groups]:
    assert piece.keys is not None
    assert piece.data.group is not None
    return [line + b"\n" for line in piece.keys], np.asarray(piece.data.group, dtype=np.int64)
