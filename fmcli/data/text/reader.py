"""The reader: parses libsvm or ffm text from files or standard input into training rows, in one pass and with several
threads. Besides the rows, it needs memory for a few buffers of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.labels import NUMBERS, Names, listed_names, relabeled, sorted_names
from fmcli.data.sparse_ids import with_dictionary
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import LARGEST_INDEX, RowGroups, Stream, Text
from fmcli.data.text.line_counter import LineCounter, Parsed
from fmcli.data.text.parser import Rows
from fmcli.data.text.pieces import TextRows, concatenated_by_ids
from fmcli.data.text.sources import TextBuffer, name_of, reading_needed, size_on_disk
from fmcli.data.text.workers import Appender
from fmcli.errors import BadInputError
from fmcli.records import dataclass
from fmcli.system import memory
from fmcli.text import readable

# The free memory is checked each time the training rows have grown by this many bytes.
GROWTH = 64 << 20
# Bytes per name while names get their columns: twice its first bytes and place, and its column, end and text.
BYTES_TO_NUMBER = 80
# Memory for all rows is the estimate times this factor, so it is rarely too small.
MARGIN = 1.05


@dataclass(frozen=True)
class Table:
    """Training rows as read from text."""

    dataset: Dataset
    format: str  # "libsvm" or "ffm"
    fields: int  # largest field + 1; 0 for libsvm
    repeated_rows: int  # rows that repeat an index (or a field and index, if fields are kept); 0 for hashed ids
    bytes: int  # bytes of text
    labels: Names | None = None  # the names of labels 0, 1, .., increasing; None: labels are numbers

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.dataset.rows

    @property
    def nonzeros(self) -> int:
        """The number of entries."""
        return self.dataset.nnz

    @property
    def features(self) -> int:
        """The number of features, including features that do not occur."""
        return self.dataset.dimension


def read(
    paths: Sequence[str],
    *,
    format: str = "auto",
    keep_fields: bool = False,
    fields_if_any: bool = False,
    compact: bool = False,
    threads: int = 1,
    bad: BadLines | None = None,
    label_weights: bool = False,
    labels: Names | None = None,
    hash_bits: int = 0,
    row_groups: RowGroups | None = None,
    columns: Callable[[TextRows], Dataset] | None = None,
) -> Table:
    """Read training rows from the inputs, which are concatenated in order; "-" is standard input.

    `format` is auto (detected from the first entry), libsvm or ffm. With `keep_fields` the entries keep their field,
    which libsvm text does not have; with `fields_if_any`, only entries of ffm text do; otherwise the entries of a row
    are merged by index. With `compact`, only features that occur get columns. With `hash_bits`, columns are the last
    bits of hashes of the ids. Otherwise, ids that are names, or very large numbers compared with the number of ids, get
    columns by a dictionary, which becomes the numbering of the rows. With `label_weights`, a label may be followed by a
    colon and the weight of the row. `labels` are the possible names of labels, increasing, or NUMBERS; by default,
    labels are names if the first one is not a number. `row_groups` gives the groups of the rows. `columns` replaces
    these rules for the columns of ids. `bad` handles and counts lines with errors; by default, the first one is an
    error.

    Raises BadInputError, MissingInputError and NotEnoughMemoryError, and MemoryError if memory runs out despite the
    check.
    """
    bad = bad or BadLines()
    text = Text(paths, format, keep_fields, stream=Stream(label_weights=label_weights), labeled=True, skip=bad.skip)
    groups = text.groups(row_groups)
    named = text.has_label_names(labels)
    known = list(map(str.encode, labels or NUMBERS))

    def new_rows(names: Sequence[bytes] = ()) -> Rows:
        return Rows(
            ffm=text.ffm,
            keep_fields=keep_fields or fields_if_any,
            training=True,
            limit=LARGEST_INDEX + 1,
            skip=bad.skip,
            label_weights=label_weights,
            label_names=names if named else None,
            growing=not hash_bits,
            hash_bits=hash_bits,
            **groups,
        )

    total = new_rows(known)
    appender = Appender(total, first=1)

    def parse(number: int, buffer: TextBuffer) -> Parsed[int]:
        # A single thread, or the thread of the first buffer, appends to `total`; other threads fill rows of their own.
        alone = threads == 1 or number == 0
        rows = total if alone else appender.idle.pop() if appender.idle else new_rows()
        before, bytes_before = rows.rows, rows.nbytes
        lines, faulty, faults = rows.parse(buffer.data, buffer.start, buffer.stop)
        parsed = Parsed(lines, faulty, faults, rows.rows - before, rows.nbytes - bytes_before)
        if not alone and (bad.skip or not faulty):
            appender.append(number, rows)
        return parsed

    size = taken = looked_at = 0
    on_disk = sum(map(size_on_disk, paths))
    with closing(text.parsed(parse, threads, LineCounter(bad, blank_is_row=False))) as results:
        for buffer, parsed in results:
            first = size == 0  # no other thread has started yet
            size += buffer.size
            taken += parsed.payload
            if first or taken - looked_at >= GROWTH:
                looked_at = taken
                left = max(on_disk - size, 0)
                rest = max(left * looked_at // size, 0 if first or buffer.last else GROWTH)
                _require_memory(paths, rest, looked_at, first=first)
                if first and left:
                    total.reserve_for_growth(MARGIN * (size + left) / size)
    found = total.label_names
    repeated = 0 if hash_bits else total.repeated  # hashes of different features may be equal
    if columns is None:
        data = _with_columns(total, threads, 1 << hash_bits if hash_bits else None)
    else:
        data = columns(_text_rows(total))
    if data.group is not None:
        data = data.changed(group=np.unique(data.group, return_inverse=True)[1].astype(np.int32))
    if compact:
        data = data.compacted(in_place=True)
    if not named:
        return Table(data, text.format, total.fields, repeated, size)
    names, places = sorted_names(found, name_of(paths[0]))
    if known and len(names) > len(known):
        raise BadInputError(
            f"{name_of(paths[0])}: the model does not know the label {readable(found[len(known)].decode())}, only "
            f"{listed_names(labels or NUMBERS)}; check the labels of the file"
        )
    return Table(relabeled(data, places), text.format, total.fields, repeated, size, names)


def read_unlabeled(paths: Sequence[str], *, format: str = "auto", keep_fields: bool = True, threads: int = 1) -> Table:
    """Read rows whose labels are optional; see `read`. Rows without labels have none.

    Raises BadInputError, MissingInputError and NotEnoughMemoryError.
    """
    pieces, size, repeated, kind = list[TextRows](), 0, 0, "libsvm"
    for chunk in score_chunks(
        paths,
        lambda piece: TextRows(piece.data, piece.ids),
        Columns(growing=True),
        format=format,
        keep_fields=keep_fields,
        threads=threads,
    ):
        data = chunk.result.data
        data = data if chunk.result.ids is not None else data.changed(features=chunk.features)
        pieces.append(TextRows(data, chunk.result.ids))
        size, repeated, kind = size + chunk.bytes, repeated + chunk.repeated_rows, chunk.format
        memory.require_if_large(2 * sum(piece.data.nbytes for piece in pieces), f"reading {name_of(paths[0])}")
    if not pieces:
        field = np.empty(0, dtype=np.int32) if keep_fields else None
        data = Dataset(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), None, None, 0, field)
        return Table(data, kind, 0, 0, size)
    labeled = all(piece.data.label is not None for piece in pieces)
    if not labeled:  # concatenated pieces must have labels
        pieces = [replace(one, data=one.data.changed(label=np.zeros(one.data.rows))) for one in pieces]
    data = concatenated_by_ids(pieces, threads, only_seen=True)
    return Table(data if labeled else data.changed(label=None), kind, data.fields, repeated, size)


def _text_rows(rows: Rows) -> TextRows:
    """Return the training rows, with columns for their ids in any order."""
    ids = rows.ids if rows.is_numbered else None
    return TextRows(rows.dataset(rows.features if ids is None else len(ids)), ids)


def _with_columns(rows: Rows, threads: int, hashed: int | None) -> Dataset:
    """Return the training rows, with columns by a dictionary if their ids need one.

    hashed : the number of columns if ids are hashed.
    """
    if rows.is_numbered:
        ids = rows.ids
        memory.require_if_large(BYTES_TO_NUMBER * len(ids), "numbering the features")
        data = rows.dataset(len(ids))
        return data.ordered(*ids.sorted(data.seen()), threads)
    data = rows.dataset(hashed or rows.features)
    return data if hashed else with_dictionary(data, data.index)


def _require_memory(paths: Sequence[str], rest: int, taken: int, *, first: bool) -> None:
    """Raise NotEnoughMemoryError if the remaining rows (`rest` bytes) will not fit into memory beside the rows read so
    far (`taken` bytes). `first` : programs that read tables have not taken their memory yet.

    `rest` is estimated from the size of the remaining text: for a compressed file its size on disk, a lower bound; for
    a pipe 0.
    """
    if rest > 0:
        if first:
            rest += reading_needed(paths)
        purpose = f"reading {name_of(paths[0])}" + (" and the other files" if len(paths) > 1 else "")
        memory.require(taken + rest, purpose, held=taken)
