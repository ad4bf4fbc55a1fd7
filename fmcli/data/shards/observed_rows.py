"""Training rows that are observed pairs of a context, such as a user, and an item, beside which all pairs count, or
some that are drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.hashes import hashes, places_in
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.text.pieces import concatenated
from fmcli.data.united import united
from fmcli.errors import BadInputError
from fmcli.records import dataclass

# The number of pairs, beside their drawn ones, that are in memory at a time; and the most draws by popularity.
PAIRS_AT_ONCE, DRAWS = 1 << 16, 50
# The bytes of an entry: a column and a value, and while rows are made, their places.
ENTRY_BYTES = 40
LOW = 0xFFFFFFFF  # the bits of the item in a pair's number

Flags = NDArray[np.bool_]


class Seen(NamedTuple):
    """Pairs of contexts and items.

    begins : int64 (contexts + 1), where the items of each context begin in `items`.
    items : int32, the rows of items, increasing for each context.
    """

    begins: NDArray[np.int64]
    items: NDArray[np.int32]

    @classmethod
    def of(cls, contexts: NDArray[np.int64], items: NDArray[np.int64], count: int) -> Seen:
        """Return pairs of `count` contexts and of items. Pairs may repeat."""
        pairs = np.unique((contexts << 32) + items)
        begins = np.searchsorted(pairs >> 32, np.arange(count + 1))
        return cls(begins.astype(np.int64), (pairs & LOW).astype(np.int32))

    @property
    def contexts(self) -> int:
        """The number of contexts."""
        return len(self.begins) - 1

    def of_contexts(self, begin: int, end: int) -> Seen:
        """Return the pairs of the contexts begin:end."""
        return Seen(self.begins[begin : end + 1], self.items)

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the context and the item of each pair."""
        items = self.items[int(self.begins[0]) : int(self.begins[-1])]
        return np.repeat(np.arange(self.contexts), np.diff(self.begins)), items.astype(np.int64)


@dataclass(frozen=True)
class Sides:
    """The two sides of pairs.

    contexts, items : the different parts of the pairs, in the order in which they occur first.
    context, item : int64 (pairs), the part of each pair on either side.
    known : how many contexts and how many items an earlier run had, which come first; None: there was none.
    """

    contexts: Dataset
    items: Dataset
    context: NDArray[np.int64]
    item: NDArray[np.int64]
    known: tuple[int, int] | None = None

    @classmethod
    def of(cls, data: Dataset, rows: RowNumbers, of_items: Flags) -> Sides:
        """Return the sides of rows with these numbers. of_items : (features) whether a feature belongs to an item."""
        parts, numbers = list[Dataset](), list[NDArray[np.int64]]()
        for mine in (~of_items, of_items):
            _, first, number = np.unique(hashes(data, mine)[rows], return_index=True, return_inverse=True)
            parts.append(data.take(rows[np.sort(first)]).only(mine).changed(field=None))  # a side is one field
            numbers.append(np.argsort(np.argsort(first))[number])  # in the order in which they occur
        return cls(parts[0], parts[1], numbers[0], numbers[1])

    def after(self, earlier: Sides) -> Sides:
        """Return the same pairs, with the contexts and items of an earlier run first. Raises BadInputError for a
        feature that is on both sides."""
        contexts, context = joined(earlier.contexts, self.contexts, self.context)
        items, item = joined(earlier.items, self.items, self.item)
        if np.intersect1d(contexts.index, items.index).size:
            raise BadInputError(
                "a feature of a user belongs to items of the model, or the other way round; give each its own number"
            )
        return Sides(contexts, items, context, item, (earlier.contexts.rows, earlier.items.rows))

    def parts(self) -> Dataset:
        """Return the contexts, and then the items."""
        return in_succession(self.contexts, self.items)


def joined(known: Dataset, found: Dataset, numbers: NDArray[np.int64]) -> tuple[Dataset, NDArray[np.int64]]:
    """Return known parts and then the other found ones, and what the numbers of found parts become."""
    place = places_in(hashes(known), hashes(found))
    new = np.flatnonzero(place < 0)
    place[new] = known.rows + np.arange(len(new))
    return in_succession(known, found.take(new.astype(np.int32))), place[numbers]


def in_succession(one: Dataset, other: Dataset) -> Dataset:
    """Return the rows of one dataset, and then of the other, with labels 0."""
    bare = {"weight": None, "group": None, "numbering": None}
    return concatenated([data.changed(label=np.zeros(data.rows), **bare) for data in (one, other)])


@dataclass(frozen=True)
class AllPairsTerms:
    """What rows of observed pairs are, and what pairs that are not observed add to the objective.

    unseen_weight : the weight of each pair of all, beside the weights of the observed ones.
    l2_power : the power of the number of a feature's pairs, in these and in all, that its l2 penalty is multiplied by.
    is_given : whether the user has given the weight.
    negatives : how many items each epoch draws for an observed pair, in place of all pairs; 0: all pairs.
    by_popularity : whether they are drawn in proportion to their observed pairs; otherwise all are equally likely.
    users, items : the fields of the entries of contexts, and of items; other entries are left out.
    counted : whether labels are counts, so pairs have the weight 1 + log(sum), or the sum if it is less than 1;
        otherwise the sum is the weight.
    """

    unseen_weight: float
    l2_power: float = 1.0
    is_given: bool = True
    negatives: int = 0
    by_popularity: bool = False
    users: frozenset[int] = frozenset()
    items: frozenset[int] = frozenset()
    counted: bool = True


class ObservedRows(TrainingRows):
    """Observed pairs, whose scores are to be 1. The scores of all pairs of a context and an item are to be 0.

    Attributes
    ----------
    of_items : bool (features), whether each feature belongs to an item; others belong to a context.
    terms : what all pairs add to the objective.
    earlier : the sides of the run whose model gets new features, from these pairs: its contexts and items are constant,
        and the objective is a sum over pairs, not relative to their weight. None: all features are learned.
    """

    divides = False

    def __init__(
        self,
        data: Dataset,
        rows: RowNumbers,
        of_items: Flags,
        terms: AllPairsTerms,
        every_row: RowNumbers | None = None,
        earlier: Sides | None = None,
    ) -> None:
        super().__init__(data, rows, every_row=every_row)
        self.of_items, self.terms, self.earlier = of_items, terms, earlier

    def only(self, rows: RowNumbers, every: RowNumbers | None = None) -> Self:
        return self._changed(rows=rows, every_row=self.every_row if every is None else every)

    def after(self, earlier: Sides | None) -> Self:
        """Return the pairs from which a model gets new features. earlier : the sides of the run that has trained it."""
        return self._changed(earlier=earlier)

    def weighing(self, unseen_weight: float) -> Self:
        """Return the pairs with another weight of all pairs."""
        return self._changed(terms=replace(self.terms, unseen_weight=unseen_weight))

    def _changed(self, **changes: Any) -> Self:
        kept = {name: getattr(self, name) for name in ("rows", "of_items", "terms", "every_row", "earlier")}
        return type(self)(self.data, **{**kept, **changes})

    @cached_property
    def sides(self) -> Sides:
        """The contexts and items of the training rows, after the earlier run's."""
        found = Sides.of(self.data, self.rows, self.of_items)
        return found if self.earlier is None else found.after(self.earlier)

    def seen(self) -> Seen:
        """Return the pairs, also the earlier run's."""
        each = [side for side in (self.earlier, self.sides) if side is not None]
        context, item = (np.concatenate([getattr(side, of) for side in each]) for of in ("context", "item"))
        return Seen.of(context, item, self.sides.contexts.rows)

    @property
    def whole_weight(self) -> float:
        """The weight that the objective is relative to."""
        return 1.0 if self.earlier else self.total_weight

    def shares(self) -> NDArray[np.float64]:
        """Return (rows) the share of each training row in the objective."""
        weight = self.labels.weight
        return (np.ones(self.count) if weight is None else weight) / self.whole_weight

    @property
    def strength(self) -> float:
        """The share of each pair of all in the objective."""
        return self.terms.unseen_weight / self.whole_weight

    def l2_scales(self) -> tuple[NDArray[np.float64], float]:
        """Return (features) what the l2 penalty of each feature's parameters is multiplied by, and of parameters that
        belong to every pair; relative to the mean over the rows.

        A feature has as many pairs as rows have it, and `unseen_weight` for each pair of all with it.
        """
        contexts, items = self.sides.contexts, self.sides.items
        of_contexts, of_items = self.sides.known or (contexts.rows, items.rows)
        every = (
            np.bincount(part.index, minlength=self.data.features) * others
            for part, others in ((contexts, of_items), (items, of_contexts))
        )
        pairs = self.data.counts(self.rows) + self.terms.unseen_weight * sum(every)
        of_all = self.count + self.terms.unseen_weight * contexts.rows * items.rows
        # The objective has half the squared errors, and the contract has the whole of them.
        half, power = 2 * self.whole_weight, self.terms.l2_power
        return pairs**power / half, of_all**power / half


class DrawnPairs(ObservedRows):
    """Observed pairs, each of which an epoch visits `negatives` times, beside an item that its context has not
    observed, which is drawn anew. Pairs of contexts that have observed all items are not visited."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        sides, seen = self.sides, self.seen()
        begins, (context, item) = seen.begins, seen.pairs()
        self._left = sides.items.rows - np.diff(begins)  # the items that each context has not observed
        self._visited = np.flatnonzero(self._left[sides.context])
        if not len(self._visited):
            raise BadInputError("each user has observed all items, so no other item can be drawn beside them")
        # The numbers of observed pairs, increasing; and before each, how many items the context has not observed.
        self._seen = context * sides.items.rows + item
        self._unseen_before = self._seen - np.arange(len(item)) + begins[context]
        self._popularity = np.cumsum(np.bincount(sides.item, minlength=sides.items.rows))

    @property
    def sizes(self) -> list[int]:
        whole, rest = divmod(self.terms.negatives * len(self._visited), PAIRS_AT_ONCE)
        return [PAIRS_AT_ONCE] * whole + [rest] * (rest > 0)

    @property
    def count(self) -> int:
        return self.rows_here

    @property
    def visits(self) -> int:
        return sum(self.sizes)

    @property
    def total_weight(self) -> float:
        return self.terms.negatives * float(self.data.total_weight(self.rows[self._visited]))

    @property
    def longest(self) -> int:
        return int(self.sides.contexts.longest + self.sides.items.longest)

    @property
    def shard_bytes(self) -> int:
        pairs = self._seen, self._unseen_before, self._visited, self.sides.context, self.sides.item
        entries = 2 * PAIRS_AT_ONCE * self.longest
        return sum(array.nbytes for array in pairs) + ENTRY_BYTES * entries + self.data.nbytes

    def order(self, random: np.random.Generator | None) -> NDArray[np.int64]:
        """Return the places of the rows in the order of an epoch. random : shuffles them, or None."""
        order = np.tile(self._visited, self.terms.negatives)
        if random is not None:
            random.shuffle(order)
        return order

    def with_negatives(self, places: NDArray[np.int64], random: np.random.Generator) -> Dataset:
        """Return the rows at some places, with label 1, and as many rows with other items, with label 0."""
        sides, rows = self.sides, self.rows[places]
        context = sides.context[places]
        item = np.concatenate([sides.item[places], self._drawn(context, random)])
        both = united(sides.contexts, sides.items, np.tile(context, 2).astype(np.int32), item.astype(np.int32))
        weight = None if self.data.weight is None else np.tile(self.data.weight[rows], 2)
        return both.changed(label=np.repeat([1.0, 0.0], len(places)), weight=weight)

    def _drawn(self, context: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """Return an item for each context that it has not observed."""
        items = self.sides.items.rows
        rank = random.integers(self._left[context])
        before = np.searchsorted(self._unseen_before, context * items + rank, side="right")
        drawn = rank + before - np.searchsorted(self._seen, context * items)
        if not self.terms.by_popularity:
            return drawn
        open_to = np.arange(len(context))
        for _ in range(DRAWS):  # contexts that have observed nearly all popular items keep one of the first draw
            place = random.integers(self._popularity[-1], size=len(open_to))
            popular = np.searchsorted(self._popularity, place, side="right")
            number = context[open_to] * items + popular
            place = np.minimum(np.searchsorted(self._seen, number), len(self._seen) - 1)
            unseen = self._seen[place] != number
            drawn[open_to[unseen]] = popular[unseen]
            open_to = open_to[~unseen]
        return drawn
