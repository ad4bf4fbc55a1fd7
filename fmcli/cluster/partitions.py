"""The partitions of training rows on a worker, each parsed once into a cache.

A partition is a run of consecutive extents of the inputs. It depends only on the inputs, and a worker that lacks a
partition makes it again. So a worker that ends or is replaced changes nothing. The cache is a file without a name,
which disappears with the process, or when the run ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from tempfile import gettempdir
from threading import Lock
from typing import Any, TypeVar
from weakref import finalize
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fmcli.cluster.tasks import all_matching, require_build, told
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.labels import Names, relabeled
from fmcli.data.numbering import Numbering
from fmcli.data.shards.training_rows import RowNumbers
from fmcli.data.shards.weights import with_label_weights
from fmcli.data.stored.cache import Cache, CacheHeader, LateIdsError, write
from fmcli.data.stored.caching import Reading, text_rows
from fmcli.data.text.formats import Stream, detected
from fmcli.data.text.line_counter import LineReport, Record, StoppedError
from fmcli.data.text.sources import FileRange, Gaps, extents, name_of, size_on_disk
from fmcli.errors import FmcliError
from fmcli.records import dataclass

# The usual number of partitions, and the bounds of a partition's size in bytes of text, which come first.
EXTENTITIONS, LEAST_BYTES, MOST_BYTES = 16, 1 << 20, 256 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class Division:
    """How the inputs are divided.

    partitions : the extents of each partition, in order.
    format : libsvm or ffm.
    """

    partitions: list[tuple[FileRange, ...]]
    format: str


def divide(
    paths: Sequence[str], format: str, needs_fields: bool, model: str, stream: Stream, most: int | None, build: str
) -> Division:
    """Divide the inputs (paths or patterns) into partitions of at most `most` bytes; None: into the usual number.
    `model` is for messages. Raises the errors of `reader.detected`."""
    try:
        require_build(build)
        files = all_matching(paths)
        total = sum(map(size_on_disk, files))
        size = most or min(max(total // EXTENTITIONS, LEAST_BYTES), MOST_BYTES)
        found = [(extent, size_of(extent)) for file in files for extent in extents(file, size)]
        format, _ = detected(files, format, needs_fields, model, stream, True)
        return Division(list(combined_extents(found, size)), format)
    except (FmcliError, MemoryError) as error:
        raise told(error, "") from error


def size_of(extent: FileRange) -> int:
    """Return the approximate size of an extent in bytes."""
    size = size_on_disk(extent.path) if extent.size is None else extent.size
    return (size if extent.stop is None else extent.stop) - extent.start


def combined_extents(found: Sequence[tuple[FileRange, int]], most: int) -> list[tuple[FileRange, ...]]:
    """Join consecutive extents, given with their sizes, up to `most` bytes."""
    together: list[list[FileRange]] = []
    taken = most
    for extent, size in found:
        if taken + size > most:
            together.append([])
            taken = 0
        together[-1].append(extent)
        taken += size
    return [tuple(some) for some in together]


@dataclass(frozen=True)
class Space:
    """The columns and labels of all partitions.

    features : the number of columns.
    dictionary : the ids of the columns; None: column j is feature j.
    names : the names of labels 0, 1, ..; None: labels are numbers.
    of_labels : weights by label.
    """

    features: int
    dictionary: Dictionary | None
    names: Names | None
    of_labels: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Opened:
    """The facts about a partition.

    reports : the line reports of each extent's text buffers.
    error : the error that ended reading.
    facts, numbering, counts : the facts of the cache, the features that occur, and the number of rows with each
        feature; None without rows, or after an error.
    rows : the number of rows of each shard of the cache.
    checksum : the checksum of the rows.
    nbytes : the size of the rows in memory.
    gaps : the gaps of tables.
    """

    reports: list[list[LineReport]]
    error: FmcliError | None
    facts: CacheHeader | None = None
    numbering: Numbering | Dictionary | None = None
    counts: NDArray[np.int32] | None = None
    checksum: int = 0
    nbytes: int = 0
    gaps: Gaps = field(default_factory=Gaps)


class Partition:
    """A partition on a worker. The constructor parses it.

    cache : None if there are no rows, or after an error.
    """

    def __init__(self, partition: Sequence[FileRange], reading: Reading, skip: bool, folder: str | None) -> None:
        self.reports: list[list[LineReport]] = []
        self.error: FmcliError | None = None
        self.cache: Cache | None = None
        self._known: tuple[Space, NDArray[np.int32]] | None = None
        try:
            self._parse(partition, reading, skip, os.path.join(folder or gettempdir(), "rows"))
        except (FmcliError, MemoryError) as error:
            self.error = told(error, str(partition[len(self.reports) - 1]) if self.reports else str(partition[0]))

    def _parse(self, partition: Sequence[FileRange], reading: Reading, skip: bool, place: str) -> None:
        from fmcli.system.files import scratch_output

        about = {"keep_fields": reading.keep_fields, "label_weights": reading.label_weights}
        with scratch_output(place) as file, suppress(StoppedError):
            for by_ids in (False, True):
                self.reports, self.gaps = [], Gaps()
                file.seek(0)
                file.truncate()
                pieces = (piece for extent in partition for piece in self._pieces(extent, reading, skip))
                with suppress(LateIdsError):
                    facts = write(file, place, pieces, about, shuffled=reading.shuffled, threads=1, by_ids=by_ids)
                    break
            file.flush()
            if facts.rows:
                self.cache = Cache(place, file.fileno())
                finalize(self, self.cache.close)

    def _pieces(self, extent: FileRange, reading: Reading, skip: bool) -> Any:
        record = Record(skip, blank_is_row=False)
        self.reports.append(record.reports)
        yield from text_rows([extent], reading, 1, None, record)
        self.gaps.add(Gaps.of([extent]))

    @property
    def opened(self) -> Opened:
        """The facts about the partition."""
        cache = self.cache
        if cache is None:
            return Opened(self.reports, self.error)
        occurring = np.flatnonzero(cache.counts).astype(np.int32)
        numbering = Numbering(occurring, len(cache.counts)) if cache.dictionary is None else cache.dictionary
        counts = cache.counts[occurring] if cache.dictionary is None else cache.counts
        nbytes = sum(cache.row_bytes(slice(*strips)) for shard in cache.shards for strips in shard)
        checksum = crc32(cache.table.tobytes())
        return Opened(self.reports, None, cache.facts, numbering, counts, checksum, nbytes, self.gaps)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each shard, and the total number of rows."""
        assert self.cache is not None
        return np.cumsum([0, *map(self.cache.rows_of, range(len(self.cache.shards)))])

    def stored(self, numbers: RowNumbers) -> RowNumbers:
        """Return the positions of rows in the concatenated shards. numbers : the rows' numbers in the text,
        increasing."""
        assert self.cache is not None
        shards, places = self.cache.places(numbers)
        return (self.starts[shards] + places).astype(np.int32)

    def load(self, shard: int, space: Space) -> Dataset:
        """Return the rows of a shard, in the columns of all partitions."""
        assert self.cache is not None
        data = self.cache.load(shard, checked=False)
        names = self.cache.facts.names
        if names is not None and space.names is not None:
            places = np.array([space.names.index(name) for name in names], dtype=np.float64)
            data = relabeled(data, places)
        if space.of_labels:
            data = with_label_weights(data, space.of_labels)
        if space.dictionary is None:
            return data.within(space.features)
        if data.numbering is None:
            data = data.compacted()
            return data.renumbered(space.dictionary)
        if self._known is None or self._known[0] is not space:
            self._known = space, space.dictionary.columns_from(data.numbering)
        return data.renumbered(space.dictionary, columns=self._known[1])


class Inputs:
    """The partitions of a run. Pickled, it carries only the recipe: each worker makes the partitions that it needs."""

    def __init__(
        self, partitions: Sequence[tuple[FileRange, ...]], reading: Reading, skip: bool, folder: str | None, build: str
    ) -> None:
        self.recipe = partitions, reading, skip, folder, build
        self._lock = Lock()
        self._locks: dict[int, Lock] = {}
        self._made: dict[int, Partition] = {}

    def __reduce__(self) -> tuple[type[Inputs], Any]:
        return Inputs, self.recipe

    def partition(self, number: int) -> Partition:
        """Return a partition, and make it if the worker lacks it."""
        partitions, reading, skip, folder, build = self.recipe
        require_build(build)
        with self._lock:
            lock = self._locks.setdefault(number, Lock())
        with lock:
            found = self._made.get(number)
            if found is None:
                found = Partition(partitions[number], reading, skip, folder)
                self._made[number] = found
            return found


def opened(inputs: Inputs, number: int) -> Opened:
    """Return the facts about a partition."""
    return inputs.partition(number).opened


def described(partition: Sequence[FileRange]) -> str:
    """Return the name of a partition for messages."""
    others = f" and {len(partition) - 1} more" if len(partition) > 1 else ""
    return f"{partition[0]}{others}"


def names_of(partition: Sequence[FileRange]) -> list[str]:
    """Return the names of the inputs of a partition's extents."""
    return [name_of(extent.path) for extent in partition]


def guarded(work: Callable[[], T], inputs: Inputs, number: int) -> T:
    """Return work(). Its errors get the name of the partition."""
    try:
        return work()
    except (FmcliError, MemoryError) as error:
        raise told(error, described(inputs.recipe[0][number])) from error
