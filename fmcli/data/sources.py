"""Inputs as text: files and standard input, compressed or not, cut into blocks of whole lines."""

import os
import select
import sys
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from fmcli.data.parser import PADDING
from fmcli.errors import BadInputError, MissingInputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NEWLINE = 10
# Compressed bytes fetched at a time.
COMPRESSED_BYTES = 1 << 17
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# Parallel zstd writers begin with a frame to be skipped, of one of sixteen numbers.
MAGIC |= {bytes([number]) + b"\x2a\x4d\x18": "zstd" for number in range(0x50, 0x60)}
LONGEST_MAGIC = max(map(len, MAGIC))


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of one input: data[start:stop] ends with a line break, or is empty."""

    name: str
    data: bytearray
    start: int
    stop: int
    size: int  # bytes of text: without a line break that was missing at the end
    first: bool  # the first block of its input
    last: bool  # the last block of its input


def blocks(paths: Sequence[str], spare: list[bytearray], size: int) -> Generator[Block, None, None]:
    """Yield the text of the inputs in order, at least one block (it may be empty) each; "-" is standard input.

    Blocks have at most `size` bytes, more where one line is longer. Their memory is taken from `spare` first: the
    caller puts it there when a block is done with. Raises MissingInputError for what cannot be read, BadInputError for
    compressed data that is truncated or corrupt.
    """
    for path in paths:
        with ExitStack() as stack:
            source = _Raw(path, stack)
            kind = next((kind for magic, kind in MAGIC.items() if source.head.startswith(magic)), None)
            yield from _cut(_Inflated(source, kind) if kind else source, source.name, spare, size)


def name_of(path: str) -> str:
    """What messages call an input."""
    return "<stdin>" if path == "-" else path


def size_on_disk(path: str) -> int:
    """Bytes of a regular file, also one that standard input comes from; 0 for what is none."""
    try:
        status = os.fstat(sys.stdin.fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError, AttributeError):
        return 0
    return status.st_size


class _Source(Protocol):
    def readinto(self, room: memoryview) -> int: ...


def _cut(source: _Source, name: str, spare: list[bytearray], size: int) -> Generator[Block, None, None]:
    rest = b""  # the beginning of a line whose end has not been read yet
    first, ended = True, False
    while not ended:
        data = spare.pop() if spare else bytearray(size + PADDING)
        data[: len(rest)] = rest
        filled = searched = len(rest)
        stop = 0
        while not (stop or ended):
            if filled + PADDING >= len(data):  # one line fills it
                data.extend(bytes(len(data)))
            filled, ended = _fill(source, data, filled)
            stop = data.rfind(b"\n", searched, filled) + 1
            searched = filled
        start = len(BYTE_ORDER_MARK) if first and data.startswith(BYTE_ORDER_MARK, 0, filled) else 0
        stop = max(start, stop)
        missing = ended and stop < filled  # the last line break
        if missing:
            data[filled] = NEWLINE
            stop = filled + 1
        rest = bytes(memoryview(data)[stop:filled])
        yield Block(name, data, start, stop, stop - start - missing, first, ended)
        first = False


def _fill(source: _Source, data: bytearray, filled: int) -> tuple[int, bool]:
    """Read until the data is full but for its padding, or the source ends; returns how far, and whether it ended."""
    with memoryview(data) as view:
        while filled + PADDING < len(data):
            count = source.readinto(view[filled : len(data) - PADDING])
            if count == 0:
                return filled, True
            filled += count
    return filled, False


class _Raw:
    """The bytes of a file or of standard input. `head` are its first bytes, read again by `readinto`."""

    def __init__(self, path: str, stack: ExitStack):
        self.name = name_of(path)
        self.head = b""
        self._raw: Any
        if path == "-":
            if sys.stdin is None or sys.stdin.closed:
                raise MissingInputError("cannot read standard input: it is closed")
            # Without its buffer, which reads on when a signal has come, and then nothing stops a read that waits.
            self._raw = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        else:
            try:
                self._raw = stack.enter_context(open(path, "rb", buffering=0))  # noqa: SIM115
            except OSError as error:
                raise self._unreadable(error) from error
        head = bytearray(LONGEST_MAGIC)
        filled = 0
        while filled < LONGEST_MAGIC and (count := self.readinto(memoryview(head)[filled:])):
            filled += count
        self.head = bytes(head[:filled])

    def readinto(self, room: memoryview) -> int:
        if self.head:
            count = min(len(self.head), len(room))
            room[:count] = self.head[:count]
            self.head = self.head[count:]
            return count
        try:
            # None: nothing yet, from a pipe that someone has set not to block.
            while (count := self._raw.readinto(room)) is None:
                select.select([self._raw], [], [])
        except OSError as error:
            raise self._unreadable(error) from error
        return int(count)

    def _unreadable(self, error: OSError) -> MissingInputError:
        return MissingInputError(f"cannot read {self.name}: {error.strerror or error}")


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """zlib's decompressor of gzip data in the form of the others."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


class _Inflated:
    """Decompressed bytes. Streams may follow each other, as `cat a.gz b.gz` makes them; nothing else may follow one.

    The file classes of the standard library are not used because some of them end quietly at a second stream that is
    corrupt.
    """

    def __init__(self, source: _Raw, kind: str):
        self._source, self._kind = source, kind
        self._make, self._errors = _decompressor(kind)
        self._stream = self._make()

    def readinto(self, room: memoryview) -> int:
        while True:
            if self._stream.eof:
                data = self._stream.unused_data.lstrip(b"\0")  # xz and tapes pad with zeros
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


def _decompressor(kind: str) -> tuple[Callable[[], _Decompressor], tuple[type[Exception], ...]]:
    """What decompresses one stream, and the exceptions by which it says that the data is corrupt."""
    if kind == "gzip":
        return _Gzip, (zlib.error,)
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor, (OSError, ValueError)
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor, (lzma.LZMAError,)
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor, (zstd.ZstdError,)
