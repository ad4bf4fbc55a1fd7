"""Tables in text: lines of cells with a delimiter, and usually a header."""

import csv
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from fmcli.data.labels import is_number
from fmcli.data.sources import Extent
from fmcli.errors import BadInputError
from fmcli.prepare.lines import Line, lines
from fmcli.text import shell_word

# The first one that the first line has is the delimiter.
DELIMITERS = ("::", "\t", ",", ";", "|")
QUOTING = (",", ";")  # cells may be in double quotes with these delimiters
NAMES = {"\t": "tab"}


# The place, the cells, the end and the text of a row; see Row.
Record = tuple[str, list[str], int, bytes]


class Quoted(csv.excel):
    """Cells may be in double quotes."""

    strict = True


class Plain(csv.excel):
    """Quotation marks are like other characters."""

    quoting = csv.QUOTE_NONE


class Row(NamedTuple):
    """A row of a table.

    place : its file and line, for messages.
    cells : the text of each cell by the name of its column.
    end : the bytes of text of its file before the next row.
    text : the row, with a line break.
    """

    place: str
    cells: dict[str, str]
    end: int
    text: bytes


class Table(NamedTuple):
    """A table that is read row by row.

    names : of its columns.
    header : the text of its header; empty if it has none.
    """

    names: list[str]
    header: bytes
    rows: Iterator[Row]


def rows(
    path: str, columns: Sequence[str] = (), delimiter: str | None = None, used: Collection[str] | None = None
) -> Iterator[Row]:
    """Yield the rows of a table; see `opened`."""
    yield from opened(path, columns, delimiter, used).rows


def opened(
    path: str, columns: Sequence[str] = (), delimiter: str | None = None, used: Collection[str] | None = None
) -> Table:
    """Return a table, whose rows have not been read yet.

    columns : the names of its columns if it has no header.
    used : the columns that are used, as in sources.Extent.

    Raises BadInputError for a table without a delimiter, a header with a name that occurs twice, and a row with too few
    or too many cells.
    """
    found = lines([Extent(path, used=None if used is None else frozenset(used))])
    first = next((line for line in found if line.text.strip()), None)
    if first is None:
        raise BadInputError(f"{shell_word(path)}: the table is empty")
    if first.text.lstrip().startswith(b"{"):
        raise BadInputError(f"{first.name}:{first.number}: found JSON, expected a table; write it as CSV first")
    records = _records(_from(first, found), delimiter or _delimiter(first))
    names, header = list(columns), b""
    if not names:
        place, cells, _, header = next(records)
        names = [cell.strip() for cell in cells]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadInputError(f"{place}: found the column {twice[0]!r} twice, expected different names")
    return Table(names, header, _rows(names, records))


def _rows(names: Sequence[str], records: Iterator[Record]) -> Iterator[Row]:
    for place, cells, end, text in records:
        if len(cells) != len(names):
            raise BadInputError(f"{place}: found {len(cells)} cells, expected {len(names)}: {', '.join(names)}")
        yield Row(place, dict(zip(names, cells, strict=True)), end, text)


def is_header(first: bytes, second: bytes) -> bool:
    """Return whether the first of two lines looks like the header of a table: it has as many cells as the second one,
    and none of them is a number, but some of the others are."""
    delimiter = next((one for one in map(str.encode, DELIMITERS) if one in first), None)
    if delimiter is None:
        return False
    names, cells = ([cell.strip(b' "') for cell in line.split(delimiter)] for line in (first, second))
    return len(names) == len(cells) and not any(map(is_number, names)) and any(map(is_number, cells))


def _from(first: Line, rest: Iterator[Line]) -> Iterator[Line]:
    yield first
    yield from (line for line in rest if line.text.strip())


def _delimiter(first: Line) -> str:
    text = first.text.decode(errors="replace")
    for delimiter in DELIMITERS:
        if delimiter in text:
            return delimiter
    known = ", ".join(NAMES.get(one, one) for one in DELIMITERS)
    raise BadInputError(f"{first.name}:{first.number}: found no delimiter, expected one of {known}")


def _records(found: Iterator[Line], delimiter: str) -> Iterator[Record]:
    """Yield the place, the cells, the end and the text of each row. Bytes that are not UTF-8 are kept."""
    last = Line("", 0, b"")
    taken: list[bytes] = []  # the lines of the row

    def texts() -> Iterator[str]:
        nonlocal last
        for last in found:
            taken.append(last.text + b"\n")
            yield last.text.decode(errors="surrogateescape") + "\n"

    def record(cells: list[str]) -> Record:
        text = b"".join(taken)
        taken.clear()
        return f"{last.name}:{last.number}", cells, last.end, text

    if len(delimiter) == 1:
        dialect = Quoted if delimiter in QUOTING else Plain
        try:
            for cells in csv.reader(texts(), dialect, delimiter=delimiter):
                yield record(cells)
        except csv.Error as error:
            raise BadInputError(f"{last.name}:{last.number}: the row cannot be read: {error}") from error
    else:
        for text in texts():
            yield record(text.removesuffix("\n").split(delimiter))
