"""Training rows and the rows of their relations, in common columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.related.files import Map, RelationFiles, refuse_labels
from fmcli.data.related.rows import RelatedRows, Relation
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.pieces import TextRows, concatenated_by_ids
from fmcli.data.text.sources import name_of
from fmcli.errors import BadInputError


def with_relations(rows: TextRows, relations: Sequence[RelationFiles], name: str, threads: int) -> RelatedRows:
    """Return training rows with the relations in these files. name : of the text of the rows.

    The columns are the joined rows' columns: relation rows that nothing refers to are left out. Raises BadInputError,
    which names the file and the line, for errors in the files, and for a feature that is in more than one of the text
    and the relations."""
    pieces = [TextRows(_bare(rows.data), rows.ids)]
    counts, maps = [rows.data.rows], []
    for files in relations:
        pieces_of_relation = _read_relation(files.rows, threads)
        with closing(Map(files, sum(piece.data.rows for piece in pieces_of_relation))) as numbers:
            used, row = np.unique(numbers.take(rows.data.rows), return_inverse=True)
            numbers.end()
        counts.append(len(used))
        maps.append(row.astype(np.int32))
        pieces += _only(pieces_of_relation, used)
    everything = concatenated_by_ids(pieces, threads, only_seen=True)
    ends = np.cumsum([0, *counts]).tolist()
    own, *related = (_slice(everything, start, stop) for start, stop in pairwise(ends))
    _require_apart([own, *related], [name, *(name_of(files.rows) for files in relations)])
    found = [Relation(data.changed(label=None), row) for data, row in zip(related, maps, strict=True)]
    return RelatedRows(own.changed(label=rows.data.label, weight=rows.data.weight, group=rows.data.group), found)


def _read_relation(path: str, threads: int) -> list[TextRows]:
    chunks = score_chunks(
        [path],
        lambda piece: TextRows(_bare(piece.data), piece.ids),
        Columns(growing=True),
        format="libsvm",
        threads=threads,
        check=refuse_labels,
    )
    found = []
    for chunk in chunks:
        rows = chunk.result
        columns = rows.data if rows.ids is not None else rows.data.changed(features=chunk.features)
        found.append(replace(rows, data=columns))
    return found


def _only(pieces: Sequence[TextRows], used: NDArray[np.int32]) -> Iterator[TextRows]:
    """Yield the rows of a relation with these numbers (increasing), in the same pieces."""
    start = 0
    for piece in pieces:
        stop = start + piece.data.rows
        data = piece.data.take(used[(used >= start) & (used < stop)] - np.int32(start))
        if piece.ids is None:
            data = data.changed(features=1 + int(data.index.max(initial=-1)))
        yield replace(piece, data=data)
        start = stop


def _bare(data: Dataset) -> Dataset:
    """Return the rows with dummy labels: concatenated pieces must have labels."""
    return data.changed(label=np.zeros(data.rows), weight=None, group=None)


def _slice(data: Dataset, start: int, stop: int) -> Dataset:
    """Return rows start:stop. They share the memory of the entries."""
    first, last = data.indptr[[start, stop]].tolist()
    return Dataset(
        data.indptr[start : stop + 1] - first,
        data.index[first:last],
        None if data.value is None else data.value[first:last],
        data.label[start:stop],
        data.features,
        trusted=True,
        numbering=data.numbering,
    )


def _require_apart(parts: Sequence[Dataset], names: Sequence[str]) -> None:
    """Raise BadInputError if a feature occurs in two parts of the joined rows. `names` : of the parts."""
    owner = np.full(parts[0].features, -1)
    for number, part in enumerate(parts):
        seen = part.seen()
        shared = np.flatnonzero(seen & (owner >= 0))
        if len(shared):
            column = shared[:1].astype(np.int32)
            feature = int(column[0]) if part.numbering is None else part.numbering.written(column)[0]
            raise BadInputError(
                f"feature {feature} is in {names[owner[shared[0]]]} and in {names[number]}; training needs other ids "
                "for the features of each relation, so each parameter belongs to one of them"
            )
        owner[seen] = number
