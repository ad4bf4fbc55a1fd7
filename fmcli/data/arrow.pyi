"""Tables of other programs, by Arrow's C stream interface, as text: lines of CSV, the first of which is the header."""

from collections.abc import Collection
from typing import Protocol

class _Streamed(Protocol):
    """A table that other programs can read."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule of the stream."""

class ArrowError(Exception):
    """A stream that cannot be read.

    column : the name of the column at fault; None: none is.
    row : the number of the row, from 1.
    """

    column: str | None
    row: int

class ArrowStream:
    """A stream of tables with the same columns.

    Dates and timestamps are written as 1997-09-20 and 1997-09-20 13:05:10.25, with a Z if they have a time zone. Whole
    numbers and floats are written as their shortest decimals, floats that are whole as whole numbers, booleans as
    true and false, the cells of a list with a separator between them, and text with line breaks, commas or quotation
    marks in quotes. Nulls are empty cells.

    Raises ArrowError.
    """

    def __init__(self, source: _Streamed, *, separator: bytes = b"|") -> None: ...
    @property
    def columns(self) -> list[tuple[str, str, bool]]:
        """The name and the format of each column, as Arrow spells it, and whether it can be read."""

    @property
    def texts(self) -> frozenset[str]:
        """The names of the columns whose cells are texts."""

    @property
    def types(self) -> dict[str, bool]:
        """Column -> whether it has whole numbers or floats, not booleans or entries of a dictionary; other types
        are left out."""

    @property
    def vectors(self) -> frozenset[str]:
        """The names of the columns whose cells are vectors: lists of floats, or lists of numbers of one length."""

    @property
    def rows(self) -> int:
        """The number of rows that have been written as text."""

    def choose(self, names: Collection[str]) -> None:
        """Choose the columns to read, which is done once, before reading."""

    def readinto(self, room: memoryview) -> int:
        """Write text into a buffer. Return how many bytes; 0 at the end. Raises ArrowError."""
