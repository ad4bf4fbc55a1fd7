"""The items with the largest scores for each of many contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.hashes import hashes
from fmcli.data.shards.observed_rows import LOW, Seen
from fmcli.data.united import united
from fmcli.errors import UsageError
from fmcli.losses.links import Floats
from fmcli.scoring.recommend.candidates import Candidates
from fmcli.scoring.recommend.factor_scores import PAIRS_AT_ONCE, ScoredPairs, pair_scores, scored
from fmcli.scoring.scorer import OutputType, Scorer
from fmcli.system.parallel import in_turn

# The most contexts in a thread's block; about how many pairs a block finds (a pair takes half a kilobyte with its
# text); and the number of contexts whose lists are compared.
CONTEXTS_AT_ONCE, FOUND_AT_ONCE, CONTEXTS_COMPARED = 256, 1 << 14, 100

Numbers = NDArray[np.int64]
Rows = NDArray[np.int32]


class Equal:
    """Groups of items with equal features, and so equal scores: only one item of each kind is scored.

    rows : int32 (kinds), the first item of each kind, increasing.
    kind : (items) the kind of each item.
    size : (kinds) the number of items of each kind.
    """

    def __init__(self, items: Dataset) -> None:
        _, first, kind = np.unique(hashes(items), return_index=True, return_inverse=True)
        self.rows: Rows = np.sort(first).astype(np.int32)
        self.kind: Numbers = np.argsort(np.argsort(first))[kind]
        self.size: Numbers = np.bincount(self.kind, minlength=len(first))
        self._members = np.argsort(self.kind, kind="stable")
        self._begins = np.cumsum(self.size) - self.size

    def seen(self, seen: Seen) -> Seen:
        """Return, for each context, the kinds whose items it has all seen."""
        context, item = seen.pairs()
        pairs, count = np.unique((context << 32) + self.kind[item], return_counts=True)
        whole = pairs[count == self.size[pairs & LOW]]
        return Seen.of(whole >> 32, whole & LOW, seen.contexts)

    def expanded(self, context: Rows, kind: Rows, top: int, seen: Seen) -> tuple[Numbers, Rows]:
        """Return the position of the pair and the item, for pairs of a context and a kind, and each kind's first `top`
        items that the context has not seen."""
        most = top + np.diff(seen.begins)[context]  # enough, even if the context has seen some
        sizes = np.minimum(self.size[kind], most)
        pair = np.repeat(np.arange(len(kind)), sizes)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        item = self._members[self._begins[kind][pair] + within]
        of_context, known = seen.pairs()
        kept = ~np.isin((context[pair].astype(np.int64) << 32) + item, (of_context << 32) + known)
        return pair[kept], item[kept].astype(np.int32)


class Recommended(NamedTuple):
    """The items for some contexts, the best first.

    counts : (contexts) the number of items for each context.
    items : int32 (pairs), rows of the items.
    order : (pairs) the numbers that items are ordered by; see ScoredPairs.
    predictions : (pairs, columns) the numbers that predict writes.
    """

    counts: Numbers
    items: Rows
    order: Floats
    predictions: Floats

    def pieces(self, begin: int = 0, end: int | None = None) -> Iterator[slice]:
        """Yield slices with few pairs each, from pair `begin` to `end`."""
        stop = len(self.items) if end is None else end
        for start in range(begin, stop, FOUND_AT_ONCE):
            yield slice(start, min(start + FOUND_AT_ONCE, stop))


class Recommender:
    """A model that is ready to find items.

    Parameters
    ----------
    items : the rows of all items, which have the columns of the model.
    top : the number of items to find for each context.

    Raises UsageError for a model with several classes, which has no single score to order items by.
    """

    def __init__(self, scorer: Scorer, items: Dataset, top: int) -> None:
        if scorer.model.outputs > 1:
            raise UsageError(
                f"{scorer.path} has scores of {scorer.model.outputs} classes, and no single one to order items by; "
                "train a model of two labels, or of numbers"
            )
        self.scorer, self.items, self.top = scorer, items, top
        self.output: OutputType = scorer.default_output()
        self.of_items = items.seen()
        self.equal = Equal(items)
        # Without a feature that the model knows, an item has the score of an average one, which is higher than the
        # scores of most items if these were learned from all pairs. Other models may rate it.
        unknown = np.flatnonzero(np.diff(items.indptr) == 0)
        self.unknown, self._left_out = 0 if scorer.known is None else len(unknown), self.equal.kind[unknown[:1]]
        self.scores, self.reason = pair_scores(scorer, items.take(self.equal.rows))

    def shared(self, contexts: Dataset) -> tuple[int, int] | None:
        """Return the first row of contexts with a feature of the items, and the feature's column; None: there is
        none."""
        common = self.of_items[contexts.index]
        if not common.any():
            return None
        entry = int(common.argmax())
        return int(np.searchsorted(contexts.indptr, entry, side="right")) - 1, int(contexts.index[entry])

    def find(self, contexts: Dataset, seen: Seen | None = None) -> Recommended:
        """Return the items for some contexts, without items they have seen. Items are ordered by score, then by row;
        items whose score is NaN are last."""
        if seen is None:
            seen = Seen(np.zeros(contexts.rows + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        candidates = Candidates(self.top, *self._seen_kinds(seen))
        for first, score, error in self.scores.each(contexts):
            candidates.add(score, first, error)
        counts, kinds = candidates.found()
        context = np.repeat(np.arange(contexts.rows, dtype=np.int32), counts)
        parts = [self._best(contexts, context[some], kinds[some], seen) for some in portions(counts)]
        context, items = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        order, score = (np.concatenate([part[at] for part in parts]) for at in (2, 3))
        predictions = self.scorer.predicted(score.astype(np.float64, copy=False), self.output)
        return Recommended(np.bincount(context, minlength=contexts.rows), items, order, predictions)

    def _seen_kinds(self, seen: Seen) -> Seen:
        """Return, for each context, the kinds of items that it does not get."""
        kinds, count = self.equal.seen(seen), seen.contexts
        if not self.unknown:
            return kinds
        context, kind = kinds.pairs()
        left_out = np.repeat(self._left_out, count)
        return Seen.of(np.append(context, np.arange(count)), np.append(kind, left_out), count)

    def warnings(self, contexts: Dataset, given: str, over: str, named: Callable[[str], str]) -> Iterator[str]:
        """Yield warnings: if items are left out because the model knows none of their features, and if all contexts get
        one list. given, over : the names of the inputs; named : returns the caller's spelling of an option."""
        if self.unknown:
            items, have, are = ("item", "has", "is") if self.unknown == 1 else ("items", "have", "are")
            yield (
                f"{self.unknown:,} {items} of {over} {have} no feature that the model knows, and {are} left out: train "
                f"with features of the items ({named('join')}) to recommend new ones"
            )
        if self.gives_one_list(contexts):
            yield (
                f"all rows of {given} get the same list, but for seen items: the model knows which items are popular, "
                f"and not who likes them; users need features that training has seen ({named('categorical')}), and the "
                f"model needs factors that are not near 0 (a weaker {named('l2_v')})"
            )

    def gives_one_list(self, contexts: Dataset) -> bool:
        """Return whether contexts that have seen nothing all get the same items in the same order, the popular ones;
        checked on a sample of contexts at equal distances."""
        some = np.arange(0, contexts.rows, max(1, contexts.rows // CONTEXTS_COMPARED), dtype=np.int32)
        if len(some) <= 1 or self.items.rows <= 1:
            return False
        first = None
        for _, found in self.each(contexts.take(some), None, 1):
            for one in np.split(found.items, np.cumsum(found.counts)[:-1]):
                if first is None:
                    first = one
                elif not np.array_equal(first, one):
                    return False
        return True

    def _best(self, contexts: Dataset, context: Rows, kinds: Rows, seen: Seen) -> tuple[Rows, Rows, Floats, Floats]:
        """Return the contexts and items of the best pairs, and their scores, given pairs of contexts and kinds."""
        found = self.score(contexts, context, self.equal.rows[kinds])
        pair, items = self.equal.expanded(context, kinds, self.top, seen)
        order = np.lexsort((items, -found.order[pair], context[pair]))
        pair, items = pair[order], items[order]
        of_pair = context[pair]
        place = np.arange(len(pair)) - np.searchsorted(of_pair, of_pair)
        best = place < self.top
        pair = pair[best]
        return of_pair[best], items[best], found.order[pair], found.score[pair]

    def score(self, contexts: Dataset, context: Rows, items: Rows) -> ScoredPairs:
        """Return the scores of pairs of a context and an item, with the same bits as predict."""
        parts = []
        for start in range(0, max(len(items), 1), PAIRS_AT_ONCE):
            some = slice(start, start + PAIRS_AT_ONCE)
            parts.append(scored(self.scorer, united(contexts, self.items, context[some], items[some])))
        return ScoredPairs(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def each(self, contexts: Dataset, seen: Seen | None, threads: int) -> Iterator[tuple[int, Recommended]]:
        """Yield blocks in order: the number of the first context, and the items found. Several threads work."""
        found_for_each = max(min(self.top, self.items.rows), 1)
        step = min(max(FOUND_AT_ONCE // found_for_each, 1), CONTEXTS_AT_ONCE)

        def work(start: int) -> tuple[int, Recommended]:
            stop = min(start + step, contexts.rows)
            of_block = None if seen is None else seen.of_contexts(start, stop)
            return start, self.find(contexts.take(np.arange(start, stop, dtype=np.int32)), of_block)

        yield from in_turn(work, range(0, contexts.rows, step), threads)

    def table(self, contexts: Dataset, seen: Seen | None, threads: int) -> tuple[Numbers, Floats]:
        """Return (contexts, top) the rows of the items found, and their predictions; beyond these, -1 and nan."""
        items = np.full((contexts.rows, self.top), -1, dtype=np.int64)
        predictions = np.full(items.shape, np.nan)
        for first, block in self.each(contexts, seen, threads):
            place = np.arange(self.top) < block.counts[:, None]
            items[first : first + len(place)][place] = block.items
            predictions[first : first + len(place)][place] = block.predictions[:, 0]
        return items, predictions


def portions(counts: Numbers) -> list[slice]:
    """Divide pairs into slices of whole contexts with few pairs, so their scores take little memory. counts :
    (contexts) the number of pairs of each context."""
    ends = np.cumsum(counts)
    cuts = [0]
    for end, count in zip(ends.tolist(), counts.tolist(), strict=True):
        if end - cuts[-1] > PAIRS_AT_ONCE and end - count > cuts[-1]:
            cuts.append(end - count)
    cuts.append(int(ends[-1]) if len(ends) else 0)
    return [slice(start, stop) for start, stop in pairwise(cuts)]
