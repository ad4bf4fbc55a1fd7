"""Pieces of the rows of a text, and their concatenation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import FeatureIds
from fmcli.data.entries import values_of
from fmcli.data.labels import Names
from fmcli.data.numbering import occurring
from fmcli.data.sparse_ids import if_sparse
from fmcli.records import dataclass


@dataclass(frozen=True)
class TextFacts:
    """Facts about the text of some rows.

    bytes : the bytes of text.
    repeated_rows : as in `reader.Table`.
    names : the names of labels 0, 1, .., in all rows so far; None: labels are numbers, or there are no rows.
    """

    format: str = "libsvm"
    bytes: int = 0
    repeated_rows: int = 0
    names: Names | None = None


@dataclass(frozen=True)
class TextRows:
    """Some consecutive rows of a text.

    ids : the ids of the columns; None: column j is feature j.
    """

    data: Dataset
    ids: FeatureIds | None
    facts: TextFacts = TextFacts()


def need_dictionary(pieces: Iterable[TextRows]) -> bool:
    """Return whether ids are names, or numbers that are very large compared with the number of ids."""
    pieces = list(pieces)
    if any(piece.ids is not None for piece in pieces):
        return True
    features = max((piece.data.features for piece in pieces), default=0)
    indices = [piece.data.index for piece in pieces]
    return if_sparse(features, lambda: occurring(np.concatenate(indices), features)) is not None


def add_ids(ids: FeatureIds, piece: TextRows) -> Dataset:
    """Return the rows of a piece, with their ids added to `ids` as columns.

    The entries of a row are then no longer ordered by column.
    """
    data = piece.data
    if piece.ids is not None:
        columns = ids.add_all(piece.ids)
        return data.with_columns(columns[data.index], len(ids))
    numbering = occurring(data.index, data.features)
    columns = ids.add_numbers(numbering.ids.astype(np.int64))
    return data.with_columns(columns[numbering.columns_of(data.index)], len(ids))


def concatenated(pieces: list[Dataset]) -> Dataset:
    """Concatenate data sets with the same numbering, in order. Empties the list."""
    if len(pieces) == 1:
        return pieces.pop()
    starts = np.cumsum([0, *(piece.nnz for piece in pieces)])
    indptr = [piece.indptr[1:] + start for piece, start in zip(pieces, starts.tolist(), strict=False)]
    value = weight = None  # None if all are 1; single pieces may have None
    if any(piece.value is not None for piece in pieces):
        value = np.concatenate([values_of(piece) for piece in pieces])
    if any(piece.weight is not None for piece in pieces):
        weight = np.concatenate([np.ones(p.rows) if p.weight is None else p.weight for p in pieces])
    data = Dataset(
        np.concatenate([np.zeros(1, dtype=np.int64), *indptr]),
        np.concatenate([piece.index for piece in pieces]),
        value,
        np.concatenate([piece.label for piece in pieces]),
        max(piece.features for piece in pieces),
        None if pieces[0].field is None else np.concatenate([piece.field for piece in pieces]),
        weight,
        group=None if pieces[0].group is None else np.concatenate([piece.group for piece in pieces]),
        trusted=True,
        numbering=pieces[0].numbering,
        unit=pieces[0].unit,
    )
    pieces.clear()
    return data


def concatenated_by_ids(pieces: list[TextRows], threads: int, *, only_seen: bool = False) -> Dataset:
    """Concatenate pieces, with a dictionary if their ids need one. Empties the list. With `only_seen`, the dictionary
    leaves out features whose values are all 0."""
    if not need_dictionary(pieces):
        data = [piece.data for piece in pieces]
        pieces.clear()
        return concatenated(data)
    ids = FeatureIds()
    data = [add_ids(ids, piece) for piece in pieces]
    pieces.clear()
    rows = concatenated(data)
    return rows.ordered(*ids.sorted(rows.seen() if only_seen else np.ones(len(ids), dtype=np.bool_)), threads)
