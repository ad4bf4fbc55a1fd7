"""Read rows chunk by chunk, as they are scored or stored. One thread parses a chunk and works on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, FeatureIds
from fmcli.data.labels import NUMBERS, Names, as_names
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import LABEL, LARGEST_INDEX, RowTexts, Stream, Text, row_lines
from fmcli.data.text.line_counter import LineCounter, Parsed
from fmcli.data.text.lines import Entries
from fmcli.data.text.parser import PADDING, Fault, Rows
from fmcli.data.text.sources import Input, TextBuffer
from fmcli.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Columns:
    """How a feature finds its column: by its number, by its id in `dictionary`, or by the last bits of its id's hash.
    Features without a column are left out and counted.

    limit : the number of columns, at most 2**31 - 1; by default, every index has a column.
    refuse_unseen : whether a feature without a column is an error.
    growing : whether names and large numbers start a dictionary of a piece's ids.
    """

    limit: int = LARGEST_INDEX + 1
    dictionary: Dictionary | None = None
    hash_bits: int = 0
    refuse_unseen: bool = False
    growing: bool = False


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows to predict.

    skipped : int64, the rows that stand for lines with errors.
    beside : the result of `Stream.keys`.
    labels : the names of labels 0, 1, ..; None: labels are numbers.
    ids : the ids of the columns, if they grow; the entries of a row are then unordered. None: column j is feature j.
    number : of the piece, from 0.
    """

    data: Dataset
    skipped: NDArray[np.int64]
    beside: RowTexts | None = None
    labels: Names | None = None
    ids: FeatureIds | None = None
    number: int = 0


@dataclass(frozen=True)
class ChunkResult(Generic[T]):
    """The result of `work` on some consecutive rows of an input."""

    result: T
    rows: int
    nnz: int
    labeled: int  # rows with a label
    comments: int  # comment lines
    unseen: int  # entries that were left out because their index reached the limit, except entries of value 0
    repeated_rows: int  # as in Table
    span: tuple[int, int] | None  # the smallest and the largest index, including entries that were left out
    features: int  # largest index below the limit + 1, including entries of value 0
    bytes: int  # of text
    format: str  # as in Table


def score_chunks(
    paths: Sequence[Input],
    work: Callable[[Piece], T],
    columns: Columns,
    *,
    format: str = "auto",
    keep_fields: bool = False,
    threads: int = 1,
    labeled: bool = False,
    model: str = "this model",
    bad: BadLines | None = None,
    stream: Stream = Stream(),  # noqa: B008
    check: Callable[[Dataset], None] | None = None,
    labels: Names | None = NUMBERS,
    counter: LineCounter | None = None,
) -> Generator[ChunkResult[T], None, None]:
    """Read rows chunk by chunk. Yields the results of `work` in order; `work` runs in the parsing thread. A row without
    entries takes the place of a skipped line with an error, except with `labeled`.

    Labels are optional: the Dataset of a chunk has label None if none of its rows has a label; otherwise rows without
    a label have NaN. A blank line is a row without entries. With `labeled`, each row needs a label, and blank lines
    are skipped as in training. `check` gets the rows first; `check` and `work` may raise RowError. `model` is for
    messages. `labels` are as in `read`; but optional labels may be any number in place of a name, and `labeled` rows
    may have new names. `counter` replaces `bad` and takes the line reports of the buffers. Everything else is as in
    `read`. An error is raised after the chunks before it.
    """
    dictionary = columns.dictionary
    counter = counter or LineCounter(bad or BadLines(), blank_is_row=not labeled)
    skip = counter.bad.skip
    text = Text(paths, format, keep_fields, model, stream=stream, labeled=labeled, skip=skip)
    groups = text.groups(stream.row_groups)
    # Rows to predict are not read ahead: the program that sends them may wait for answers. The parser knows their
    # labels.
    named = text.has_label_names(labels) if labeled or labels is None else labels != NUMBERS
    known = list(map(str.encode, labels or NUMBERS))

    def parse(number: int, buffer: TextBuffer) -> Parsed[ChunkResult[T] | None]:
        rows = Rows(
            ffm=text.ffm,
            keep_fields=keep_fields,
            training=labeled,
            limit=columns.limit,
            skip=skip,
            id_column=stream.id_column,
            label_weights=stream.label_weights,
            label_names=known if named else None,
            known_labels=bool(labels) and not labeled,
            ids=None if dictionary is None else dictionary.ids,
            others=None if dictionary is None else dictionary.shared,
            hash_bits=columns.hash_bits,
            refuse_unseen=columns.refuse_unseen,
            growing=columns.growing,
            **groups,
        )
        lines, faulty, faults = rows.parse(buffer.data, buffer.start, buffer.stop)
        if rows.refused:
            return Parsed(lines, faulty - 1, faults[:-1], rows.rows, None, faults[-1])
        if lines == 0 or (faulty and not skip):
            return Parsed(lines, faulty, faults, rows.rows, None)
        read, unseen, span = rows.rows, rows.unseen, rows.span
        labeled_rows, comments, skipped = rows.labeled, rows.comments, rows.skipped
        repeated = 0 if columns.hash_bits else rows.repeated
        names = as_names(rows.label_names) if named else None
        grown = rows.ids if rows.is_numbered else None
        fixed = columns.hash_bits or dictionary is not None
        features = columns.limit if fixed else rows.features if grown is None else len(grown)
        data = rows.dataset(columns.limit if grown is None else features)
        try:
            if check:
                check(data)
            result = work(Piece(data, skipped, stream.keys(buffer, labeled), names, grown, number))
            about = labeled_rows, comments, unseen, repeated, span, features, buffer.size, text.format
            chunk = ChunkResult(result, read, data.nnz, *about)
            return Parsed(lines, faulty, faults, read, chunk)
        except RowError as error:
            if isinstance(buffer.data, Entries):
                return Parsed(lines, faulty, faults, read, None, UNPLACED)
            hashed = partial(_hashed, text.ffm, columns.limit, columns.hash_bits) if columns.hash_bits else None
            before, column, token, line = _find(buffer, error, labeled, text.ffm, hashed)
            # A text in place of a label may be the beginning of another format.
            shown = line if named and error.feature is None else b""
            fault = Fault(before, column, token, error.expected, "", b"", error.complaint, shown)
            return Parsed(lines, faulty, faults, read, None, fault)

    for _, parsed in text.parsed(parse, threads, counter):
        if parsed.payload is not None:
            yield parsed.payload


# The fault of a table row without text: the row is read again as text to find the place.
UNPLACED = Fault(0, 1, b"", "", "", b"", "", b"")


class RowError(Exception):
    """A row with an invalid label or feature.

    row : its position in the chunk.
    expected, complaint : the ends of the message "found TOKEN, expected ...; ...".
    feature : the id of the feature, or its column if ids are hashed; None: the label is invalid.
    """

    def __init__(self, row: int, expected: str, complaint: str, feature: int | str | None = None) -> None:
        super().__init__(row, expected, complaint)
        self.row, self.expected, self.complaint, self.feature = row, expected, complaint, feature


ENTRY = re.compile(rb"\S+:\S+")  # a feature and its value in a line


def _find(
    buffer: TextBuffer, error: RowError, labeled: bool, ffm: bool, hashed: Callable[[bytes], int] | None
) -> tuple[int, int, bytes, bytes]:
    """Find the label or feature of an error. Returns the number of lines before its row, its column and text, and the
    row's line.

    hashed : returns the column of an entry, if ids are hashed.
    """
    number, line = row_lines(buffer, labeled)[error.row]
    if hashed and error.feature is not None:
        entry = next(entry for entry in ENTRY.finditer(line) if hashed(entry[0]) == error.feature)
        return number, entry.start() + 1, entry[0], line
    field = rb"\+?\d+:" if ffm else b""
    id = re.escape(str(error.feature).encode())
    form = LABEL if error.feature is None else re.compile(rb"(?:.*?\s)??(%b(?:\+?0*)?%b:[^:\s]*)(?!\S)" % (field, id))
    found = form.match(line)
    assert found
    return number, found.start(1) + 1, found[1], line


def _hashed(ffm: bool, limit: int, bits: int, entry: bytes) -> int:
    """Return the column of an entry's hashed id; -1 for an entry without a column, such as a group or a zero."""
    rows, line = Rows(ffm=ffm, keep_fields=False, training=False, limit=limit, hash_bits=bits), b"0 %b\n" % entry
    _, faulty, _ = rows.parse(bytearray(line + bytes(PADDING)), 0, len(line))
    return -1 if faulty or rows.nnz == 0 else int(rows.dataset(limit).index[0])
