"""Inputs as text: local and remote files and standard input, compressed or not, split into buffers of whole lines."""

from __future__ import annotations

import os
import select
import sys
from collections import Counter
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from fmcli.data.file_formats import QUERY_RESULT, FileFormat, Inflating, format_in
from fmcli.data.text.parser import PADDING
from fmcli.errors import BadInputError, MissingInputError, TransferError
from fmcli.records import dataclass
from fmcli.system.addresses import is_query, is_remote, without_secrets
from fmcli.system.mistaken import LONGEST_HEAD, binary

if TYPE_CHECKING:
    from fmcli.data.tables.scanner import Scanner

# Large enough that the Python calls per buffer (about 20 us) are negligible compared with parsing (1 ms), and small
# enough that the text and the rows of a buffer stay in the cache of a core.
BUFFER_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NEWLINE = 10
# The number of compressed bytes to read at a time.
COMPRESSED_BYTES = 1 << 17
# The number of bytes to read at a time beyond an extent, for its last line.
TAIL_BYTES = 1 << 12
# A longer line is an error, so compressed or binary data without line breaks cannot fill the memory.
LONGEST_LINE = 64 << 20


class LongLineError(BadInputError):
    """A line is longer than LONGEST_LINE.

    name : the name of its input.
    line : its number, if known.
    """

    def __init__(self, name: str, line: int | None = None) -> None:
        where = f"{name}:{line}" if line else name
        limit = f"{LONGEST_LINE >> 20} MiB"
        super().__init__(f"{where}: the line is longer than {limit}; write shorter rows, each with a line break")
        self.name, self.line = name, line

    def __reduce__(self) -> tuple[type[LongLineError], tuple[str, int | None]]:
        return LongLineError, (self.name, self.line)


@dataclass(frozen=True)
class FileRange:
    """An extent of a file: the lines of a file that begin in bytes start .. stop - 1.

    stop : None: the end of the file.
    size : the size that the file must still have, in bytes; None: it may have changed.
    used : the columns that are used. Other columns are left out if their type is not read (text has no types);
        None: all are used.
    frame : a table in memory in place of a file, by Arrow's C stream interface; the path is its name.
    """

    path: str
    start: int = 0
    stop: int | None = None
    size: int | None = None
    used: Container[str] | None = None
    frame: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.start == 0 and self.stop is None:
            return name_of(self.path)
        stop = self.size if self.stop is None else self.stop
        return f"{name_of(self.path)}, bytes {self.start:,} to {stop:,}"


class TableInput(str):
    """The path of a table, or a query, that is read as rows of features.

    fields : whether features have fields.
    opens : whether this is the first table.
    extra : after reading: the columns that the model does not know.
    filled : after reading: column -> the number of missing cells that its mean replaces without a feature for the
        gap.
    joined : column -> the table whose rows it refers to.
    unmatched : after reading: column -> the number of rows that refer to no row of the table joined by it.
    """

    fields: bool
    opens: bool = True
    extra: frozenset[str] = frozenset()
    filled: Mapping[str, int] = MappingProxyType({})
    joined: Mapping[str, str] = MappingProxyType({})
    unmatched: Mapping[str, int] = MappingProxyType({})

    def opened(
        self, extent: FileRange, spare: list[bytearray], *, unbuffered: bool, training: bool, skip: bool
    ) -> Generator[TextBuffer, None, None]:
        """Yield the rows as `buffers` does, with the scanner that turns them into features.

        extent : an extent of the table that begins with a row.
        training : whether each row needs a label.
        skip : whether rows with errors are skipped.
        """
        raise NotImplementedError

    def row_starts(self, places: Sequence[int]) -> list[int]:
        """Return, for each of some increasing positions in the file, the position of the first row there or later."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """Return JSON values of everything besides the text that the rows depend on."""
        raise NotImplementedError


# A file, or an extent of its lines.
Input = str | FileRange


@dataclass
class Gaps:
    """Missing values of the tables that have been read.

    filled : as in TableInput, for all tables.
    unmatched : (column, table joined by it) -> the number of rows that refer to no row of the table.
    """

    filled: Counter[str] = field(default_factory=Counter)
    unmatched: Counter[tuple[str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, paths: Iterable[Input]) -> Gaps:
        """Return the gaps of inputs."""
        found = cls()
        for table in map(table_in, paths):
            if table is not None:
                found.add(cls.of_table(table.filled, table.unmatched, table.joined))
        return found

    @classmethod
    def of_table(cls, filled: Mapping[str, int], unmatched: Mapping[str, int], joined: Mapping[str, str]) -> Gaps:
        """Return the gaps of a table; the arguments are attributes of TableInput."""
        return cls(Counter(filled), Counter({(column, joined[column]): rows for column, rows in unmatched.items()}))

    def add(self, other: Gaps) -> None:
        """Add the gaps of further tables."""
        self.filled += other.filled
        self.unmatched += other.unmatched


def table_in(path: Input) -> TableInput | None:
    """Return the table of an input, which may be an extent of it; None if the input has rows of features."""
    inner = path.path if isinstance(path, FileRange) else path
    return inner if isinstance(inner, TableInput) else None


@dataclass(frozen=True)
class TextBuffer:
    """Whole lines of one input: data[start:stop] ends with a line break, or is empty."""

    name: str
    data: bytearray
    start: int
    stop: int
    size: int  # bytes of text, without a line break added at the end
    first: bool  # the first buffer of its input
    last: bool  # the last buffer of its input
    scanner: Scanner | None = None  # the scanner of the table with these rows
    before: int = 0  # lines of the table's head, before the first row here
    opens: bool = False  # whether this is the first buffer of the first table
    table: TextBuffer | None = None  # the table text that this text was made from
    texts: frozenset[str] | None = None  # of a stream: the text columns, even if all cells are numbers; None: no stream
    vectors: frozenset[str] = frozenset()  # of a stream: columns whose cells are vectors of numbers
    unread: frozenset[str] = frozenset()  # the columns that were left out
    types: Mapping[str, bool] = field(default_factory=dict)  # of a frame in memory, as in StreamText


def buffers(
    paths: Sequence[Input], spare: list[bytearray], size: int, unbuffered: bool = False
) -> Generator[TextBuffer, None, None]:
    """Yield the text of the inputs in order, at least one buffer (possibly empty) per input or extent; "-" is standard
    input.

    A buffer has at most `size` bytes, or more if one line is longer. Its memory comes from `spare` first, where the
    caller puts buffers that it no longer needs. With `unbuffered`, a buffer has the whole lines that have arrived, even
    if it is small. Raises MissingInputError for an input that cannot be read, TransferError if a remote or regular file
    ends too early, and BadInputError for compressed data that is truncated or corrupt, a binary format, and a line that
    is too long (LongLineError)."""
    for path in paths:
        extent = FileRange(path) if isinstance(path, str) else path
        with ExitStack() as stack:
            source, about = _source(extent, stack)
            for buffer in _cut(source, extent, spare, size, unbuffered):
                yield replace(buffer, **about) if about else buffer


def _source(extent: FileRange, stack: ExitStack) -> tuple[_Source, dict[str, Any]]:
    """Return the text of an extent, and the column types of a table that is not text."""
    if extent.frame is not None:
        from fmcli.data.queries import StreamText

        table = StreamText(extent.frame, name_of(extent.path), extent.used)
        return table, table.about
    raw = None if is_query(extent.path) else _Raw(extent, stack)
    form = raw.form if raw else QUERY_RESULT
    if form and form.opener and (raw is None or os.path.isfile(extent.path)):
        table = form.opened(extent.path, extent.used)
        return table, table.about
    assert raw
    if form and form.inflating:
        return _Inflated(raw, form.name, form.inflating()), {}
    if reason := binary(raw.head):
        raise BadInputError(f"{raw.name}: {reason}")
    return (_Lines(raw, extent) if extent.start or extent.stop is not None else raw), {}


def extents(path: str, size: int) -> list[FileRange]:
    """Divide a file into extents of at most `size` bytes plus a line, or a table row; in order. A compressed or remote
    file, or a table that is not text, is one extent. Raises BadInputError and MissingInputError."""
    total = 0 if format_of(path) or is_remote(path) else size_on_disk(path)
    if total <= size or not os.path.isfile(path):
        return [FileRange(path)]
    count = -(-total // size)
    starts = [total * number // count for number in range(count)]
    if isinstance(path, TableInput):
        starts = sorted({0, *path.row_starts(starts[1:])} - {total})
    return [FileRange(path, start, stop, total) for start, stop in zip(starts, [*starts[1:], None], strict=True)]


def text_bytes(paths: Sequence[str]) -> int:
    """Return the size of the inputs' text in bytes; 0 if it is not known, as for pipes, addresses and compressed files.
    Raises MissingInputError."""
    known = all(path != "-" and os.path.isfile(path) and not format_of(path) for path in paths)
    return sum(map(size_on_disk, paths)) if known else 0


def format_of(path: str) -> FileFormat | None:
    """Return the format of an input that is not text, but becomes text when it is read; None: it is text. Raises
    MissingInputError."""
    if is_query(path):
        return QUERY_RESULT
    with ExitStack() as stack:
        return _Raw(FileRange(path), stack).form


def reading_needed(paths: Sequence[str]) -> int:
    """Return the bytes that reading local files and queries takes at most, beside their text."""
    forms = {format_of(path) for path in paths if is_query(path) or os.path.isfile(path)}
    return max((form.bytes_needed() for form in forms if form), default=0)


def name_of(path: str) -> str:
    """Return the name of an input for messages."""
    if is_query(path):
        return "the query"
    return "<stdin>" if path == "-" else without_secrets(path)


def size_on_disk(path: str) -> int:
    """Return the size in bytes of a regular file, even if it is redirected to standard input, or of a remote file, if
    its file system knows it; otherwise 0."""
    if is_remote(path):
        from fmcli.system.remote import remote_size

        return remote_size(path)
    try:
        status = os.fstat(sys.stdin.fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError, AttributeError):
        return 0
    return status.st_size


class _Source(Protocol):
    def readinto(self, room: memoryview) -> int: ...


def _cut(
    source: _Source, extent: FileRange, spare: list[bytearray], size: int, unbuffered: bool
) -> Generator[TextBuffer, None, None]:
    name = name_of(extent.path)
    rest = b""  # the beginning of an incomplete line
    first, ended = extent.start == 0, False
    while not ended:
        data = spare.pop() if spare else bytearray(size + PADDING)
        data[: len(rest)] = rest
        filled = searched = len(rest)
        stop = 0
        while not (stop or ended):
            if filled + PADDING >= len(data):  # a single line fills the buffer
                if filled > LONGEST_LINE:
                    raise LongLineError(name, 1 if first else None)
                data.extend(bytes(len(data)))
            filled, ended = _fill(source, data, filled, once=unbuffered)
            stop = data.rfind(b"\n", searched, filled) + 1
            searched = filled
        start = len(BYTE_ORDER_MARK) if first and data.startswith(BYTE_ORDER_MARK, 0, filled) else 0
        stop = max(start, stop)
        missing = ended and stop < filled  # the last line has no line break
        if missing:
            data[filled] = NEWLINE
            stop = filled + 1
        rest = bytes(memoryview(data)[stop:filled])
        yield TextBuffer(name, data, start, stop, stop - start - missing, first, ended and extent.stop is None)
        first = False


def _fill(source: _Source, data: bytearray, filled: int, once: bool) -> tuple[int, bool]:
    """Read until the buffer is full except for its padding, or until the source ends; with `once`, read only what has
    arrived. Returns the number of bytes filled, and whether the source ended."""
    with memoryview(data) as view:
        while filled + PADDING < len(data):
            count = source.readinto(view[filled : len(data) - PADDING])
            if count == 0:
                return filled, True
            filled += count
            if once:
                break
    return filled, False


class _Raw:
    """The bytes of a file or of standard input. `head` has the first bytes; `readinto` returns them again.

    The bytes of an extent begin one byte before its start.
    """

    def __init__(self, extent: FileRange, stack: ExitStack):
        path = extent.path
        self.name = name_of(path)
        self.head = b""
        self._received = self._size = 0  # in bytes; a file can grow, but must not become shorter
        self._raw: Any
        if path == "-":
            if sys.stdin is None or sys.stdin.closed:
                raise MissingInputError("cannot read standard input: it is closed")
            # Unbuffered: a buffered reader retries after a signal, and then no signal could stop a blocking read.
            self._raw = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        elif is_remote(path):
            from fmcli.system.remote import RemoteFile

            self._raw = stack.enter_context(RemoteFile(path))
        else:
            try:
                self._raw = stack.enter_context(open(path, "rb", buffering=0))  # noqa: SIM115
                self._size = size_on_disk(path)
                if extent.size is not None and extent.size != self._size:
                    raise TransferError(
                        f"{self.name}: the file has {self._size:,} bytes here, but {extent.size:,} when the run began: "
                        "every worker must see the same file"
                    )
                if extent.start:
                    self._received = self._raw.seek(extent.start - 1)
                    return
            except OSError as error:
                raise self._unreadable(error) from error
        head = bytearray(LONGEST_HEAD)
        filled = 0
        # Stop at a line break: the next line may come later.
        while filled < LONGEST_HEAD and b"\n" not in head and (count := self.readinto(memoryview(head)[filled:])):
            filled += count
        self.head = bytes(head[:filled])

    @property
    def form(self) -> FileFormat | None:
        """The format of the file; None: it may be text, or an extent begins within it."""
        return format_in(self.head)

    def readinto(self, room: memoryview) -> int:
        if self.head:
            count = min(len(self.head), len(room))
            room[:count] = self.head[:count]
            self.head = self.head[count:]
            return count
        try:
            # None: no data yet, because the pipe was made non-blocking elsewhere.
            while (count := self._raw.readinto(room)) is None:
                select.select([self._raw], [], [])
        except OSError as error:
            raise self._unreadable(error) from error
        self._received += count
        if count == 0 and self._received < self._size:
            raise TransferError(
                f"{self.name}: the file was truncated while it was read, from {self._size:,} to at most "
                f"{self._received:,} bytes; try again"
            )
        return int(count)

    def _unreadable(self, error: OSError) -> MissingInputError:
        return MissingInputError(f"cannot read {self.name}: {error.strerror or error}")


class _Lines:
    """The bytes of the lines that begin in an extent of a file."""

    def __init__(self, source: _Raw, extent: FileRange):
        self._source, self._stop = source, extent.stop
        self._position = max(extent.start - 1, 0)  # the position of the source's next byte
        self._begun, self._ended = extent.start == 0, False

    def readinto(self, room: memoryview) -> int:
        while not self._ended:
            # Read little beyond the extent.
            size = len(room) if self._stop is None else max(self._stop - self._position, TAIL_BYTES)
            count = self._source.readinto(room[:size])
            before, self._position = self._position, self._position + count
            begin = 0
            if not self._begun:  # the text up to the first line break belongs to the preceding extent
                begin = bytes(room[:count]).find(b"\n") + 1
                self._begun = begin > 0
            end = self._end(room, before, count)
            self._ended = count == 0 or end is not None
            end = count if end is None else end
            if self._begun and begin < end:
                if begin:
                    room[: end - begin] = bytes(room[begin:end])
                return end - begin
        return 0

    def _end(self, room: memoryview, before: int, count: int) -> int | None:
        """Return the position in these bytes where the extent ends: after the first line break at `stop - 1` or later.
        None: it ends later."""
        if self._stop is None or before + count < self._stop:
            return None
        at = max(self._stop - 1 - before, 0)
        found = bytes(room[at:count]).find(b"\n")
        return None if found < 0 else at + found + 1


class _Inflated:
    """Decompressed bytes. Another stream may follow a stream, as in `cat a.gz b.gz`; anything else is an error.

    Some file classes of the standard library silently stop at a corrupt second stream, so they are not used.
    """

    def __init__(self, source: _Raw, kind: str, inflating: Inflating):
        self._source, self._kind = source, kind
        self._make, self._errors = inflating
        self._stream = self._make()

    def readinto(self, room: memoryview) -> int:
        while True:
            if self._stream.eof:
                data = self._stream.unused_data.lstrip(b"\0")  # xz files and tape archives may be padded with zeros
                while not data and (more := self._fetch()):
                    data = more.lstrip(b"\0")
                if not data:
                    return 0
                self._stream = self._make()
            else:
                data = self._fetch() if self._stream.needs_input else b""
            starved = not data and self._stream.needs_input
            try:
                text = self._stream.decompress(data, len(room))
            except self._errors as error:
                raise BadInputError(f"{self._source.name}: the {self._kind} data is corrupt: {error}") from error
            if text:
                room[: len(text)] = text
                return len(text)
            if starved and not self._stream.eof:
                raise BadInputError(f"{self._source.name}: the {self._kind} data is truncated")

    def _fetch(self) -> bytes:
        data = bytearray(COMPRESSED_BYTES)
        return bytes(data[: self._source.readinto(memoryview(data))])
