"""Tables of other programs as text, through Arrow's C stream interface: lines of CSV with a header."""

from collections.abc import Collection
from typing import Protocol

class _Streamed(Protocol):
    """A table that Arrow's C stream interface can read."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule of the stream."""

class ArrowError(Exception):
    """A stream that cannot be read.

    column : the name of the column at fault; None: no column is.
    row : the number of the row, from 1.
    """

    column: str | None
    row: int

class ArrowStream:
    """A stream of tables with the same columns.

    Dates and timestamps are written as 1997-09-20 and 1997-09-20 13:05:10.25, with a Z if they have a time zone.
    Integers and floats are written as their shortest decimals, whole floats as integers, and booleans as true and
    false. The cells of a list are joined with a separator. Text with line breaks, commas or quotation marks is quoted.
    Nulls are empty cells.

    Raises ArrowError.
    """

    def __init__(self, source: _Streamed, *, separator: bytes = b"|") -> None: ...
    @property
    def columns(self) -> list[tuple[str, str, bool]]:
        """The name and the Arrow format of each column, and whether the column can be read."""

    @property
    def texts(self) -> frozenset[str]:
        """The names of the text columns."""

    @property
    def types(self) -> dict[str, bool]:
        """Column -> whether it has integers or floats, not booleans or entries of a dictionary. Columns of other types
        are left out."""

    @property
    def vectors(self) -> frozenset[str]:
        """The names of the vector columns: lists of floats, or lists of numbers with one common length."""

    @property
    def rows(self) -> int:
        """The number of rows written as text so far."""

    def choose(self, names: Collection[str]) -> None:
        """Choose the columns to read: once, before reading."""

    def readinto(self, room: memoryview) -> int:
        """Write text into a buffer. Return the number of bytes; 0 at the end. Raises ArrowError."""
