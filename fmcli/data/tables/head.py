"""The header of a table, and the output of `predict` next to its predictions: the cells of each row, or an id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from fmcli.data.labels import SURROGATES
from fmcli.data.tables.scanner import Keys
from fmcli.data.text.formats import RowTexts
from fmcli.errors import BadInputError
from fmcli.names import no_such
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.data.text.sources import TextBuffer

PREDICTION = "prediction"
NONE = -1  # no column


@dataclass(frozen=True)
class Head:
    """The beginning of a table.

    names : the names of the columns.
    delimiter : the text between cells.
    start : the position of the first row in the first buffer.
    lines : the number of lines before the rows.
    text : the text of the header; empty if there is none.
    texts, vectors, unread, types : as in TextBuffer.
    """

    names: list[str]
    delimiter: str
    start: int
    lines: int
    text: bytes = b""
    texts: frozenset[str] = frozenset()
    vectors: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    types: Mapping[str, bool] = field(default_factory=dict)

    def beside(self, buffer: TextBuffer, column: str | None) -> RowTexts:
        """Return the rows of a buffer unchanged, or their cells in `column`. Raises BadInputError if the table lacks
        the column, or already has predictions."""
        scanner = buffer.scanner
        assert scanner is not None
        names, delimiter = self.names, self.delimiter.encode()
        if column is None and PREDICTION in names:
            raise BadInputError(f"{buffer.name}: the table has a column {PREDICTION!r} already; rename it")
        if column is not None and column not in names:
            raise BadInputError(f"{buffer.name}: {no_such('column', column, names)}")
        header = self.text.rstrip(b"\r\n") if column is None else column.encode(errors=SURROGATES)
        before = header if buffer.opens and self.text else None
        if column is not None:
            texts, *_ = scanner.texts(buffer.data, buffer.start, buffer.stop, [names.index(column)])
            return RowTexts(texts, delimiter, before, True, are_cells=True)
        rows, text = Keys(NONE, NONE, ""), memoryview(buffer.data)
        rows.read(scanner, buffer.data, buffer.start, buffer.stop)
        places = zip(rows.begins.tolist(), rows.ends.tolist(), strict=True)
        return RowTexts([bytes(text[begin:end]).rstrip(b"\r\n") for begin, end in places], delimiter, before, True)
