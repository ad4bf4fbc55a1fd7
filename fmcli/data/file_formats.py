"""Formats of files that are not text, and become text when they are read: compressed text, and tables of other
programs."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Protocol

from fmcli.records import dataclass
from fmcli.registry.entry import load
from fmcli.system.addresses import is_query

if TYPE_CHECKING:
    from fmcli.data.queries import StreamText


class Decompressor(Protocol):
    """The decompressor of one stream of bytes."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class Gzip:
    """The gzip decompressor of zlib, with the interface of the other decompressors."""

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


# The class of a decompressor, and the exceptions that it raises for corrupt data.
Inflating = tuple[Callable[[], Decompressor], tuple[type[Exception], ...]]


def gzip() -> Inflating:
    return Gzip, (zlib.error,)


def bzip2() -> Inflating:
    import bz2

    return bz2.BZ2Decompressor, (OSError, ValueError)


def xz() -> Inflating:
    import lzma

    return lzma.LZMADecompressor, (lzma.LZMAError,)


def zstd() -> Inflating:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor, (zstd.ZstdError,)


@dataclass(frozen=True)
class FileFormat:
    """A format of files.

    magic : the first bytes of a file, one of several.
    suffixes : the ends of file names, behind a point.
    inflating : of compressed text: returns its decompressor.
    opener : of tables: "module:function"; the function takes the path of a local file, and the columns that are used
        (see sources.FileRange), and returns the table as a StreamText.
    needed : of tables: "module:function"; the function returns the bytes that the reader takes beside the text.
    """

    name: str
    magic: tuple[bytes, ...]
    suffixes: tuple[str, ...]
    inflating: Callable[[], Inflating] | None = None
    opener: str = ""
    needed: str = ""

    def opened(self, path: str, used: Container[str] | None) -> StreamText:
        """Return a table as text."""
        found: StreamText = load(self.opener)(path, used)
        return found

    def bytes_needed(self) -> int:
        """Return the bytes that reading a table takes beside its text."""
        return int(load(self.needed)()) if self.needed else 0


_BY_DUCKDB = "fmcli.data.queries:bytes_needed"
# Parallel zstd writers begin with a skippable frame, which has one of sixteen magic numbers.
_SKIPPABLE = tuple(bytes([number]) + b"\x2a\x4d\x18" for number in range(0x50, 0x60))
FORMATS = (
    FileFormat("gzip", (b"\x1f\x8b",), ("gz",), gzip),
    FileFormat("bzip2", (b"BZh",), ("bz2",), bzip2),
    FileFormat("xz", (b"\xfd7zXZ\0",), ("xz",), xz),
    FileFormat("zstd", (b"\x28\xb5\x2f\xfd", *_SKIPPABLE), ("zst",), zstd),
    FileFormat("Parquet", (b"PAR1",), ("parquet", "pq"), opener="fmcli.data.queries:parquet", needed=_BY_DUCKDB),
)
# The result of a query, which is no file.
QUERY_RESULT = FileFormat("query", (), (), opener="fmcli.data.queries:query", needed=_BY_DUCKDB)
# The suffixes of tables that are text.
TEXT_TABLES = ("csv", "tsv", "tab")


def format_in(head: bytes) -> FileFormat | None:
    """Return the format of a file with these first bytes; None: it has none of the table."""
    return next((form for form in FORMATS if head.startswith(form.magic)), None)


def is_table(path: str) -> bool:
    """Return whether an input is a query, or has the name of a table, which may be compressed."""
    if is_query(path):
        return True
    compressed = [suffix for form in FORMATS if form.inflating for suffix in form.suffixes]
    tables = [*TEXT_TABLES, *(suffix for form in FORMATS if form.opener for suffix in form.suffixes)]
    stem, _, last = path.lower().rpartition(".")
    return (stem.rpartition(".")[2] if last in compressed else last) in tables
