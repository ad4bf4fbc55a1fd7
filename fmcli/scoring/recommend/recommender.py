"""The items with the largest scores for each of many contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.errors import UsageError
from fmcli.losses.links import Floats
from fmcli.scoring.prediction import OutputType, Scorer
from fmcli.scoring.recommend.candidates import Candidates
from fmcli.scoring.recommend.halves import ByPairs, ByProducts, PairScores, Scored, scored, united
from fmcli.system.parallel import in_turn

# Contexts for which a thread finds the items at a time.
CONTEXTS_AT_ONCE = 256

Numbers = NDArray[np.int64]
Rows = NDArray[np.int32]


class Seen(NamedTuple):
    """Pairs that are left out.

    begins : int64 (contexts + 1), where those of each context begin in `items`.
    items : int32, the rows of items, increasing for each context.
    """

    begins: Numbers
    items: Rows

    @classmethod
    def of(cls, contexts: Numbers, items: Numbers, count: int) -> Seen:
        """Return pairs of `count` contexts and of items, which may occur several times."""
        pairs = np.unique((contexts << 32) + items)
        begins = np.searchsorted(pairs >> 32, np.arange(count + 1))
        return cls(begins.astype(np.int64), (pairs & 0xFFFFFFFF).astype(np.int32))


class Found(NamedTuple):
    """The items for some contexts, the best first.

    counts : (contexts) how many there are.
    items : int32 (pairs), rows of the items.
    raw : (pairs) raw scores, those of draws averaged, by which they are ordered.
    predictions : (pairs, columns) what predict writes.
    pairs : the rows that were scored.
    """

    counts: Numbers
    items: Rows
    raw: Floats
    predictions: Floats
    pairs: Dataset


class Recommender:
    """A model that is ready to find items.

    Parameters
    ----------
    items : the rows of all items, which have the columns of the model.
    top : how many are found for each context.

    Raises UsageError for a model of several classes, which has no single score to order items by.
    """

    def __init__(self, scorer: Scorer, items: Dataset, top: int) -> None:
        if scorer.model.outputs > 1:
            raise UsageError(
                f"{scorer.path} has scores of {scorer.model.outputs} classes, and no single one to order items by; "
                "train a model of two labels, or of numbers"
            )
        scorer.all_draws  # noqa: B018 (before there are threads)
        self.scorer, self.items, self.top = scorer, items, top
        self.output: OutputType = scorer.default_output()
        self.of_items = np.zeros(scorer.model.features, dtype=np.bool_)
        self.of_items[items.index] = True
        try:
            self.scores: PairScores = ByProducts(scorer, items, self.of_items)
            self.reason = ""
        except UsageError as error:
            self.scores, self.reason = ByPairs(scorer, items, str(error)), str(error)

    def shared(self, contexts: Dataset) -> tuple[int, int] | None:
        """Return the first row of contexts with a feature that items have, and its column; None: there is none."""
        common = self.of_items[contexts.index]
        if not common.any():
            return None
        entry = int(common.argmax())
        return int(np.searchsorted(contexts.indptr, entry, side="right")) - 1, int(contexts.index[entry])

    def find(self, contexts: Dataset, seen: Seen | None = None) -> Found:
        """Return the items for some contexts, without those they have seen. Pairs are ordered by their scores, and then
        by the order of the items; those without a score that is a number are the last."""
        if seen is None:
            seen = Seen(np.zeros(contexts.rows + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        candidates = Candidates(self.top, seen.begins, seen.items)
        for first, score, error in self.scores.each(contexts):
            candidates.add(score, first, error)
        counts, items = candidates.found()
        context = np.repeat(np.arange(contexts.rows, dtype=np.int32), counts)
        found = self.score(contexts, context, items)
        order = np.lexsort((items, -found.raw, context))
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        best = order[place < self.top].astype(np.int32)
        predictions = self.scorer.predicted(found.score[best], self.output)
        pairs = united(contexts, self.items, context[best], items[best])
        return Found(np.minimum(counts, self.top), items[best], found.raw[best], predictions, pairs)

    def score(self, contexts: Dataset, context: Rows, items: Rows) -> Scored:
        """Return the scores of pairs of a context and an item, whose bits are those of predict."""
        return scored(self.scorer, united(contexts, self.items, context, items))

    def each(self, contexts: Dataset, seen: Seen | None, threads: int) -> Iterator[tuple[int, Found]]:
        """Yield the number of the first of some contexts and the items for them, in order, found by several threads."""

        def blocks() -> Iterable[int]:
            return range(0, contexts.rows, CONTEXTS_AT_ONCE)

        def work(start: int) -> tuple[int, Found]:
            stop = min(start + CONTEXTS_AT_ONCE, contexts.rows)
            of_block = None if seen is None else Seen(seen.begins[start : stop + 1], seen.items)
            return start, self.find(contexts.take(np.arange(start, stop, dtype=np.int32)), of_block)

        yield from in_turn(work, blocks(), threads)
