"""The columns beside predictions for the rows of a table: its cells, or an id; the result is a table again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fmcli.data.tables.scanner import Keys
from fmcli.errors import BadInputError
from fmcli.names import no_such

if TYPE_CHECKING:
    from fmcli.data.sources import TextBuffer

PREDICTION = "prediction"
NONE = -1  # no column


class Beside(NamedTuple):
    """The texts that precede the predictions for some rows.

    delimiter : between a text and a prediction; of a table, also between predictions.
    header : what precedes the names of the predictions; None: no names are written before these rows.
    more : further texts of each row.
    """

    texts: list[bytes]
    delimiter: bytes = b"\t"
    header: bytes | None = None
    of_table: bool = False
    more: tuple[list[bytes], ...] = ()

    def part(self, start: int, stop: int) -> Beside:
        """Return the texts for some of the rows."""
        more = tuple(texts[start:stop] for texts in self.more)
        return self._replace(texts=self.texts[start:stop], header=None if start else self.header, more=more)

    def joined(self, lines: list[bytes], names: list[str]) -> bytes:
        """Return predictions behind the texts, with a line for each row. names : of the predictions."""
        delimiter = self.delimiter
        if self.of_table:
            lines = [line.replace(b" ", delimiter) for line in lines]
        text = b"".join(b"%b%b%b\n" % (one, delimiter, line) for one, line in zip(self.texts, lines, strict=True))
        if self.header is None:
            return text
        return delimiter.join([self.header, *map(str.encode, names)]) + b"\n" + text


def beside(buffer: TextBuffer, column: str | None) -> Beside:
    """Return the rows of a table as they are, or their cells in a column. Raises BadInputError if the table has no such
    column, or has predictions already."""
    scanner = buffer.scanner
    assert scanner is not None
    names, delimiter = scanner.head.names, scanner.head.delimiter.encode()
    if column is None and PREDICTION in names:
        raise BadInputError(f"{buffer.name}: the table has a column {PREDICTION!r} already; rename it")
    if column is not None and column not in names:
        raise BadInputError(f"{buffer.name}: {no_such('column', column, names)}")
    header = scanner.head.text.rstrip(b"\r\n") if column is None else column.encode()
    before = header if buffer.opens and scanner.head.text else None
    if column is not None:
        texts, *_ = scanner.texts(buffer.data, buffer.start, buffer.stop, [names.index(column)])
        return Beside([quoted(text, delimiter) for text in texts], delimiter, before, True)
    rows, text = Keys(NONE, NONE, ""), memoryview(buffer.data)
    rows.read(scanner, buffer.data, buffer.start, buffer.stop)
    places = zip(rows.begins.tolist(), rows.ends.tolist(), strict=True)
    return Beside([bytes(text[begin:end]).rstrip(b"\r\n") for begin, end in places], delimiter, before, True)


def quoted(cell: bytes, delimiter: bytes) -> bytes:
    """Return a cell as it is written."""
    if delimiter in cell or b'"' in cell or b"\n" in cell:
        return b'"%b"' % cell.replace(b'"', b'""')
    return cell
