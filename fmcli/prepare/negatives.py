"""Negatives: random pairs that were not observed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from fmcli.data.tables.head import Head
from fmcli.data.tables.reading import TableSource, opened
from fmcli.data.tables.schema import IGNORED, ColumnForm, Layout, Schema
from fmcli.data.text.faults import describe
from fmcli.data.text.sources import FileRange
from fmcli.errors import BadInputError
from fmcli.names import no_such

COLUMNS = 2  # in a pair
LABEL, LINKED, NOT_LINKED = "label", "1", "0"


Pair = tuple[str, ...]


def cells_of(path: str, names: Sequence[str], form: Schema | None = None) -> Iterator[Pair]:
    """Yield the cells of some columns of a table. Raises BadInputError if it lacks a column, and MissingInputError."""
    form = form or Schema({})
    heads: list[Head] = []

    def layout(head: Head, source: str) -> Layout:
        for name in names:
            if name not in head.names:
                raise BadInputError(f"{source}: {no_such('column', name, head.names)}")
        heads.append(head)
        return [ColumnForm(IGNORED)] * len(head.names)

    line, encoding = 0, "latin-1" if form.latin1 else "utf-8"
    extent = FileRange(path, frame=path.frame if isinstance(path, TableSource) else None, used=frozenset(names))
    with closing(opened(extent, form, layout, [])) as found:
        for buffer in found:
            assert buffer.scanner is not None
            line += buffer.before
            columns = [heads[0].names.index(name) for name in names]
            cells, lines, faults = buffer.scanner.texts(buffer.data, buffer.start, buffer.stop, columns)
            if faults:
                raise BadInputError(describe(buffer.name, line + faults[0].number + 1, faults[0]))
            texts = (cell.decode(encoding, errors="surrogateescape") for cell in cells)
            yield from zip(*[texts] * len(names), strict=True)
            line += lines


def with_negatives(
    names: Sequence[str],
    pairs: Sequence[Pair],
    per_pair: int,
    pools: Mapping[str, Sequence[str]],
    others: Sequence[Pair],
    seed: int,
) -> Iterator[bytes]:
    """Yield lines of CSV: the header, the pairs with label 1, and `per_pair` times as many negatives with label 0.

    names : of the columns of the pairs.
    pools : column -> the cells to draw negatives from, in place of the cells of the pairs.
    others : further pairs that are not negatives.

    Raises BadInputError if there are too few pairs to draw from.
    """
    sides = [
        {cell: number for number, cell in enumerate(dict.fromkeys(pools.get(name, [pair[side] for pair in pairs])))}
        for side, name in enumerate(names)
    ]
    first, second = (list(side) for side in sides)
    known = [sides[0][a] * len(second) + sides[1][b] for a, b in (*pairs, *others) if a in sides[0] and b in sides[1]]
    found = drawn(
        per_pair * len(pairs),
        np.array(known, dtype=np.int64),
        len(first) * len(second),
        np.random.default_rng(seed),
    )
    yield line([*names, LABEL])
    for a, b in pairs:
        yield line([a, b, LINKED])
    for code in found.tolist():
        yield line([first[code // len(second)], second[code % len(second)], NOT_LINKED])


def line(cells: Sequence[str]) -> bytes:
    """Return a line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode(errors="surrogateescape")


def drawn(count: int, known: NDArray[np.int64], total: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw distinct random numbers below `total` that are not known, in random order.

    The pair (i, j) has the number i * (number of all j) + j. Raises BadInputError if there are too few pairs.
    """
    known = np.unique(known)
    if count > total - len(known):
        raise BadInputError(f"{len(known):,} of {total:,} pairs are known, but {count:,} others are needed; draw fewer")
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:
        more = random.integers(total, size=count - len(found) + len(known))
        more = np.concatenate([found, more[~np.isin(more, known)]])
        found = more[np.sort(np.unique(more, return_index=True)[1])][:count]
    return found
