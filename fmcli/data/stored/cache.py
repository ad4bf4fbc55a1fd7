"""The cache: training rows in a binary file, in a random order, so training can read them shard by shard.

    8 bytes     MAGIC, which includes the version of the format
    strips      the rows of a chunk of text, permuted and cut into STRIPS parts. Each part has the arrays label, weight,
                length, index, field and value, one after the other, without arrays that its data do not need.
    counts      int32 (features): the number of rows that have each feature
    table       int64 (strips, 5): the position of each strip, its rows, its entries, whether it has values, and its
                checksum (CRC-32)
    dictionary  the arrays of the Dictionary of the columns, one after the other, if there is one
    header      JSON: the facts about the rows, their sources, and the sizes of the dictionary's arrays
    48 bytes    the positions of counts, table, dictionary and header, the checksum of these four, and MAGIC

A shard has some strips of every chunk, so its rows are a random selection of all rows. The order of the text can be
kept instead; then a shard is a chunk. Nothing is sorted, and only rows with a dictionary are written twice."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import Moments
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, FeatureIds
from fmcli.data.labels import Names, sorted_names
from fmcli.data.shards.weights import ALL_WEIGHTLESS, pieces_that_count
from fmcli.data.stored.cache_check import check_header
from fmcli.data.text.pieces import TextFacts, TextRows, add_ids, concatenated, need_dictionary
from fmcli.errors import BadInputError, MissingInputError
from fmcli.records import dataclass
from fmcli.system.files import atomic_output, scratch_output
from fmcli.system.memory import require_if_large

if TYPE_CHECKING:
    from fmcli.data.shards.training_rows import RowNumbers

MAGIC = b"fmrows02"
FOOTER = struct.Struct("<5q8s")
CACHE_SEED = 0x66_6D  # the permutation is the same for every seed of a run
# Bytes of rows permuted at a time, and bytes of a shard. Shards of this size are read in a few large requests.
CHUNK_BYTES = SHARD_BYTES = 32 << 20
STRIPS = 256  # per chunk
# Rows are counted by label up to this number of labels.
MOST_LABELS = 4096

COLUMNS = ("position", "rows", "entries", "valued", "checksum")
POSITION, ROWS, ENTRIES, VALUED, CHECKSUM = range(len(COLUMNS))

Numbers = NDArray[np.int64]


class Shards(Protocol):
    """Rows in shards; a few shards fit into memory at a time. A Cache, or the partitions of a cluster.

    facts : the facts about all rows.
    counts : int32 (features), the number of rows that have each feature.
    dictionary : the ids of the columns; None: column j is feature j.
    table : int64, numbers that differ if the rows differ.
    """

    facts: CacheHeader
    counts: NDArray[np.int32]
    dictionary: Dictionary | None
    table: Numbers

    @property
    def shards(self) -> Sequence[object]: ...
    @property
    def fielded(self) -> bool: ...
    @property
    def shard_bytes(self) -> int: ...
    def rows_of(self, shard: int) -> int: ...
    def load(self, shard: int) -> Dataset: ...
    def damaged(self, reason: str) -> BadInputError: ...


class Located(Shards, Protocol):
    """Rows in shards on this machine, with known positions."""

    def places(self, numbers: RowNumbers) -> tuple[NDArray[np.int32], RowNumbers]:
        """Return the shard of each row, and its position there. numbers : the rows' numbers in the text, increasing."""
        ...


@dataclass
class CacheHeader:
    """The facts about all rows of a cache.

    format : "libsvm" or "ffm".
    fields : largest field + 1; 0 without fields.
    longest : the largest number of entries of a row.
    longest_square : the largest squared norm of a row.
    weighted : whether rows have weights.
    repeated_rows : as in `reader.Table`.
    bytes : bytes of text.
    lowest, highest : the smallest and the largest label.
    mean, deviation : the weighted mean and standard deviation of the labels.
    labels : label -> the number of its rows and their total weight; None if there are more than MOST_LABELS labels.
    names : the names of labels 0, 1, ..; None: labels are numbers.
    """

    format: str = "libsvm"
    rows: int = 0
    nonzeros: int = 0
    features: int = 0
    fields: int = 0
    longest: int = 0
    longest_square: float = 0.0
    repeated_rows: int = 0
    bytes: int = 0
    total_weight: float = 0.0
    weighted: bool = False
    lowest: float = np.inf
    highest: float = -np.inf
    mean: float = 0.0
    deviation: float = 0.0
    labels: dict[float, tuple[int, float]] | None = field(default_factory=dict)
    names: Names | None = None

    def take(self, text: TextFacts) -> None:
        """Add the facts about the text of further rows."""
        self.format = text.format
        self.bytes += text.bytes
        self.repeated_rows += text.repeated_rows
        self.names = self.names if text.names is None else text.names

    def add(self, data: Dataset) -> None:
        """Add the facts about further rows."""
        self.rows += data.rows
        self.nonzeros += data.nnz
        self.features = max(self.features, data.features)
        self.fields = max(self.fields, data.fields)
        self.longest = max(self.longest, data.longest)
        self.longest_square = max(self.longest_square, data.longest_square())
        with np.errstate(over="ignore"):  # `build` refuses a sum that is not finite
            self.add_moments(Moments.of(data.label, data.weight))
        self.weighted |= data.weight is not None
        self.lowest, self.highest = min(self.lowest, data.label.min()), max(self.highest, data.label.max())
        if self.labels is None:
            return
        values, places, rows = np.unique(data.label, return_inverse=True, return_counts=True)
        if len(values) > MOST_LABELS or len(values.tolist() + list(self.labels)) > 2 * MOST_LABELS:
            self.labels = None
            return
        weights = np.bincount(places, weights=data.weight)
        for value, count, weight in zip(values.tolist(), rows.tolist(), weights.tolist(), strict=True):
            before = self.labels.get(value, (0, 0.0))
            self.labels[value] = before[0] + count, before[1] + weight
        if len(self.labels) > MOST_LABELS:
            self.labels = None

    def add_moments(self, labels: Moments) -> None:
        """Add the weighted labels of further rows."""
        both = Moments(self.total_weight, self.mean, self.deviation).combined(labels)
        self.total_weight, self.mean, self.deviation = both.weight, both.mean, both.deviation


class Writer:
    """Writes rows to a cache, chunk by chunk.

    Parameters
    ----------
    file : the output, written from beginning to end.
    shuffled : whether the rows of a chunk are permuted.
    threads : the number of threads that count features.
    """

    def __init__(self, file: BinaryIO, shuffled: bool, threads: int) -> None:
        self.file, self.shuffled, self.threads = file, shuffled, threads
        self.facts = CacheHeader()
        self.table: list[tuple[int, int, int, int, int]] = []
        self.counts = np.zeros(0, dtype=np.int32)
        self.dictionary: Dictionary | None = None
        self.chunks = 0
        self._position = 0
        self._write(MAGIC)

    def add(self, data: Dataset, counted: bool = True) -> None:
        """Write a chunk of rows. counted : whether to count its features."""
        self.facts.add(data)
        every = np.arange(data.rows, dtype=np.int32)
        if counted:
            self._count(data, every)
        if self.shuffled:
            data = data.take(permuted(self.chunks, data.rows))
        bounds = data.rows * np.arange(STRIPS + 1) // STRIPS
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            self._strip(data, first, last)
        self.chunks += 1

    def _count(self, data: Dataset, every: NDArray[np.int32]) -> None:
        counts = data.counts(every, self.threads)
        if len(counts) > len(self.counts):
            require_if_large(2 * counts.nbytes, "counting features")
            self.counts = np.concatenate([self.counts, np.zeros(len(counts) - len(self.counts), dtype=np.int32)])
        self.counts[: len(counts)] += counts

    def _strip(self, data: Dataset, first: int, last: int) -> None:
        begin, end = data.indptr[[first, last]]
        parts = [data.label[first:last]]
        parts += [] if data.weight is None else [data.weight[first:last]]
        parts += [np.diff(data.indptr[first : last + 1]).astype(np.int32), data.index[begin:end]]
        parts += [] if data.field is None else [data.field[begin:end]]
        parts += [] if data.value is None else [data.value[begin:end]]
        record = b"".join(part.data for part in parts)
        valued = int(data.value is not None)
        self.table.append((self._position, last - first, int(end - begin), valued, zlib.crc32(record)))
        self._write(record)

    def close(self, about: dict[str, Any]) -> None:
        """Write everything after the rows. about : the sources of the rows."""
        table = np.array(self.table, dtype=np.int64).reshape(-1, len(COLUMNS))
        facts = asdict(self.facts)
        facts["labels"] = self.facts.labels and [[label, *of] for label, of in self.facts.labels.items()]
        ids = [] if self.dictionary is None else [array.tobytes() for array in self.dictionary.arrays]
        sizes = None if self.dictionary is None else [len(part) for part in ids]
        header = {"facts": facts, "chunks": self.chunks, "shuffled": self.shuffled, "dictionary": sizes, "about": about}
        text = json.dumps(header, sort_keys=True).encode()
        positions, checksum = [], 0
        for part in (self.counts.tobytes(), table.tobytes(), b"".join(ids), text):
            positions.append(self._position)
            checksum = zlib.crc32(part, checksum)
            self._write(part)
        self._write(FOOTER.pack(*positions, checksum, MAGIC))

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self._position += len(data)


class LateIdsError(Exception):
    """Rows after the first chunk have ids that need a dictionary, although the first chunk needed none."""


def build(
    path: str,
    pieces: Iterable[TextRows],
    about: dict[str, Any],
    *,
    shuffled: bool,
    threads: int,
    by_ids: bool = False,
) -> None:
    """Write a cache of the rows of a text. An existing file is replaced only by a complete new one.

    Rows with a dictionary are written twice, first to a temporary file without a name, because their columns are known
    only after all rows have been read. The first chunk decides whether there is a dictionary.

    about : the sources of the rows.
    by_ids : whether there is a dictionary in any case.

    Raises OutputError, BadInputError if all rows have weight 0, and LateIdsError if the decision proves wrong.
    """
    with atomic_output(path) as file:
        facts = write(file, path, pieces, about, shuffled=shuffled, threads=threads, by_ids=by_ids)
        if not facts.rows:
            raise BadInputError(ALL_WEIGHTLESS)


def write(
    file: BinaryIO,
    path: str,
    pieces: Iterable[TextRows],
    about: dict[str, Any],
    *,
    shuffled: bool,
    threads: int,
    by_ids: bool,
) -> CacheHeader:
    """Write a cache of the rows with nonzero weights to an open file. Another temporary file may be in the folder of
    `path`."""
    with ExitStack() as stack:
        writer = Writer(file, shuffled, threads)
        spool: Writer | None = None
        ids = FeatureIds()
        for chunk in chunks_of(pieces_that_count(pieces), writer.facts):
            if not writer.chunks and not spool and (by_ids or need_dictionary(chunk)):
                spool = Writer(stack.enter_context(scratch_output(path)), False, threads)
            if spool:
                spool.add(concatenated([add_ids(ids, piece) for piece in chunk]), counted=False)
            elif any(piece.ids is not None for piece in chunk):
                raise LateIdsError
            else:
                writer.add(concatenated([piece.data for piece in chunk]))
            chunk.clear()
        if spool:
            spool.counts = np.zeros(len(ids), dtype=np.int32)
            spool.close(about)
            spool.file.flush()
            writer.dictionary, columns = ids.sorted(np.ones(len(ids), dtype=np.bool_))
            with closing(Cache(path, spool.file.fileno())) as rows:
                for shard in range(len(rows.shards)):
                    writer.add(rows.load(shard, checked=False).ordered(writer.dictionary, columns, threads))
        if not np.isfinite(writer.facts.total_weight):
            raise BadInputError("the sum of the weights is not finite; check the weights of rows")
        writer.close(about)
        return writer.facts


def chunks_of(pieces: Iterable[TextRows], facts: CacheHeader) -> Iterator[list[TextRows]]:
    """Join pieces into lists of at least CHUNK_BYTES, and add up their facts."""
    held: list[TextRows] = []
    for piece in pieces:
        facts.take(piece.facts)
        if piece.data.rows:
            held.append(piece)
        if sum(piece.data.nbytes for piece in held) >= CHUNK_BYTES:
            yield held
    if held:
        yield held


def read_dictionary(data: bytes, sizes: list[int] | None) -> Dictionary | None:
    """Return the Dictionary whose arrays have these sizes in bytes. Raises ValueError if it is invalid."""
    if sizes is None:
        return None
    ends = np.cumsum([0, *sizes])
    if ends[-1] != len(data):
        raise ValueError("its dictionary is incomplete")
    numbers, text, of_names = (data[start:end] for start, end in pairwise(ends))
    return Dictionary(
        np.frombuffer(numbers, np.int64), np.frombuffer(text, np.uint8), np.frombuffer(of_names, np.int64)
    )


class ForeignFileError(BadInputError):
    """A file is not a cache."""


class DamagedCacheError(BadInputError):
    """A cache is damaged, or of another version."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: the cache cannot be used: {reason}; remove it, and it will be made again")
        self.reason = reason


class Cache(Located):
    """The rows in a cache.

    Raises MissingInputError if it cannot be read, ForeignFileError if the file is not a cache, and DamagedCacheError if
    it is damaged or of another version.

    facts : the facts about all rows.
    about : the sources of the rows.
    counts : int32 (features), the number of rows that have each feature.
    dictionary : the ids of the columns; None: column j is feature j.
    """

    def __init__(self, path: str, descriptor: int | None = None) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY) if descriptor is None else os.dup(descriptor)
        except OSError as error:
            raise MissingInputError(f"cannot read {path}: {error.strerror or error}") from error
        try:
            self._open(os.fstat(self._file).st_size)
        except BaseException as error:
            self.close()
            if isinstance(error, (ValueError, RecursionError)):
                raise self.damaged(str(error)) from error
            raise

    def _open(self, size: int) -> None:
        begin = self._read(0, min(size, len(MAGIC)))
        if size and not begin.startswith(MAGIC[:-2]):
            raise ForeignFileError(f"{self.path}: is not a cache that fmcli has made; give another path, or remove it")
        if size < len(MAGIC) + FOOTER.size or begin != MAGIC:
            raise self.damaged("it is truncated" if MAGIC.startswith(begin) else "it is of another version of fmcli")
        counts, table, ids, header, checksum, magic = FOOTER.unpack(self._read(size - FOOTER.size, FOOTER.size))
        if magic != MAGIC or not len(MAGIC) <= counts <= table <= ids <= header <= size - FOOTER.size:
            raise self.damaged("it is truncated")
        tail = self._read(counts, size - FOOTER.size - counts)
        if zlib.crc32(tail) != checksum:
            raise self.damaged("its checksum is wrong")
        self.counts = np.frombuffer(tail[: table - counts], dtype=np.int32)
        self.table = np.frombuffer(tail[table - counts : ids - counts], dtype=np.int64).reshape(-1, len(COLUMNS))
        contents = json.loads(tail[header - counts :])
        check_header(contents)
        self.about, self.shuffled, self.chunks = contents["about"], contents["shuffled"], contents["chunks"]
        labels = contents["facts"]["labels"]
        self.facts = facts = CacheHeader(**contents["facts"])
        self._places = None
        if facts.names is not None:
            facts.names, self._places = sorted_names([name.encode() for name in facts.names], self.path)
            labels = labels and [[float(self._places[int(label)]), *of] for label, *of in labels]
        facts.labels = None if labels is None else {label: (rows, weight) for label, rows, weight in sorted(labels)}
        self.dictionary = read_dictionary(tail[ids - counts : header - counts], contents["dictionary"])
        if self.dictionary is not None and len(self.dictionary) != facts.features:
            raise ValueError("its dictionary does not fit its features")
        self._check(counts)
        self._verified = np.zeros(len(self.table), dtype=np.bool_)
        self._strips = list(self._shards())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def damaged(self, reason: str) -> DamagedCacheError:
        """Return the error for a cache that cannot be used for this reason."""
        return DamagedCacheError(self.path, reason)

    def _check(self, end: int) -> None:
        """Raise ValueError unless the table describes consecutive strips up to this position."""
        table, facts = self.table, self.facts
        if (table < 0).any() or (table[:, VALUED] > 1).any() or (table[:, ROWS:VALUED] > end).any():
            raise ValueError("a number of its table is out of range")
        by_entry = 4 * (1 + self.fielded + table[:, VALUED])
        sizes = (12 + 8 * self.weighted) * table[:, ROWS] + by_entry * table[:, ENTRIES]
        self._ends = table[:, POSITION] + sizes
        begins = np.append(table[:, POSITION], end)
        if len(table) != STRIPS * self.chunks or (begins != np.append(len(MAGIC), self._ends)).any():
            raise ValueError("its parts are not one after the other")
        sums = [int(table[:, column].sum()) for column in (ROWS, ENTRIES)]
        counted = len(self.counts) == facts.features and not (self.counts < 0).any()
        possible = facts.longest <= table[:, ENTRIES].max(initial=0)
        if sums != [facts.rows, facts.nonzeros] or not facts.rows or not counted or not possible:
            raise ValueError("its table does not match its header")

    def _shards(self) -> Iterator[list[tuple[int, int]]]:
        if not self.shuffled:
            yield from ([(chunk * STRIPS, (chunk + 1) * STRIPS)] for chunk in range(self.chunks))
            return
        step = max(1, STRIPS * SHARD_BYTES // max(1, self.row_bytes(slice(None))))
        for first in range(0, STRIPS, step):
            last = min(first + step, STRIPS)
            yield [(chunk * STRIPS + first, chunk * STRIPS + last) for chunk in range(self.chunks)]

    @property
    def shards(self) -> list[list[tuple[int, int]]]:
        """The strips of each shard: for each chunk, the first and the end of a range in the table."""
        return self._strips

    @property
    def rows_of_strips(self) -> Numbers:
        """The number of rows of each strip."""
        return self.table[:, ROWS]

    def places(self, numbers: RowNumbers) -> tuple[NDArray[np.int32], RowNumbers]:
        return places(self, numbers)

    def rows_of(self, shard: int) -> int:
        """Return the number of rows of a shard."""
        return sum(int(self.rows_of_strips[first:last].sum()) for first, last in self.shards[shard])

    def row_bytes(self, strips: slice) -> int:
        """Return the memory of the rows of some strips in bytes."""
        rows, entries = (int(self.table[strips, column].sum()) for column in (ROWS, ENTRIES))
        width = 4 * (1 + self.fielded + bool(self.table[strips, VALUED].any()))
        return (16 + 8 * self.weighted) * rows + width * entries

    @property
    def shard_bytes(self) -> int:
        """The memory of the largest shard in bytes."""
        sizes = (sum(self.row_bytes(slice(*strips)) for strips in shard) for shard in self.shards)
        return max(sizes, default=0)

    @property
    def fielded(self) -> bool:
        """Whether entries have fields."""
        return bool(self.about["keep_fields"])

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return bool(self.about["label_weights"] or self.about.get("sample_weights"))

    def load(self, shard: int, checked: bool = True) -> Dataset:
        """Return the rows of a shard. Raises BadInputError if they are damaged.

        checked : whether to check that the columns of a row increase.
        """
        strips = np.concatenate([np.arange(first, last) for first, last in self.shards[shard]])
        rows, entries = (int(self.table[strips, column].sum()) for column in (ROWS, ENTRIES))
        label, length = np.empty(rows), np.empty(rows, dtype=np.int32)
        weight = np.empty(rows) if self.weighted else None
        index = np.empty(entries, dtype=np.int32)
        field = np.empty(entries, dtype=np.int32) if self.fielded else None
        value = np.ones(entries, dtype=np.float32) if self.table[strips, VALUED].any() else None
        by_row, by_entry = [label, weight, length], [index, field]
        row = entry = 0
        for first, last in self.shards[shard]:
            begin, end = int(self.table[first, POSITION]), int(self._ends[last - 1])
            text = memoryview(self._read(begin, end - begin))
            for strip in range(first, last):
                start, count, more, valued, checksum = self.table[strip].tolist()
                record = text[start - begin : int(self._ends[strip]) - begin]
                if not self._verified[strip]:
                    if zlib.crc32(record) != checksum:
                        raise self.damaged(f"the checksum of part {strip} is wrong")
                    self._verified[strip] = True
                targets: list[NDArray[Any]] = [array[row : row + count] for array in by_row if array is not None]
                targets += [array[entry : entry + more] for array in by_entry if array is not None]
                targets += [value[entry : entry + more]] if valued and value is not None else []
                at = 0
                for target in targets:
                    target[...] = np.frombuffer(record, target.dtype, len(target), at)
                    at += target.nbytes
                row, entry = row + count, entry + more
        facts = self.facts
        fits = ((label >= facts.lowest) & (label <= facts.highest)).all()
        if not fits or not (weight is None or ((weight >= 0) & (weight <= facts.total_weight)).all()):
            raise self.damaged("a label or a weight is out of range")
        if self._places is not None:
            label = self._places[label.astype(np.intp)]
        indptr = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(length, out=indptr[1:])
        if indptr[-1] != entries:
            raise self.damaged("the lengths of its rows do not match")
        try:
            ids, features = self.dictionary, self.facts.features
            data = Dataset(indptr, index, value, label, features, field, weight, trusted=not checked, numbering=ids)
        except ValueError as error:
            raise self.damaged(str(error)) from error
        if data.longest > self.facts.longest or data.fields > self.facts.fields:
            raise self.damaged("its rows do not match its header")
        return data

    def _read(self, position: int, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.pread(self._file, size, position)
            except OSError as error:
                raise MissingInputError(f"cannot read {self.path}: {error.strerror or error}") from error
            if not part:
                raise self.damaged("it is truncated")
            parts.append(part)
            position, size = position + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def places(cache: Cache, numbers: RowNumbers) -> tuple[NDArray[np.int32], RowNumbers]:
    """Return the shard of each row, and its position there. numbers : the rows' numbers in the text, increasing."""
    shard_of, start_of = starts(cache)
    shards, found = np.empty(len(numbers), dtype=np.int32), np.empty(len(numbers), dtype=np.int32)
    first = 0
    for chunk, strips in enumerate(np.split(np.arange(len(cache.table)), cache.chunks)):
        bounds = np.concatenate([[0], np.cumsum(cache.rows_of_strips[strips])])
        here = slice(*np.searchsorted(numbers, [first, first + bounds[-1]]))
        place = numbers[here] - first
        if cache.shuffled:
            place = inverse(permuted(chunk, int(bounds[-1])))[place].astype(np.int64)
        strip = np.searchsorted(bounds, place, side="right") - 1
        shards[here] = shard_of[strips[strip]]
        found[here] = start_of[strips[strip]] + place - bounds[strip]
        first += int(bounds[-1])
    return shards, found


def starts(cache: Cache) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (strips) the shard of each strip, and the position of its first row there."""
    shard_of, start_of = np.empty((2, len(cache.table)), dtype=np.int64)
    for shard, parts in enumerate(cache.shards):
        strips = np.concatenate([np.arange(first, last) for first, last in parts])
        rows = cache.rows_of_strips[strips]
        shard_of[strips], start_of[strips] = shard, np.cumsum(rows) - rows
    return shard_of, start_of


def permuted(chunk: int, rows: int) -> NDArray[np.int32]:
    """Return the numbers of the rows of a chunk in their random order."""
    every = np.arange(rows, dtype=np.int32)
    np.random.default_rng([CACHE_SEED, chunk]).shuffle(every)
    return every


def inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the position of each number in an order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place
