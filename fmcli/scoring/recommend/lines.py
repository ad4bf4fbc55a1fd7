"""Recommendations as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fmcli.data.formats import quoted
from fmcli.data.tables.head import PREDICTION
from fmcli.scoring.recommend.named import NamedRows
from fmcli.scoring.recommend.reasons import Reasons
from fmcli.scoring.recommend.recommender import Found, Recommender
from fmcli.text import printable_json, readable

# The names of ids that no table names, and of the lists of items and reasons.
GIVEN, ITEM, ITEMS, REASONS = "given", "item", "items", "reasons"
TAB = b"\t"


class Lines:
    """The text of recommendations: a table, with a line for each item, or a JSON object for each context.

    reasons : what explains the scores; None: nothing does.
    """

    def __init__(
        self, recommender: Recommender, contexts: NamedRows, items: NamedRows, reasons: Reasons | None, *, json: bool
    ) -> None:
        self.recommender, self.contexts, self.items, self.reasons, self.json = (
            recommender,
            contexts,
            items,
            reasons,
            json,
        )
        given, item = contexts.column or GIVEN, items.column or ITEM
        self.given, self.item = (given, item) if given != item else (GIVEN, ITEM)

    def head(self) -> bytes:
        """Return the first line of a table."""
        names = [self.given, *self.contexts.shown, self.item, *self.items.shown, PREDICTION]
        return b"" if self.json else TAB.join(cells([*names, *([REASONS] if self.reasons else [])])) + b"\n"

    def text(self, first: int, found: Found) -> bytes:
        """Return the recommendations for some contexts, of which the first has this number."""
        numbers = self.recommender.scorer.text(found.predictions, self.recommender.output).splitlines()
        rows = np.repeat(np.arange(first, first + len(found.counts)), found.counts).tolist()
        why = list(self.reasons.of(found)) if self.reasons else []
        if not self.json:
            columns = [
                [self.contexts.ids[row] for row in rows],
                *([texts[row] for row in rows] for texts in self.contexts.shown.values()),
                [self.items.ids[item] for item in found.items.tolist()],
                *([texts[item] for item in found.items.tolist()] for texts in self.items.shown.values()),
            ]
            texts = [list(map(cell, column)) for column in columns]
            reasons = [[in_words(each).encode() for each in why]] if self.reasons else []
            return b"".join(TAB.join(line) + b"\n" for line in zip(*texts, numbers, *reasons, strict=True))
        return "".join(self._objects(first, found, numbers, why)).encode()

    def _objects(self, first: int, found: Found, numbers: Sequence[bytes], why: Sequence[Any]) -> Iterator[str]:
        ends = np.cumsum(found.counts).tolist()
        for row, (count, end) in enumerate(zip(found.counts.tolist(), ends, strict=True), start=first):
            items = []
            for at in range(end - count, end):
                item = int(found.items[at])
                one: dict[str, Any] = {self.item: shown(self.items.ids[item])}
                one |= {name: shown(texts[item]) for name, texts in self.items.shown.items()}
                number = float(numbers[at])
                one[PREDICTION] = number if np.isfinite(number) else None
                items.append(one | ({REASONS: dict(why[at])} if self.reasons else {}))
            about = {name: shown(texts[row]) for name, texts in self.contexts.shown.items()}
            line = {self.given: shown(self.contexts.ids[row]), **about, ITEMS: items}
            yield printable_json(line) + "\n"


def shown(text: bytes) -> str:
    """Return an id or a cell as it is shown."""
    return readable(text.decode(errors="replace"))


def cell(text: bytes) -> bytes:
    """Return an id or a cell as it is written in a table."""
    return quoted(shown(text).encode(), TAB)


def cells(texts: Sequence[str]) -> list[bytes]:
    """Return texts as they are written in a table."""
    return [quoted(text.encode(), TAB) for text in texts]


def in_words(reasons: Sequence[tuple[str, float]]) -> str:
    """Return reasons in a cell of a table."""
    return "; ".join(f"{name} {value:+.2g}" for name, value in reasons)
