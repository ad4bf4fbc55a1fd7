"""Relations: tables of entries that rows of data share, and the table row of each data row."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.related.joining import joined
from fmcli.data.text import pieces
from fmcli.data.text.chunks import Piece, RowError
from fmcli.data.text.sources import BUFFER_BYTES, buffers, name_of
from fmcli.errors import BadInputError
from fmcli.records import dataclass
from fmcli.text import quote

if TYPE_CHECKING:
    from concurrent.futures import Future

RowNumbers = NDArray[np.int32]

# The approximate number of entries joined at a time, for any number of rows per piece of text.
ENTRIES = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class RelationFiles:
    """The files of a relation.

    rows : libsvm text without labels.
    map : text; line i has the relation row, from 0, of data row i.
    """

    rows: str
    map: str


def refuse_labels(data: Dataset) -> None:
    """Raise RowError for the first row of a relation that has a label."""
    if data.label is not None:
        row = int((~np.isnan(data.label)).argmax())
        raise RowError(row, "index:value", "the rows of a relation have no labels")


class Map:
    """The relation row of each data row, from a file that is read as it is needed.

    Parameters
    ----------
    files : the files of the relation.
    rows : the number of rows of the relation.
    """

    def __init__(self, files: RelationFiles, rows: int) -> None:
        self.files, self.rows = files, rows
        self._numbers = self._read()
        self._ahead = np.empty(0, dtype=np.int32)
        self._taken = 0

    def take(self, count: int) -> RowNumbers:
        """Return (count) the relation rows of the next data rows. Raises BadInputError, which names the file and the
        line."""
        pieces = [self._ahead]
        missing = count - len(self._ahead)
        while missing > 0 and (more := next(self._numbers, None)) is not None:
            pieces.append(more)
            missing -= len(more)
        numbers = np.concatenate(pieces)
        if missing > 0:
            line = self._taken + len(numbers) + 1
            raise BadInputError(f"{self._name}:{line}: the file ends, but there are more rows; {self._need}")
        self._ahead = numbers[count:]
        self._taken += count
        return numbers[:count]

    def end(self) -> None:
        """Raise BadInputError if the file has further lines."""
        if len(self._ahead) or any(len(more) for more in self._numbers):
            raise BadInputError(
                f"{self._name}:{self._taken + 1}: the file has more lines than the {self._taken:,} rows; {self._need}"
            )

    def close(self) -> None:
        """Close the file."""
        self._numbers.close()

    @property
    def _name(self) -> str:
        return name_of(self.files.map)

    @property
    def _need(self) -> str:
        return f"each needs one line with the number of its row of {name_of(self.files.rows)}"

    def _read(self) -> Generator[RowNumbers, None, None]:
        before = 0
        for buffer in buffers([self.files.map], [], BUFFER_BYTES):
            lines = bytes(buffer.data[buffer.start : buffer.stop]).split(b"\n")[:-1]
            try:
                numbers = np.array(lines, dtype=np.bytes_).astype(np.int64)
            except (ValueError, OverflowError):
                numbers = np.full(1, -1)
            if len(lines) and not 0 <= numbers.min() <= numbers.max() < self.rows:
                self._complain(lines, before)
            yield numbers.astype(np.int32)
            before += len(lines)

    def _complain(self, lines: Sequence[bytes], before: int) -> None:
        """Raise BadInputError for the first line that is not the number of a relation row."""
        known = f"which has rows 0 to {self.rows - 1:,}" if self.rows else "which has no rows"
        for place, line in enumerate(lines, before + 1):
            try:
                valid = 0 <= int(line) < self.rows
            except ValueError:
                valid = False
            if not valid:
                raise BadInputError(
                    f"{self._name}:{place}: found {quote(line)}, expected the number of a row of "
                    f"{name_of(self.files.rows)}, {known}"
                )


def concatenated_pieces(read: Sequence[Dataset]) -> Dataset:
    """Return the rows of a relation, from consecutive pieces with the same columns."""
    if not read:
        return Dataset(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), None, np.zeros(0), 0)
    return pieces.concatenated([piece.changed(label=np.zeros(piece.rows)) for piece in read])


class Joiner:
    """Joins pieces of rows with their relation rows, and works on the joined rows.

    Parameters
    ----------
    relations : the files and the rows of each relation, all with the columns of the pieces.
    """

    def __init__(self, relations: Sequence[tuple[RelationFiles, Dataset]]) -> None:
        self.relations = [data for _, data in relations]
        self.maps = [Map(files, data.rows) for files, data in relations]

    def each(self, rows: Iterator[Piece], work: Callable[[Piece], T], threads: int, ahead: int) -> Iterator[T]:
        """Yield the results of `work` on the joined rows, in order; a piece with many entries has several results. Up
        to `ahead` results wait while further rows are read.

        Raises BadInputError for a map that does not fit the rows.
        """
        from concurrent.futures import ThreadPoolExecutor

        waiting: deque[Future[T]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            for piece in rows:
                for part, numbers in self._parts(piece):
                    waiting.append(pool.submit(self._work, work, part, numbers))
                    if len(waiting) > ahead:
                        yield waiting.popleft().result()
            for which in self.maps:
                which.end()
            while waiting:
                yield waiting.popleft().result()

    def close(self) -> None:
        """Close the maps."""
        for which in self.maps:
            which.close()

    def _parts(self, piece: Piece) -> Iterator[tuple[Piece, list[RowNumbers]]]:
        """Yield a piece in parts of about ENTRIES joined entries, with the relation rows of each part."""
        data = piece.data
        numbers = [which.take(data.rows) for which in self.maps]
        lengths = np.diff(data.indptr)
        for related, rows in zip(self.relations, numbers, strict=True):
            lengths = lengths + np.diff(related.indptr)[rows]
        ends = np.cumsum(lengths)
        count = int(ends[-1]) // ENTRIES if len(ends) else 0
        cuts = np.searchsorted(ends, ENTRIES * np.arange(1, count + 1))
        for start, stop in pairwise(np.unique([0, *cuts, data.rows]).tolist() or [0, 0]):
            beside = piece.beside and piece.beside.part(start, stop)
            part = data if stop - start == data.rows else data.take(np.arange(start, stop, dtype=np.int32))
            yield replace(piece, data=part, beside=beside), [rows[start:stop] for rows in numbers]

    def _work(self, work: Callable[[Piece], T], piece: Piece, numbers: list[RowNumbers]) -> T:
        return work(replace(piece, data=joined(piece.data, list(zip(self.relations, numbers, strict=True)))))
