"""Caches of text: made when they are needed, and used again while the text stays the same."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import numpy as np

from fmcli.data.labels import NUMBERS, Names, listed_names, relabeled
from fmcli.data.shards.weights import with_row_weights
from fmcli.data.stored.cache import CHUNK_BYTES, Cache, DamagedCacheError, LateIdsError, build
from fmcli.data.text.chunks import ChunkResult, Columns, Piece, score_chunks
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import Stream
from fmcli.data.text.line_counter import LineCounter
from fmcli.data.text.pieces import TextFacts, TextRows
from fmcli.data.text.sources import Input, TableInput, name_of
from fmcli.errors import BadInputError
from fmcli.records import dataclass
from fmcli.system.identity import can_be_read_again, identity
from fmcli.text import readable

# Entry of `Reading.about` -> words for a cache that differs in it.
OTHER = {
    "format": "another format",
    "keep_fields": "another use of fields",
    "label_weights": "another use of weights beside labels",
    "shuffled": "another order of rows",
    "labels": "other labels",
    "hash_bits": "other hash bits",
    "sample_weights": "other sample weights",
    "skip": "another treatment of lines with errors",
    "inputs": "other inputs",
    "tables": "other columns of tables",
}


@dataclass(frozen=True)
class Reading:
    """How text is read into a cache; see `reader.read`.

    shuffled : whether the rows get a random order.
    labels, hash_bits : as in `reader.read`.
    sample_weights : a file with the weight of each row; None: no weights, or only weights beside labels.
    """

    format: str
    keep_fields: bool
    label_weights: bool
    shuffled: bool
    labels: Names | None = None
    hash_bits: int = 0
    sample_weights: str | None = None

    def about(self, inputs: Sequence[str], skip: bool) -> dict[str, Any]:
        """Return the identity of the rows of some inputs.

        skip : whether lines with errors are skipped.
        """
        weights = [] if self.sample_weights is None else [identity(self.sample_weights)]
        return {
            **asdict(self),
            "labels": self.labels and list(self.labels),
            "skip": skip,
            "inputs": [identity(path) for path in inputs],
            "sample_weights": weights,
            "tables": [path.about() for path in inputs if isinstance(path, TableInput)],
        }


def cache_of(path: str, inputs: Sequence[str], reading: Reading, *, threads: int, bad: BadLines) -> tuple[Cache, str]:
    """Return the cache of some inputs, and why it was made; "" if it already existed.

    A cache is used again if the inputs and the file of weights have the same names, sizes, modification times or
    versions, and excerpts, and were read in the same way. Standard input is always read again.

    Raises the errors of `reader.read`, cache.ForeignFileError if the path is not a cache, and OutputError if the cache
    cannot be written.
    """
    files = [*inputs, *([] if reading.sample_weights is None else [reading.sample_weights])]
    about = reading.about(inputs, bad.skip)
    reason, lines_before = why_not(path, about, files), bad.count
    if reason:
        try:
            build(path, text_rows(inputs, reading, threads, bad), about, shuffled=reading.shuffled, threads=threads)
        except LateIdsError:
            for file in files:
                if not can_be_read_again(file):
                    raise BadInputError(
                        f"{name_of(file)}: the first feature with a name or a large number comes only after "
                        f"{CHUNK_BYTES >> 20} MiB of rows, and this input cannot be read again; give a file",
                        hash_bits=None,
                    ) from None
            bad.count = lines_before
            rows = text_rows(inputs, reading, threads, bad)
            build(path, rows, about, shuffled=reading.shuffled, threads=threads, by_ids=True)
    return Cache(path), reason


def text_rows(
    inputs: Sequence[Input], reading: Reading, threads: int, bad: BadLines | None, counter: LineCounter | None = None
) -> Generator[TextRows, None, None]:
    """Yield the rows of some inputs, piece by piece. Raises the errors of `reader.read`.

    counter : as in `score_chunks`; replaces `bad`.
    """
    bits = reading.hash_bits
    chunks = score_chunks(
        inputs,
        lambda piece: piece,
        Columns(1 << bits, hash_bits=bits) if bits else Columns(growing=True),
        format=reading.format,
        keep_fields=reading.keep_fields,
        threads=threads,
        labeled=True,
        bad=bad,
        stream=Stream(label_weights=reading.label_weights),
        labels=reading.labels,
        counter=counter,
    )
    with closing(chunks):
        rows: Iterable[TextRows] = pieces(chunks, reading.labels)
        yield from rows if reading.sample_weights is None else with_row_weights(rows, reading.sample_weights)


def pieces(chunks: Iterator[ChunkResult[Piece]], labels: Names | None) -> Iterator[TextRows]:
    """Yield the rows of each chunk. `labels` are as in Reading.

    Raises BadInputError for a label that is not one of the names, if there are names.
    """
    places = {name: float(place) for place, name in enumerate(labels or NUMBERS)}
    for chunk in chunks:
        data, names = chunk.result.data.changed(features=chunk.features), chunk.result.labels
        names_so_far: Names | None = None
        if names is not None and data.rows:
            of_names = np.array([places.setdefault(name, float(len(places))) for name in names])
            data = relabeled(data, of_names)
            if labels and len(places) > len(labels):
                new = list(places)[len(labels)]
                raise BadInputError(
                    f"the model does not know the label {readable(new)}, only {listed_names(labels)}; "
                    "check the labels of the file"
                )
            names_so_far = tuple(places)
        yield TextRows(data, chunk.result.ids, TextFacts(chunk.format, chunk.bytes, chunk.repeated_rows, names_so_far))


def why_not(path: str, about: dict[str, Any], files: Sequence[str]) -> str:
    """Return why a cache cannot be used for the rows that `about` describes; "" if it can. `files` : all sources of the
    rows."""
    if not os.path.exists(path):
        return "there was none"
    try:
        cache = Cache(path)
    except DamagedCacheError as error:
        return f"the earlier one cannot be used: {error.reason}"
    cache.close()
    for file, known in zip(files, [*about["inputs"], *about["sample_weights"]], strict=True):
        if known is None and can_be_read_again(file):
            return f"it is not known whether {name_of(file)} has changed"
        if known is None:
            return "an input cannot be read twice"
    differ = [OTHER[name] for name in about if cache.about.get(name) != about[name]]
    return f"the earlier one has {' and '.join(differ)}" if differ else ""
