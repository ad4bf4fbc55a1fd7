"""The reader: parses libsvm or ffm text from files or standard input into rows, in one pass and with several threads.

Blocks of whole lines are read and parsed by several threads without the GIL, and put in order again: the rows, the
counts and any error are the same for any number of threads. Apart from the rows, it needs memory for a few blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.account import Account, Parsed
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, FeatureIds, of_numbers
from fmcli.data.faults import BadLines, is_other_format, quote
from fmcli.data.labels import NUMBERS, Names, as_names, is_number, listed_texts, sorted_names
from fmcli.data.numbering import occurring
from fmcli.data.parser import Fault, Rows
from fmcli.data.pieces import is_sparse
from fmcli.data.sources import Block, Input, LongLineError, blocks, name_of, size_on_disk
from fmcli.data.workers import Appender, closing_unless_read, in_order
from fmcli.errors import LEAVE_OUT, BadInputError

# Large enough that the Python calls of a block (about 20 us) are negligible compared with parsing it (1 ms), and small
# enough that its text and rows stay in the cache of a core.
BLOCK_BYTES = 1 << 20
# The free memory is checked each time the training rows have grown by this many bytes.
GROWTH = 64 << 20
# Memory for all rows is reserved for the estimate times this factor, so that it is rarely too small.
MARGIN = 1.05
LARGEST_INDEX = 2**31 - 2
# What precedes the features of a row, by the column of an id: the id, and a label, which may be missing.
BEFORE_FEATURES = {
    0: rb"(?:[^\s:#][^\s:]*[ \t]+)?",
    1: rb"[^\s#]\S*[ \t]+(?:[^\s:#][^\s:]*[ \t]+)?",
    2: rb"[^\s:#][^\s:]*[ \t]+\S+[ \t]+",
}
BEFORE_WEIGHTED = rb"[^\s#]\S*[ \t]+"  # the same if labels may have weights: then they cannot be missing
# The first feature token of a row: the first token with a colon, after a query id, if there is one.
FEATURE = rb"(?:qid:\S*[ \t]+)?((?!qid:|#)[^\s:]*:\S*)"
DIGITS = re.compile(rb"[\d:]*")
COMMENT = re.compile(rb"[ \t\r]*#")
# The first token of a line that is neither blank nor a comment.
LABEL = re.compile(rb"[ \t\r]*([^\s#]\S*)")
# Such a line.
FIRST_ROW = re.compile(rb"^[ \t\r]*([^\s#]\S*).*", re.MULTILINE)
# The beginning of such a line if it has a query number.
QUERY = re.compile(rb"[ \t\r]*[^\s#]\S*[ \t]+qid:")

T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """The training rows that were read."""

    dataset: Dataset
    format: str  # "libsvm" or "ffm"
    fields: int  # largest field + 1; 0 for libsvm
    repeated_rows: int  # that have an index (if fields are kept: a field and index) more than once; 0 for hashed ids
    bytes: int  # of text
    labels: Names | None = None  # what labels 0, 1, .. stand for, in increasing order; None: labels are numbers

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.dataset.rows

    @property
    def nonzeros(self) -> int:
        """The number of their entries."""
        return self.dataset.nnz

    @property
    def features(self) -> int:
        """The number of features, of which some may not occur."""
        return self.dataset.dimension


@dataclass(frozen=True)
class Grouping:
    """What tells the groups of rows: their query numbers, or the one feature that each row has in a field.

    field : the field; None: query numbers.
    optional : whether rows have no groups if the first one has no query number.
    known : whether the first row, which another text may have, is known to have one.
    """

    field: int | None = None
    optional: bool = False
    known: bool = False


@dataclass(frozen=True)
class Stream:
    """How rows to predict are taken from text.

    unbuffered : whether lines are scored as soon as they have been read.
    id_column : the column of an id that is not part of the row: 1, or 2 after the label; 0: there is none.
    passthrough : whether the key of a row is its whole line.
    label_weights : whether a label may be followed by a colon and the weight of the row.
    grouping : what tells the groups of labelled rows; None: they have none.
    """

    unbuffered: bool = False
    id_column: int = 0
    passthrough: bool = False
    label_weights: bool = False
    grouping: Grouping | None = None

    def keys(self, block: Block) -> list[bytes] | None:
        """The key of each row of a block: its id, or its line; None if there are no keys."""
        if self.passthrough:
            return [line.rstrip(b"\r") for _, line in _row_lines(block)]
        if self.id_column:
            tokens = [line.split(None, self.id_column) for _, line in _row_lines(block)]
            return [words[self.id_column - 1] if len(words) >= self.id_column else b"" for words in tokens]
        return None


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows to predict.

    skipped : int64, those rows that stand for lines with errors.
    keys : as `Stream.keys` returns them.
    labels : what labels 0, 1, .. stand for; None: labels are numbers.
    ids : those of the columns, if they grow; the entries of a row are then in any order. None: column j is feature j.
    """

    data: Dataset
    skipped: NDArray[np.int64]
    keys: list[bytes] | None = None
    labels: Names | None = None
    ids: FeatureIds | None = None


@dataclass(frozen=True)
class Chunk(Generic[T]):
    """The result of `work` on some consecutive rows of an input."""

    result: T
    rows: int
    nnz: int
    labelled: int  # rows with a label
    comments: int  # comment lines
    unseen: int  # entries that were left out because their index is not below the limit, without those of value 0
    repeated_rows: int  # as in Table
    span: tuple[int, int] | None  # the smallest and the largest index, also of entries that were left out
    features: int  # largest index below the limit + 1, also of entries of value 0
    bytes: int  # of text
    format: str  # as in Table


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
    grouping: Grouping | None = None,
) -> Table:
    """Read training rows from the inputs, which are concatenated in order; "-" is standard input.

    `format` is auto (detected from the first entry), libsvm or ffm. With `keep_fields` the entries keep their field,
    which libsvm text does not have; with `fields_if_any`, those of ffm text do; otherwise the entries of a row are
    merged by index. With `compact`, there are columns only for the features that occur. With `hash_bits`, columns are
    the last bits of hashes of the ids. Otherwise ids that are names, or numbers that are very large compared with their
    count, get columns by a dictionary, which is then the numbering of the rows. With `label_weights`, a label may be
    followed by a colon and the weight of the row. `labels` are the names that labels can have, in increasing order, or
    NUMBERS; by default, labels are names if the first one is not a number. `grouping` gives the rows groups. `bad`
    determines what happens to lines with errors, and counts them; by default, the first one is an error.

    Raises BadInputError, MissingInputError and NotEnoughMemoryError, and MemoryError if the memory runs out despite the
    check.
    """
    bad = bad or BadLines()
    text = _Text(paths, format, keep_fields, stream=Stream(label_weights=label_weights))
    groups = text.groups(grouping)
    named = text.has_label_names() if labels is None else labels != NUMBERS
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

    def parse(number: int, block: Block) -> Parsed[int]:
        # A single thread appends to `total`; several threads fill separate rows, except for the first block.
        alone = threads == 1 or number == 0
        rows = total if alone else appender.idle.pop() if appender.idle else new_rows()
        before, bytes_before = rows.rows, rows.nbytes
        lines, faulty, faults = rows.parse(block.data, block.start, block.stop)
        parsed = Parsed(lines, faulty, faults, rows.rows - before, rows.nbytes - bytes_before)
        if not alone and (bad.skip or not faulty):
            appender.append(number, rows)
        return parsed

    size = taken = looked_at = 0
    on_disk = sum(map(size_on_disk, paths))
    with closing(text.parsed(parse, threads, Account(bad, blank_is_row=False))) as results:
        for block, parsed in results:
            first = size == 0  # at this time, no other thread has started
            size += block.size
            taken += parsed.payload
            if first or taken - looked_at >= GROWTH:
                looked_at = taken
                left = max(on_disk - size, 0)
                _require_memory(paths, max(left * looked_at // size, 0 if first or block.last else GROWTH), looked_at)
                if first and left:
                    total.reserve_for_growth(MARGIN * (size + left) / size)
    found = total.label_names
    repeated = 0 if hash_bits else total.repeated  # rows may have several features with the same hash
    data = _with_columns(total, threads, 1 << hash_bits if hash_bits else None)
    if data.group is not None:
        data = data.changed(group=np.unique(data.group, return_inverse=True)[1].astype(np.int32))
    if compact:
        data = data.compacted(in_place=True)
    if not named:
        return Table(data, text.format, total.fields, repeated, size)
    names, places = sorted_names(found, name_of(paths[0]))
    if known and len(names) > len(known):
        raise BadInputError(
            f"{name_of(paths[0])}: the model does not know the label {found[len(known)].decode()}, only "
            f"{listed_texts(labels or NUMBERS)}; check the labels of the file"
        )
    data = data.changed(label=places[data.label.astype(np.intp)])
    return Table(data, text.format, total.fields, repeated, size, names)


def _with_columns(rows: Rows, threads: int, hashed: int | None) -> Dataset:
    """The training rows that were read, with columns by a dictionary if their ids need one.

    hashed : the number of columns if ids are hashed.
    """
    if rows.is_numbered:
        ids = rows.ids
        data = rows.dataset(len(ids))
        return data.ordered(*ids.sorted(data.seen()), threads)
    data = rows.dataset(hashed or rows.features)
    if hashed or not is_sparse(data.features, 0):
        return data
    numbering = occurring(data.index, data.features)
    if not is_sparse(data.features, len(numbering)):
        return data
    return data.renumbered(numbering, data.index).changed(numbering=of_numbers(numbering))


def score_chunks(
    paths: Sequence[Input],
    work: Callable[[Piece], T],
    *,
    format: str = "auto",
    keep_fields: bool = False,
    limit: int,
    threads: int = 1,
    labelled: bool = False,
    model: str = "this model",
    bad: BadLines | None = None,
    stream: Stream = Stream(),
    check: Callable[[Dataset], None] | None = None,
    labels: Names | None = NUMBERS,
    dictionary: Dictionary | None = None,
    hash_bits: int = 0,
    refuse_unseen: bool = False,
    growing: bool = False,
    account: Account | None = None,
) -> Generator[Chunk[T], None, None]:
    """Read rows to predict, chunk by chunk. Yields the results of `work` in order; `work` runs in the parsing thread.
    If a line with an error is skipped, a row without entries takes its place, but not with `labelled`.

    The column of a feature is its number, or that of its id in `dictionary`, or the last bits of the hash of its id.
    Other features are left out and counted, or with `refuse_unseen` an error. With `growing`, names and large numbers
    begin a dictionary of the ids of a piece.

    Labels are optional: the Dataset of a chunk has label None if none of its rows has a label; otherwise rows without
    a label have NaN. A blank line is a row without entries. The Datasets have `limit` columns (at most 2**31 - 1);
    entries beyond are left out and counted. With `labelled`, each row needs a label, blank lines are skipped as in
    training. `check` gets the rows first; it and `work` may raise RowError. `model` is for messages.
    `labels` are as in `read`, but other names may follow them. `account` takes what the blocks say about their lines,
    in place of `bad`. All else is as in `read`; an error is raised after the chunks before it.
    """
    account = account or Account(bad or BadLines(), blank_is_row=not labelled)
    skip = account.bad.skip
    text = _Text(paths, format, keep_fields, model, stream=stream)
    groups = text.groups(stream.grouping)
    named = text.has_label_names() if labels is None else labels != NUMBERS
    known = list(map(str.encode, labels or NUMBERS))

    def parse(_: int, block: Block) -> Parsed[Chunk[T] | None]:
        rows = Rows(
            ffm=text.ffm,
            keep_fields=keep_fields,
            training=labelled,
            limit=limit,
            skip=skip,
            id_column=stream.id_column,
            label_weights=stream.label_weights,
            label_names=known if named else None,
            ids=None if dictionary is None else dictionary.ids,
            others=None if dictionary is None else dictionary.shared,
            hash_bits=hash_bits,
            refuse_unseen=refuse_unseen,
            growing=growing,
            **groups,
        )
        lines, faulty, faults = rows.parse(block.data, block.start, block.stop)
        if rows.refused:
            return Parsed(lines, faulty - 1, faults[:-1], rows.rows, None, faults[-1])
        if lines == 0 or (faulty and not skip):
            return Parsed(lines, faulty, faults, rows.rows, None)
        read, unseen, span = rows.rows, rows.unseen, rows.span
        labelled_rows, comments, skipped = rows.labelled, rows.comments, rows.skipped
        repeated = 0 if hash_bits else rows.repeated
        names = as_names(rows.label_names) if named else None
        grown = rows.ids if rows.is_numbered else None
        features = limit if hash_bits or dictionary is not None else rows.features if grown is None else len(grown)
        data = rows.dataset(limit if grown is None else features)
        try:
            if check:
                check(data)
            result = work(Piece(data, skipped, stream.keys(block), names, grown))
            about = labelled_rows, comments, unseen, repeated, span, features, block.size, text.format
            chunk = Chunk(result, read, data.nnz, *about)
            return Parsed(lines, faulty, faults, read, chunk)
        except RowError as error:
            before, column, token = _find(block, error, labelled, text.ffm)
            fault = Fault(before, column, token, error.expected, "", b"", error.complaint, b"")
            return Parsed(lines, faulty, faults, read, None, fault)

    for _, parsed in text.parsed(parse, threads, account):
        if parsed.payload is not None:
            yield parsed.payload


class RowError(Exception):
    """A row whose label or feature is invalid.

    row : its position in the chunk.
    expected, complaint : ends of the message "found TOKEN, expected ...; ...".
    feature : the id of the feature; None: the label.
    """

    def __init__(self, row: int, expected: str, complaint: str, feature: int | str | None = None) -> None:
        super().__init__(row, expected, complaint)
        self.row, self.expected, self.complaint, self.feature = row, expected, complaint, feature


class _Text:
    """The text of inputs, and its format."""

    def __init__(
        self,
        paths: Sequence[Input],
        format: str,
        needs_fields: bool,
        model: str = "this model",
        *,
        stream: Stream = Stream(),
    ):
        self._spare: list[bytearray] = []
        self._blocks = blocks(paths, self._spare, BLOCK_BYTES, stream.unbuffered)
        before = BEFORE_WEIGHTED if stream.label_weights else BEFORE_FEATURES[stream.id_column]
        self._form = re.compile(rb"^[ \t\r]*" + before + FEATURE, re.MULTILINE)
        self._label_weights = stream.label_weights
        self._ahead = [next(self._blocks)]
        self._sure = True
        if format == "auto":
            token = self._first_token()
            # Without a feature token in this input, the next input is read ahead.
            while not token and (self._ahead[-1].last or stream.unbuffered) and (block := next(self._blocks, None)):
                self._ahead.append(block)
                token = self._first_token()
            self._sure = token is not None
            colons = token[1].count(b":") if token else 0
            format = "ffm" if colons == 2 else "libsvm"
            if token and colons > 2 and not DIGITS.fullmatch(token[1]):
                raise BadInputError(
                    f"{self._ahead[-1].name}: the format cannot be detected, because the first feature, "
                    f"{quote(token[1])}, has {colons} colons, of which the last one precedes the value",
                    format={"libsvm": "if the others belong to its name", "ffm": "if the first one ends a field"},
                )
        self._whole = sum(block.last for block in self._ahead) == len(paths)  # whether all the text was read ahead
        self.format = format
        self.ffm = format == "ffm"
        if needs_fields and self._sure and not self.ffm:
            raise BadInputError(
                f"{self._ahead[-1].name}: found {format} text, whose features have no fields, but {model} needs "
                "fields; use ffm text: label field:index:value ..."
            )

    def has_label_names(self) -> bool:
        """Whether labels are names, which is so if the first one is not a number, in a line that is libsvm or ffm
        text."""
        found = self._first_row()
        if not found:
            return False
        label = found[1].partition(b":")[0] if self._label_weights else found[1]
        if b":" in label or is_number(label):
            return False
        line = found[0].partition(b"\n")[0]
        fault = Fault(0, 1, label, "a label", "label", b"", "is not a number", line)
        return not is_other_format(fault)

    def groups(self, grouping: Grouping | None) -> dict[str, Any]:
        """The options of `Rows` for groups. Raises BadInputError if the text does not have them."""
        if grouping is None:
            return {}
        if grouping.field is not None:
            if self._sure and not self.ffm:
                raise BadInputError(
                    f"{self._ahead[-1].name}: found {self.format} text, whose features have no fields, so that none "
                    "tells the groups of rows; write qid:number after each label",
                    group_field=LEAVE_OUT,
                )
            return {"grouped": True, "group_field": grouping.field}
        if grouping.known:
            return {"grouped": True}
        row = self._first_row()
        if row is None or QUERY.match(row[0]):
            return {"grouped": row is not None}
        if grouping.optional:
            return {}
        raise BadInputError(
            f"{self._ahead[-1].name}: the rows have no groups, which ranking needs; write qid:number after each label",
            **({"group_field": None} if self.ffm else {}),
        )

    def _first_row(self) -> re.Match[bytes] | None:
        """The first line that is neither blank nor a comment, and its first token; None if there is none."""
        block = self._ahead[-1]
        while not (found := FIRST_ROW.search(memoryview(block.data)[block.start : block.stop])):
            if (following := next(self._blocks, None)) is None:
                return None
            self._ahead.append(block := following)
        return found

    def _first_token(self) -> re.Match[bytes] | None:
        """The first feature token of the most recently read block."""
        block = self._ahead[-1]
        return self._form.search(block.data, block.start, block.stop)

    def parsed(
        self, parse: Callable[[int, Block], Parsed[T]], threads: int, account: Account
    ) -> Generator[tuple[Block, Parsed[T]], None, None]:
        """Yield all parsed blocks in order; raise the first error of the text after the blocks before it."""
        # Closed on an error, not when its traceback is garbage-collected, so that no thread outlives the call.
        parsed_blocks = in_order(chain(self._ahead, self._blocks), parse, threads)
        with closing_unless_read(self._blocks), closing(parsed_blocks) as results:
            while True:
                try:
                    block, parsed = next(results)
                except StopIteration:
                    return
                except LongLineError as error:
                    raise account.located(error) from None
                account.add(block.name, block.first, block.last, parsed)
                self.require_format(account.blank_is_row, block.name)
                yield block, parsed
                self._spare.append(block.data)

    def require_format(self, blank_is_row: bool, name: str) -> None:
        """Raise BadInputError if the format is not known, and matters: blank rows have none."""
        if not (self._sure or (self._whole and blank_is_row)):
            raise BadInputError(
                f"{name}: the format cannot be detected, because no row at the start of the file has a feature",
                format={"libsvm": "", "ffm": ""},
            )

    def close(self) -> None:
        """Close the input that was begun."""
        self._blocks.close()


def detected(
    paths: Sequence[str], format: str, needs_fields: bool, model: str, stream: Stream, labelled: bool
) -> tuple[str, Stream]:
    """The format of some inputs, "libsvm" or "ffm", as `score_chunks` finds it, and how their parts are read: the first
    row tells whether there are groups. Raises the same errors."""
    text = _Text(paths, format, needs_fields, model, stream=stream)
    with closing(text):
        text.require_format(not labelled, name_of(paths[0]))
        grouping = stream.grouping
        if grouping is not None and grouping.field is None:
            grouping = Grouping(known=True) if text.groups(grouping).get("grouped") else None
        else:
            text.groups(grouping)
    return text.format, replace(stream, grouping=grouping)


def _require_memory(paths: Sequence[str], rest: int, taken: int) -> None:
    """Raise NotEnoughMemoryError if the remaining rows (`rest` bytes) will not fit into memory in addition to the rows
    that have been read (`taken` bytes).

    `rest` is estimated from the size of the remaining text. For a compressed file this is its size on disk, a lower
    bound; for a pipe it is 0.
    """
    if rest > 0:
        from fmcli.system import memory

        purpose = f"reading {name_of(paths[0])}" + (" and the other files" if len(paths) > 1 else "")
        memory.require(taken + rest, purpose, held=taken)


def _row_lines(block: Block, labelled: bool = False) -> list[tuple[int, bytes]]:
    """The lines of a block that are rows, to predict or with a label, and the number of lines before each."""
    lines = bytes(block.data[block.start : block.stop]).split(b"\n")[:-1]
    if labelled:
        return [(number, line) for number, line in enumerate(lines) if LABEL.match(line)]
    return [(number, line) for number, line in enumerate(lines) if not COMMENT.match(line)]


def _find(block: Block, error: RowError, labelled: bool, ffm: bool) -> tuple[int, int, bytes]:
    """The number of lines before the row of an error, and the column and the text of its label or feature."""
    number, line = _row_lines(block, labelled)[error.row]
    field = rb"\+?\d+:" if ffm else b""
    id = re.escape(str(error.feature).encode())
    form = LABEL if error.feature is None else re.compile(rb"(?:.*?\s)??(%b(?:\+?0*)?%b:[^:\s]*)(?!\S)" % (field, id))
    found = form.match(line)
    assert found
    return number, found.start(1) + 1, found[1]
