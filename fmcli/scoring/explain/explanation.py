"""Scores as sums of parts: the shares of features, and the terms of the largest sets of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import LabelUnit
from fmcli.data.dataset import Dataset
from fmcli.data.text.chunks import Piece
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.scoring.explain.lines import DEGREE, INTERACTION, MAIN, REST, Writer
from fmcli.scoring.explain.splitter import Splitter
from fmcli.scoring.rows import ROWS_A_TASK
from fmcli.scoring.scorer import Scorer
from fmcli.system.memory import require_if_large
from fmcli.system.parallel import in_parallel, in_turn

# The largest number of sets of one size in a row whose terms are listed; for more sets, only the sum is computed.
MOST_SETS = 1 << 20
# Sets with more features have no sum of their own: they are part of the rest.
MOST_DEGREES = 8

# Parts of rows other than shares, as Writer.text takes them.
More = tuple[NDArray[np.int64], NDArray[np.int32], Floats, NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Explanation:
    """The scores of some rows as sums of parts.

    data : the rows, as the model scores them.
    keys : the ids of the rows; None: rows are numbered.
    score : (rows, outputs) raw scores, averaged over draws, in double precision. All numbers are in the user's unit.
    base : (outputs) the scores of a row without features.
    share : (entries, outputs), the shares of the entries. The base plus the shares of a row equals its score.
    more : main effects and the largest terms; None: not wanted.
    """

    data: Dataset
    keys: Sequence[bytes] | None
    score: Floats
    base: Floats
    share: Floats
    more: More | None


class Explainer:
    """A model that is ready to explain scores.

    interactions : the number of terms of several features per row; 0: no such terms, and no main effects.

    Raises UsageError for a kind of model whose scores are not sums of terms of sets of features.
    """

    def __init__(self, scorer: Scorer, interactions: int = 0) -> None:
        self.scorer, self.interactions = scorer, interactions
        self.splits = scorer.splits()
        self.unit = scorer.labels.unit
        self.base: Floats = self.unit.undo(np.mean([split.constant for split in self.splits], axis=0))

    @property
    def outputs(self) -> int:
        """The number of scores per row; cutpoints do not count."""
        return len(self.base)

    @cached_property
    def classes(self) -> list[str] | None:
        """The texts of the classes, if there is more than one score."""
        return list(self.scorer.labels.texts) if self.outputs > 1 else None

    def writer(self, *, json: bool) -> Writer:
        """Return a writer of explanations. Names of features include fields if the text of rows does."""
        with_fields = self.scorer.needs_fields and self.scorer.transform.table is None
        return Writer(self.scorer.numbering, self.classes, json, with_fields, self.unit.needs_doubles)

    def explain(self, data: Dataset, keys: Sequence[bytes] | None = None, threads: int = 1) -> Explanation:
        """Explain rows that have the columns of the model. Raises NotEnoughMemoryError."""
        data = self.scorer.prepared(data)
        sizes = 2 * self.outputs * (data.rows + data.nnz)
        require_if_large(sizes * np.dtype(np.float64).itemsize, f"explaining rows with {self.scorer.path}")
        score, share = np.zeros((self.outputs, data.rows)), np.zeros((self.outputs, data.nnz))

        def some(start: int) -> None:
            for split in self.splits:
                for output in range(self.outputs):
                    stop = min(start + ROWS_A_TASK, data.rows)
                    Splitter(split, output).shares(data, start, stop, score[output], share[output])

        in_parallel(some, range(0, data.rows, ROWS_A_TASK), threads)
        if len(self.splits) > 1:
            score /= len(self.splits)
            share /= len(self.splits)
        of_user = self.unit.undo(score), self.unit.differences(share)
        means = [np.ascontiguousarray(each.T) for each in of_user]
        more = self.more(data, means[0]) if self.interactions else None
        return Explanation(data, keys, means[0], self.base, means[1], more)

    def work(self, piece: Piece) -> Explanation:
        """Explain a piece of an input. The scores of skipped lines are NaN."""
        found = self.explain(piece.data, None if piece.beside is None else piece.beside.texts)
        found.score[piece.skipped] = np.nan
        return found

    def more(self, data: Dataset, score: Floats) -> More:
        """Return the main effects and the largest terms of rows with these scores."""
        splitters = [[Splitter(split, output) for split in self.splits] for output in range(self.outputs)]
        made = Parts()
        for row in range(data.rows):
            entries = int(data.indptr[row + 1] - data.indptr[row])
            for output, of_draws in enumerate(splitters):
                self._add(
                    made, Row(data, row, entries, of_draws, self.unit), float(score[row, output] - self.base[output])
                )
        return made.arrays()

    def _add(self, made: Parts, row: Row, total: float) -> None:
        """Add the parts of a row; its shares sum to `total`."""
        first, shown = int(row.data.indptr[row.number]), 0.0
        if row.entries:
            main = row.terms(1)
            for entry in np.argsort(-np.abs(main), kind="stable").tolist():
                made.add(MAIN, [first + entry], float(main[entry]))
            shown += float(main.sum())
        largest = row.largest()
        found: list[tuple[int, int, float]] = []
        for size in range(2, largest + 1):
            if comb(row.entries, size) > MOST_SETS:
                continue
            terms = row.terms(size)
            best = np.argsort(-np.abs(terms), kind="stable")[: self.interactions]
            found += [(size, int(place), float(terms[place])) for place in best if terms[place] != 0]
        for size, place, value in sorted(found, key=lambda one: -abs(one[2]))[: self.interactions]:
            made.add(INTERACTION, [first + entry for entry in set_at(place, row.entries, size)], value)
            shown += value
        for size in range(2, min(largest, MOST_DEGREES) + 1):
            if comb(row.entries, size) > MOST_SETS:
                value = row.sum(size)
                made.add(DEGREE, [size], value)
                shown += value
        if largest > 1:
            made.add(REST, [], total - shown)
        made.end()


@dataclass(frozen=True)
class Row:
    """A row, and the terms of its score in each draw, in the user's unit."""

    data: Dataset
    number: int
    entries: int
    draws: Sequence[Splitter]
    unit: LabelUnit

    def largest(self) -> int:
        """Return the size of the largest sets with terms."""
        return max(draw.largest(self.data, self.number) for draw in self.draws)

    def terms(self, size: int) -> Floats:
        """Return the terms of all sets of a size in lexicographic order, averaged over draws."""
        found = np.zeros(comb(self.entries, size))
        for draw in self.draws:
            draw.listed(self.data, self.number, size, found)
        return self.unit.differences(found / len(self.draws))

    def sum(self, size: int) -> float:
        """Return the sum of the terms of all sets of a size."""
        total = sum(draw.sum(self.data, self.number, size) for draw in self.draws)
        return self.unit.scale * total / len(self.draws)


class Parts:
    """Collects the parts of rows and outputs, for Writer."""

    def __init__(self) -> None:
        self.begins, self.set_begins = [0], [0]
        self.part: list[int] = []
        self.value: list[float] = []
        self.set: list[int] = []

    def add(self, part: int, members: Sequence[int], value: float) -> None:
        """Add a part of the current row and output."""
        self.part.append(part)
        self.value.append(value)
        self.set += members
        self.set_begins.append(len(self.set))

    def end(self) -> None:
        """End the current row and output."""
        self.begins.append(len(self.part))

    def arrays(self) -> More:
        """Return all parts."""
        whole = np.int64
        return (
            np.array(self.begins, whole),
            np.array(self.part, np.int32),
            np.array(self.value, np.float64),
            np.array(self.set_begins, whole),
            np.array(self.set, whole),
        )


def set_at(place: int, entries: int, size: int) -> list[int]:
    """Return the set at a position in the lexicographic order of the sets of `size` numbers below `entries`."""
    found: list[int] = []
    number = 0
    while len(found) < size:
        after = comb(entries - number - 1, size - len(found) - 1)
        if place < after:
            found.append(number)
        else:
            place -= after
        number += 1
    return found


def explained_lines(
    explainer: Explainer,
    chunks: Iterator[Explanation],
    *,
    json: bool,
    counted: Callable[[int], None],
    threads: int = 1,
) -> Iterator[bytes]:
    """Yield the explanations of rows as text. counted : gets the number of rows whose score is not finite."""
    writer = explainer.writer(json=json)
    if not json:
        yield b"\t".join([b"row", *([b"class"] if explainer.classes else []), b"part", b"features", b"value"]) + b"\n"

    def numbered() -> Iterator[tuple[int, Explanation]]:
        first = 1
        for found in chunks:
            counted(int((~np.isfinite(found.score)).any(axis=1).sum()))
            yield first, found
            first += found.data.rows

    def text(task: tuple[int, Explanation]) -> bytes:
        first, found = task
        return writer.text(first, found.data, found.keys, found.score, found.base, found.share, found.more)

    yield from in_turn(text, numbered(), threads)
