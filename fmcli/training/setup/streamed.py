"""The rows of a stream, for a single pass over segments. Only one segment is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.labels import NUMBERS, Names, listed_names, relabeled, sorted_names
from fmcli.data.shards.weights import ALL_WEIGHTLESS, pieces_that_count
from fmcli.data.stored.cache import CacheHeader
from fmcli.data.text.pieces import TextRows, concatenated_by_ids
from fmcli.errors import BadInputError
from fmcli.records import dataclass
from fmcli.text import readable
from fmcli.training.setup.rows import LabelWeights, RowsInMemory

if TYPE_CHECKING:
    from typing import Self

# The least number of bytes of a segment's rows. The rows of a segment take at least as many bytes as the parameters, so
# that copying these takes less time than training.
SEGMENT_BYTES = 64 << 20

Segment = tuple[RowsInMemory, bool]


class Segments:
    """The segments of a stream, one after the other, and with each, whether it is the last one.

    The first one has all labels. Raises BadInputError if a later one has others.

    Parameters
    ----------
    pieces : the rows, with labels.
    source : the name of the stream in messages.
    unit : the number of rows of a segment, except the last one, is a multiple of it.
    threads : the number of threads that give features their columns.

    Attributes
    ----------
    facts : about the rows that have been read so far.
    """

    def __init__(self, pieces: Iterable[TextRows], source: str, unit: int, threads: int) -> None:
        self.facts, self._source, self._least_bytes = CacheHeader(), source, SEGMENT_BYTES
        self._read = self._named(segments(self._counted(pieces), lambda: self._least_bytes, unit, threads))
        self._ahead: list[Segment] = []

    @property
    def first(self) -> RowsInMemory:
        """The first segment, as long as it has not been taken."""
        if not self._ahead:
            self._ahead.append(next(self._read))
        return self._ahead[0][0]

    def __iter__(self) -> Iterator[Segment]:
        return self

    def __next__(self) -> Segment:
        return self._ahead.pop() if self._ahead else next(self._read)

    def enlarge(self, size: int) -> None:
        """Make each further segment, except the last one, at least as large as `size` bytes and as SEGMENT_BYTES."""
        self._least_bytes = max(SEGMENT_BYTES, size)

    def _counted(self, pieces: Iterable[TextRows]) -> Iterator[TextRows]:
        """Yield the pieces that have rows of other weights than 0, which are counted."""
        for piece in pieces_that_count(pieces):
            self.facts.take(piece.facts)
            if piece.data.rows:
                self.facts.add(piece.data)
                yield piece

    def _named(self, cut: Iterable[tuple[Dataset, bool]]) -> Iterator[Segment]:
        """Yield segments whose labels are the places of their names, in increasing order, if they have some."""
        names: Names = NUMBERS
        places: NDArray[np.float64] | None = None
        for data, last in cut:
            if found := self.facts.names:
                if places is None:
                    names, places = sorted_names([name.encode() for name in found], self._source)
                if data.label.max() >= len(places):
                    raise BadInputError(
                        f"{self._source}: the first rows have the labels {listed_names(names)} only, but a later one "
                        f"has {readable(found[len(places)])}; begin with rows of all labels"
                    )
                data = relabeled(data, places)
            yield RowsInMemory(data, names), last


@dataclass(frozen=True)
class StreamedRows:
    """The rows of a stream, for a single pass; see LabeledRows. The first segment determines the weights of labels.

    of_labels : weights by label.
    """

    segments: Segments
    of_labels: Mapping[float, float] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return self.segments.first.names

    @property
    def labels(self) -> LabelWeights:
        return self.segments.first.labels

    def with_label_weights(self, of_labels: Mapping[float, float]) -> Self:
        return replace(self, of_labels=of_labels)

    def __iter__(self) -> Iterator[Segment]:
        """Yield each segment with the weights of its labels, and whether it is the last one."""
        for rows, last in self.segments:
            yield rows.with_label_weights(self.of_labels) if self.of_labels else rows, last


def segments(
    pieces: Iterable[TextRows], size: Callable[[], int], unit: int, threads: int
) -> Iterator[tuple[Dataset, bool]]:
    """Concatenate pieces of rows to segments of at least `size()` bytes; with each, whether it is the last one.

    unit : the number of rows of a segment, except the last one, is a multiple of it.
    """
    held: list[TextRows] = []
    for piece in pieces:
        rows = sum(one.data.rows for one in held)
        if rows >= unit and sum(one.data.nbytes for one in held) >= size():
            rest = last_rows(held, rows % unit)
            yield concatenated_by_ids(held, threads), False
            held = rest
        held.append(piece)
    if not held:
        raise BadInputError(ALL_WEIGHTLESS)
    yield concatenated_by_ids(held, threads), True


def last_rows(pieces: list[TextRows], rows: int) -> list[TextRows]:
    """Remove rows from the end of some pieces. Returns them."""
    removed: list[TextRows] = []
    while rows:
        piece = pieces.pop()
        count = min(rows, piece.data.rows)
        every = np.arange(piece.data.rows, dtype=np.int32)
        removed.insert(0, replace(piece, data=piece.data.take(every[len(every) - count :])))
        if count < len(every):
            pieces.append(replace(piece, data=piece.data.take(every[: len(every) - count])))
        rows -= count
    return removed
