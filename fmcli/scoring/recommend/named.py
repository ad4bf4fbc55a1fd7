"""Contexts and items with their ids, and the pairs of them that occur in other rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import FeatureIds
from fmcli.data.entries import rows_of_entries
from fmcli.data.hashes import hashes
from fmcli.data.shards.observed_rows import Seen
from fmcli.data.tables.reading import TableSource, head_of_table
from fmcli.data.tables.schema import Schema
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.formats import BEFORE_FEATURES, FEATURE, RowTexts, Stream, row_lines
from fmcli.data.text.pieces import concatenated
from fmcli.data.text.sources import TableInput, TextBuffer, name_of
from fmcli.errors import BadInputError, UsageError
from fmcli.names import listing, no_such
from fmcli.prepare.negatives import LABEL, cells_of
from fmcli.records import dataclass
from fmcli.scoring.prediction import Counts, each_chunk
from fmcli.scoring.recommend.recommender import Recommender
from fmcli.scoring.scorer import Scorer
from fmcli.system.memory import require_if_large
from fmcli.text import readable

# A field at the beginning of a feature in ffm text.
FIELD = re.compile(rb"\d+:")
BETWEEN = b"\n"  # between the names of columns
LARGEST_NUMBER = 2**63 - 1

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Naming(Stream):
    """How rows get their ids.

    column : in tables, the column of ids; None: the first column with features.
    shown : further columns to show beside the ids, if the table has them.
    table : the columns that the model knows; None: it was not trained on tables.
    """

    column: str | None = None
    shown: tuple[str, ...] = ()
    table: Schema | None = None

    def keys(self, buffer: TextBuffer, labeled: bool = False) -> RowTexts:
        """Return the id of each row of a buffer: a cell, the id token, or the row's first feature. The further texts
        are the cells of the shown columns, or the first feature."""
        if buffer.table is None:
            form = re.compile(rb"[ \t\r]*" + BEFORE_FEATURES[self.id_column] + FEATURE)
            lines = [line for _, line in row_lines(buffer, labeled)]
            found = [form.match(line) for line in lines]
            features = [FIELD.sub(b"", one[1].rpartition(b":")[0], 1) if one else b"" for one in found]
            ids = features
            if self.id_column:
                words = [line.split(None, self.id_column) for line in lines]
                ids = [one[self.id_column - 1] if len(one) >= self.id_column else b"" for one in words]
            return RowTexts(ids, more=(features,))
        table, scanner = buffer.table, buffer.table.scanner
        assert scanner is not None
        assert self.table is not None
        names = scanner.head.names
        known = set(self.table.features)
        column = self.column or next(name for name in names if name in known)
        if column not in names:
            raise BadInputError(f"{table.name}: {no_such('column', column, names)}")
        written = [column, *(one for one in self.shown if one in names)]
        places = [names.index(one) for one in written]
        cells, *_ = scanner.texts(table.data, table.start, table.stop, places)
        if self.table.latin1:
            cells = [cell.decode("latin-1").encode() for cell in cells]
        ids, *more = (cells[place :: len(places)] for place in range(len(places)))
        return RowTexts(ids, header=BETWEEN.join(map(str.encode, written)), of_table=True, more=tuple(more))


@dataclass(frozen=True)
class NamedRows:
    """Rows with ids.

    data : the rows, with the columns of the model.
    ids : the ids of the rows.
    features : the first feature of each row; None: the rows are from a table.
    column : the column of the ids, if the rows are from a table.
    shown : column -> the cells of the rows.
    source : the name of the input, for messages.
    present : the columns with features in the table; None: the rows are not from a table.
    """

    data: Dataset
    ids: list[bytes]
    features: list[bytes] | None
    column: str | None
    shown: dict[str, list[bytes]]
    source: str
    present: frozenset[str] | None


def named_rows(
    scorer: Scorer,
    path: str,
    naming: Naming,
    *,
    format: str = "auto",
    joined: Mapping[str, str] | None = None,
    threads: int = 1,
    counts: Counts,
) -> NamedRows:
    """Read all rows of an input, and add to `counts`.

    Raises BadInputError, MissingInputError and NotEnoughMemoryError. BadInputError includes an id that occurs twice,
    and a row without an id.
    """
    inputs = scorer.tables([path], joined, partial=True) if format == "auto" else [path]
    naming = replace(naming, table=scorer.table)
    if isinstance(inputs[0], TableInput):
        naming = replace(naming, id_column=0)
    elif naming.column is not None:
        raise UsageError(f"{name_of(path)} is not a table, so it has no column {naming.column!r}")
    # A pair, not a context or an item, has unit length; the norm comes later.
    parts = replace(scorer, transform=replace(scorer.transform, norm_of_all=False))
    pieces: list[Dataset] = []
    beside: list[RowTexts] = []
    before = counts.unseen
    for data, texts in each_chunk(
        parts,
        inputs,
        lambda piece: (piece.data, piece.beside),
        format=format,
        threads=threads,
        counts=counts,
        stream=naming,
    ):
        pieces.append(data.changed(label=np.zeros(data.rows)))
        assert texts is not None
        beside.append(texts)
        require_if_large(2 * sum(piece.nbytes for piece in pieces), f"the rows of {name_of(path)}")
    if not beside:
        raise BadInputError(f"{name_of(path)}: there are no rows")
    if scorer.transform.norm_of_all and counts.unseen > before:
        raise BadInputError(
            f"{name_of(path)}: {counts.unseen - before:,} entries have features that did not occur in training, but "
            "count for the length of a row, which the model divides it by; leave them out"
        )
    ids = [text for one in beside for text in one.texts]
    of_table = beside[0].of_table
    more = [[text for one in beside for text in one.more[place]] for place in range(len(beside[0].more))]
    lacking = "no id" if naming.id_column else "an empty cell as its id" if of_table else "no feature, as its id"
    data = concatenated(pieces)
    kept = different_rows(data, ids)
    if len(kept) < len(ids):
        data, ids = data.take(kept), [ids[row] for row in kept.tolist()]
        more = [[texts[row] for row in kept.tolist()] for texts in more]
    check_ids(ids, name_of(path), lacking)
    column, *shown = (beside[0].header or b"").decode().split(BETWEEN.decode())
    return NamedRows(
        data,
        ids,
        None if of_table else more[0],
        column or None,
        dict(zip(shown, more, strict=True)) if of_table else {},
        name_of(path),
        columns_with_features(inputs[0]),
    )


def different_rows(data: Dataset, ids: Sequence[bytes]) -> NDArray[np.int32]:
    """Return the numbers of rows without later rows that have the id and the features of an earlier one."""
    found: dict[tuple[bytes, int], int] = {}
    for row, key in enumerate(zip(ids, hashes(data).tolist(), strict=True)):
        found.setdefault(key, row)
    return np.array(list(found.values()), dtype=np.int32)


def check_ids(ids: Sequence[bytes], source: str, lacking: str) -> None:
    """Raise BadInputError for a row without an id (`lacking` names what it lacks), and for an id that occurs twice."""
    if b"" in ids:
        raise BadInputError(f"{source}: row {ids.index(b'') + 1} has {lacking}; each row needs one")
    if len(set(ids)) < len(ids):
        first: dict[bytes, int] = {}
        for row, id in enumerate(ids, start=1):
            if first.setdefault(id, row) < row:
                name = readable(id.decode(errors="replace"))
                raise BadInputError(
                    f"{source}: rows {first[id]} and {row} have the same id, {name}; ids must be unique"
                )


def check_columns(contexts: NamedRows, items: NamedRows, table: Schema | None) -> str:
    """Return a warning of columns with features that neither table has, or "". Raises UsageError for a column that both
    tables have."""
    if (
        contexts.present is not None
        and items.present is not None
        and (both := sorted(contexts.present & items.present))
    ):
        raise UsageError(
            f"{contexts.source} and {items.source} both have the column {both[0]!r}, which the model knows; remove it "
            "from one of them"
        )
    return lacking(contexts.present, items.present, table)


def lacking(one: frozenset[str] | None, other: frozenset[str] | None, table: Schema | None) -> str:
    """Return a warning of columns with features that are in neither of two tables, or "". one, other : the columns of
    the tables with features; None: it is not a table."""
    if table is None or one is None or other is None:
        return ""
    names = [repr(name) for name in table.features if name not in one | other]
    if not names:
        return ""
    missing, they = ("column", "it") if len(names) == 1 else ("columns", "they")
    return f"both tables lack the {missing} {listing(names)} of the model: scoring as if {they} were empty"


def columns_with_features(path: str) -> frozenset[str] | None:
    """Return the columns of an input that the model knows; None: it is not a table."""
    return frozenset(path.present or ()) if isinstance(path, TableSource) else None


def check_apart(recommender: Recommender, contexts: NamedRows, items: NamedRows) -> None:
    """Raise BadInputError for a feature that both contexts and items have."""
    if found := recommender.shared(contexts.data):
        row, column = found
        feature = readable(str(recommender.scorer.ids(np.array([column]))[0]))
        raise BadInputError(
            f"{contexts.source}: row {row + 1} has the feature {feature}, which {items.source} has too; a feature must "
            "belong to one of both"
        )


def seen_pairs(
    scorer: Scorer, paths: Sequence[str], contexts: NamedRows, items: NamedRows, *, format: str, threads: int
) -> tuple[Seen, list[str]]:
    """Return the pairs of a context and an item that occur in the rows of some inputs: a row of a table has both ids in
    their columns, a row of text has the first features of both. Rows with the negative one of two labels do not
    count. And return a warning for each input without such a pair.

    Raises BadInputError, MissingInputError and UsageError.
    """
    found, warnings = [np.empty((2, 0), dtype=np.int64)], []
    names = None if contexts.features is None or items.features is None else numbered(scorer, contexts, items)
    for path in scorer.tables(paths, partial=True) if format == "auto" else paths:
        is_table = isinstance(path, TableInput)
        if is_table != (names is None) or (contexts.features is None) != (items.features is None):
            raise UsageError(
                f"{name_of(path)}: rows of contexts, of items and of pairs that were seen must all be tables, or none"
            )
        pairs = [pairs_of_table(scorer, path, contexts, items)] if names is None else names.pairs(path, format, threads)
        found += pairs
        if not sum(part.size for part in pairs):
            warnings.append(
                f"{name_of(path)}: no row is a pair of ids of {contexts.source} and {items.source}, so it leaves out "
                "nothing"
            )
    rows, numbers = np.concatenate(found, axis=1)
    return Seen.of(rows, numbers, len(contexts.ids)), warnings


def pairs_of_table(scorer: Scorer, path: str, contexts: NamedRows, items: NamedRows) -> Numbers:
    """Return (2, pairs) the numbers of the contexts and the items in the rows of a table."""
    schema = scorer.table
    assert schema is not None
    encoding = "latin-1" if schema.latin1 else "utf-8"
    form = replace(Schema({}), names=schema.names, delimiter=schema.delimiter, latin1=encoding == "latin-1")
    columns, labels = [str(contexts.column), str(items.column)], scorer.labels
    sides: list[dict[str, int]] = []
    for one, column in zip((contexts, items), columns, strict=True):
        texts = (schema.spelled(column, id.decode(errors="surrogateescape")) for id in one.ids)
        sides.append({text: row for row, text in enumerate(texts)})
    label = schema.label or LABEL  # as `negatives` writes it, for a model of text
    if labels.negative is not None and label not in schema.features and label in head_of_table(path, form).names:
        columns.append(label)
    cells = (
        (schema.spelled(columns[0], one), schema.spelled(columns[1], other), its_label)
        for one, other, *its_label in cells_of(path, columns, form)
    )
    pairs = [
        (sides[0][one], sides[1][other])
        for one, other, its_label in cells
        if one in sides[0] and other in sides[1] and not any(map(labels.is_negative, its_label))
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


@dataclass(frozen=True)
class Names:
    """The first features of contexts and items, which identify them in rows of text.

    columns : how features find their columns.
    row : (columns) the number of the context, or the number of contexts plus the number of the item.
    contexts : the number of contexts.
    """

    scorer: Scorer
    columns: Columns
    row: Numbers
    contexts: int

    def pairs(self, path: str, format: str, threads: int) -> list[Numbers]:
        """Return (2, pairs) the contexts and the items in the rows of a text, one array per piece."""

        def of_piece(data: Dataset) -> Numbers:
            of_entry, row = self.row[data.index], rows_of_entries(data)
            item = of_entry >= self.contexts
            counts = np.bincount(row[item], minlength=data.rows)
            begins = np.cumsum(counts) - counts
            times = counts[row[~item]]  # each context of a row pairs with each item of the row
            place = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
            items = of_entry[item][np.repeat(begins[row[~item]], times) + place] - self.contexts
            return np.stack([np.repeat(of_entry[~item], times), items])

        def without_negatives(data: Dataset) -> Dataset:
            seen = self.scorer.labels.seen(data.label, data.rows)
            return data if seen.all() else data.take(np.flatnonzero(seen).astype(np.int32))

        chunks = score_chunks(
            [path],
            lambda piece: of_piece(without_negatives(piece.data)),
            self.columns,
            format=format,
            threads=threads,
            labels=self.scorer.labels.names,
        )
        return [chunk.result for chunk in chunks]


def numbered(scorer: Scorer, contexts: NamedRows, items: NamedRows) -> Names:
    """Return the first features of contexts and items. Raises BadInputError for a feature that occurs twice."""
    ids = FeatureIds()
    assert contexts.features is not None
    assert items.features is not None
    for one in (contexts, items):
        for row, name in enumerate(one.features or ()):
            before = len(ids)
            number = int(name) if name.isdigit() else None
            ids.column_of(name if number is None or number > LARGEST_NUMBER else number)
            if len(ids) == before:
                feature = readable(name.decode(errors="replace"))
                raise BadInputError(
                    f"{one.source}: row {row + 1} begins with the feature {feature}, as an earlier row; pairs that "
                    "were seen are found by the first features of rows, which must be unique"
                )
    dictionary, columns = ids.sorted(np.ones(len(ids), dtype=np.bool_))
    rows = np.empty(len(ids), dtype=np.int64)
    rows[columns] = np.arange(len(ids))
    return Names(scorer, Columns(len(ids), dictionary), rows, len(contexts.ids))
