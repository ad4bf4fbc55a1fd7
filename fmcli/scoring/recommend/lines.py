"""Recommendations as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fmcli.data.tables.head import PREDICTION
from fmcli.data.text.formats import quoted
from fmcli.scoring.recommend.named import NamedRows
from fmcli.scoring.recommend.reasons import Reasons
from fmcli.scoring.recommend.recommender import Recommended, Recommender, Rows
from fmcli.text import printable_json, readable

# The column names of ids without a name in a table, and the names of the lists of items and reasons.
GIVEN, ITEM, ITEMS, REASONS = "given", "item", "items", "reasons"
TAB = b"\t"


class RecommendationText:
    """The text of recommendations: a table with a line per item, or a JSON object per context.

    reasons : explains the scores; None: no reasons are given.
    """

    def __init__(
        self, recommender: Recommender, contexts: NamedRows, items: NamedRows, reasons: Reasons | None, *, json: bool
    ) -> None:
        self.recommender, self.reasons, self.json = recommender, reasons, json
        self.contexts, self.items = contexts, items
        given, item = contexts.column or GIVEN, items.column or ITEM
        self.given, self.item = (given, item) if given != item else (GIVEN, ITEM)

    def head(self) -> bytes:
        """Return the first line of a table."""
        names = [self.given, *self.contexts.shown, self.item, *self.items.shown, PREDICTION]
        names += [REASONS] if self.reasons else []
        return b"" if self.json else TAB.join(quoted(name.encode(), TAB) for name in names) + b"\n"

    def texts(self, first: int, found: Recommended) -> Iterator[bytes]:
        """Yield the recommendations for contexts in pieces of few pairs. first : the number of the first context."""
        rows = np.repeat(np.arange(first, first + len(found.counts), dtype=np.int32), found.counts)
        if self.json:
            yield from self._objects(first, found, rows)
            return
        for some in found.pieces():
            items = found.items[some].tolist()
            columns = [
                [self.contexts.ids[row] for row in rows[some].tolist()],
                *([texts[row] for row in rows[some].tolist()] for texts in self.contexts.shown.values()),
                [self.items.ids[item] for item in items],
                *([texts[item] for item in items] for texts in self.items.shown.values()),
            ]
            texts = [list(map(cell, column)) for column in columns]
            reasons = [[in_words(each).encode() for each in self._why(rows, found, some)]] if self.reasons else []
            lines = zip(*texts, self._numbers(found, some), *reasons, strict=True)
            yield b"".join(TAB.join(line) + b"\n" for line in lines)

    def _objects(self, first: int, found: Recommended, rows: Rows) -> Iterator[bytes]:
        begin = 0
        for row, count in enumerate(found.counts.tolist(), start=first):
            about = {name: shown(texts[row]) for name, texts in self.contexts.shown.items()}
            line = printable_json({self.given: shown(self.contexts.ids[row]), **about, ITEMS: []})
            yield line.removesuffix("]}").encode()
            for some in found.pieces(begin, begin + count):
                items = ", ".join(map(printable_json, self._items(found, rows, some)))
                yield f"{', ' if some.start > begin else ''}{items}".encode()
            yield b"]}\n"
            begin += count

    def _items(self, found: Recommended, rows: Rows, some: slice) -> Iterator[dict[str, Any]]:
        why = self._why(rows, found, some) if self.reasons else None
        for item, number in zip(found.items[some].tolist(), map(float, self._numbers(found, some)), strict=True):
            one: dict[str, Any] = {self.item: shown(self.items.ids[item])}
            one |= {name: shown(texts[item]) for name, texts in self.items.shown.items()}
            one[PREDICTION] = number if np.isfinite(number) else None
            yield one | ({} if why is None else {REASONS: dict(next(why))})

    def _numbers(self, found: Recommended, some: slice) -> list[bytes]:
        return self.recommender.scorer.text(found.predictions[some], self.recommender.output).splitlines()

    def _why(self, rows: Rows, found: Recommended, some: slice) -> Iterator[list[tuple[str, float]]]:
        assert self.reasons is not None
        return self.reasons.of(self.contexts.data, rows[some], found.items[some])


def shown(text: bytes) -> str:
    """Return an id or a cell for display."""
    return readable(text.decode(errors="replace"))


def cell(text: bytes) -> bytes:
    """Return an id or a cell of data as a cell of the written table."""
    return quoted(shown(text).encode(), TAB)


def in_words(reasons: Sequence[tuple[str, float]]) -> str:
    """Return reasons as text for a cell."""
    return "; ".join(f"{name} {value:+.2g}" for name, value in reasons)
