"""Splits of the rows of a file into several outputs: at random, or by a rule that does not leak."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import is_number
from fmcli.data.tables.reading import DELIMITERS
from fmcli.errors import TransferError
from fmcli.prepare.keyed import KeyedRows, Source
from fmcli.prepare.rules import Keys, SplitRule
from fmcli.prepare.written import Written

# Rows of text are split in chunks, so a pipe can be read and memory is bounded.
CHUNK_ROWS, CHUNK_BYTES = 1 << 18, 1 << 28
LINES_TO_KNOW_HEADER = 2
# When the room for keys is full, it grows by this factor; little of it is ever empty.
GROWTH = 1.1


def divided(rows: int, shares: Sequence[Fraction], random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Return the numbers of each part's rows, in random order. The shares are relative to their sum; the sizes of the
    parts are exact except for rounding."""
    ends = [int(rows * end / sum(shares)) for end in accumulate(shares)]
    return np.split(random.permutation(rows), ends[:-1])


class InputFacts(NamedTuple):
    """The facts about an input.

    skipped : the number of blank lines and comments.
    header : the first line, if it looks like a table's header but is split like a row; else "".
    """

    skipped: int
    header: str


def split(source: Source, outputs: Sequence[Written], shares: Sequence[Fraction], seed: int) -> InputFacts:
    """Split the rows of an input at random. The rows of an output keep their order, after a table's header, if there is
    one; blank lines and comments of other text are left out.

    At most CHUNK_ROWS rows or CHUNK_BYTES bytes are split at a time. The shares are exact in each chunk.
    """
    random = np.random.default_rng(seed)
    first: list[bytes] = []
    chunk: list[bytes] = []
    size = 0
    for rows in source.read():
        if rows.header:
            for output in outputs:
                output.header(rows.header)
        first = first or ([] if source.is_table else rows.texts[:LINES_TO_KNOW_HEADER])
        for text in rows.texts:
            chunk.append(text)
            size += len(text)
            if len(chunk) == CHUNK_ROWS or size >= CHUNK_BYTES:
                _write(chunk, outputs, shares, random)
                chunk, size = [], 0
    _write(chunk, outputs, shares, random)
    return InputFacts(source.skipped, _unmarked(first))


def _unmarked(rows: Sequence[bytes]) -> str:
    """Return the first of two rows if it looks like a table's header: both have the same number of cells, no cell of
    the first is a number, and some cell of the second is."""
    delimiter = next((one for one in map(str.encode, DELIMITERS) if rows and one in rows[0]), None)
    if delimiter is None or len(rows) < LINES_TO_KNOW_HEADER:
        return ""
    names, cells = ([cell.strip(b' "\n') for cell in row.split(delimiter)] for row in rows)
    if len(names) != len(cells) or any(map(is_number, names)) or not any(map(is_number, cells)):
        return ""
    return rows[0].rstrip(b"\n").decode(errors="replace")


def split_by(rule: SplitRule, source: Source, outputs: Sequence[Written]) -> InputFacts:
    """Write each row of a source to the output of its part, in the order of the source; each output begins with the
    header of a table. The source is read twice; the keys of all rows are in memory before the split.

    Raises BadInputError if a part has no rows, and TransferError if the source changes in between.
    """
    keys = _all_keys(rule, source.read())
    expected = len(keys)
    rule.learn(keys)
    del keys
    first: list[bytes] = []
    for chunk in source.read():
        first = first or ([] if source.is_table else chunk.texts[:LINES_TO_KNOW_HEADER])
        parts = rule.parts(rule.keys(chunk.groups, chunk.times))
        for number, output in enumerate(outputs):
            mine = np.flatnonzero(parts == number)
            output.header(chunk.header)
            output.lines(b"".join(_chosen(chunk.texts, mine)), len(mine))
    found = sum(output.rows for output in outputs)
    if found != expected:
        raise TransferError(
            f"{source.path}: the file changed while it was read, from {expected:,} to {found:,} rows; try again"
        )
    return InputFacts(source.skipped, _unmarked(first))


def _all_keys(rule: SplitRule, chunks: Iterable[KeyedRows]) -> Keys:
    keys, filled = np.empty(CHUNK_ROWS, dtype=rule.kind), 0
    for chunk in chunks:
        found = rule.keys(chunk.groups, chunk.times)
        if filled + len(found) > len(keys):
            keys.resize(max(int(GROWTH * len(keys)), filled + len(found)), refcheck=False)
        keys[filled : filled + len(found)] = found
        filled += len(found)
    return keys[:filled]


def _write(
    chunk: list[bytes], outputs: Sequence[Written], shares: Sequence[Fraction], random: np.random.Generator
) -> None:
    for output, part in zip(outputs, divided(len(chunk), shares, random), strict=True):
        output.lines(b"".join(_chosen(chunk, part)), len(part))


def _chosen(chunk: list[bytes], part: NDArray[np.int64]) -> Iterator[bytes]:
    return (chunk[number] for number in np.sort(part).tolist())
