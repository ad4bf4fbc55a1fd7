"""Rows that are observed pairs of a context, such as a user, and an item: a form of rows in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.entries import rows_of_entries
from fmcli.data.labels import Labels
from fmcli.data.shards.observed_rows import AllPairsTerms, DrawnPairs, ObservedRows, Sides
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.tables.schema import CATEGORY
from fmcli.data.transform import Transform
from fmcli.errors import BadInputError
from fmcli.records import dataclass
from fmcli.registry.row_choices import BY_POPULARITY
from fmcli.registry.specs import Spec
from fmcli.registry.streams import HOLDOUT_STREAM, generator
from fmcli.text import MARKER_SPELLINGS, counted, escaped, listed
from fmcli.training.setup.ages import UNKNOWN, Ages
from fmcli.training.setup.chosen import draws_negatives
from fmcli.training.setup.named_columns import fields_of_sides
from fmcli.training.setup.rows import DividedInMemory, RowsInMemory
from fmcli.training.setup.settings import HoldOut

if TYPE_CHECKING:
    from fmcli.data.tables.schema import Schema
    from fmcli.registry.choices import Choices
    from fmcli.training.setup.warm_start import WarmStart

# The fields of entries of contexts and of items.
OF_CONTEXT, OF_ITEM = 0, 1
# The weight of each pair of all, before held-out pairs choose another one.
UNSEEN_WEIGHT = 0.1
# About this many pairs tell whether they are in the order of items.
MOST_COMPARED = 1 << 17
# At most this many contexts have a held-out pair, by default.
MOST_HELD_OUT = 10_000


@dataclass(frozen=True, kw_only=True)
class PairsInMemory(RowsInMemory):
    """Observed pairs in memory, each once, whose entries have the fields OF_CONTEXT and OF_ITEM.

    terms : what all pairs add to the objective.
    in_order : whether the pairs of a context are in the order of time.
    """

    terms: AllPairsTerms
    in_order: bool = True

    def hold_out(self, spec: Spec, labels: Labels, hold_out: HoldOut) -> DividedPairs:
        every = np.arange(self.data.rows, dtype=np.int32)
        chosen = np.zeros(len(every), dtype=np.bool_)
        if hold_out.share != 0:
            chosen[self._held(spec, hold_out)] = True
        return DividedPairs(self.data, self.every, every[~chosen], every[chosen], pairs=self)

    def _held(self, spec: Spec, hold_out: HoldOut) -> NDArray[np.intp]:
        """Return one pair of each of some contexts with several pairs: the last pair, or, without an order or with a
        share of the contexts, a random pair unless it is the last one that is asked for."""
        random, context = generator(spec, HOLDOUT_STREAM), self.sides.context
        place = np.arange(len(context))
        last_one = hold_out.last or hold_out.times or (hold_out.share is None and self.in_order)
        order = place if last_one else random.permutation(place)
        counts = np.bincount(context)
        last = np.empty(len(counts), dtype=np.intp)
        last[context[order]] = order
        several = random.permutation(np.flatnonzero(counts > 1))
        most = MOST_HELD_OUT if hold_out.share is None else round(hold_out.share * len(several))
        held: NDArray[np.intp] = last[several[:most]]
        return held

    @property
    def sides(self) -> Sides:
        """The contexts and items of all pairs."""
        return Sides.of(self.data, np.arange(self.data.rows, dtype=np.int32), of_items(self.data))


@dataclass(frozen=True, kw_only=True)
class DividedPairs(DividedInMemory):
    """Observed pairs in memory, divided."""

    pairs: PairsInMemory

    def training(self, transform: Transform, threads: int, *, grouped: bool) -> TrainingRows:
        form = DrawnPairs if self.pairs.terms.negatives else ObservedRows
        return form(transform.training(self.data), self.rows, of_items(self.data), self.pairs.terms, self.every)


def of_items(data: Dataset) -> NDArray[np.bool_]:
    """Return (features) whether each feature belongs to an item."""
    flags = np.zeros(data.features, dtype=np.bool_)
    flags[data.index[data.field == OF_ITEM]] = True
    return flags


def observed(
    data: Dataset, source: str, terms: AllPairsTerms, table: Schema | None, ages: Ages = UNKNOWN
) -> PairsInMemory:
    """Return the pairs of rows, each once, at the place of its last row: in time, or without times in order.

    source : the name of the rows, for messages.
    terms : of PairsInMemory.
    table : their columns; None: they are text.
    ages : the times of rows, and the decay of labels.

    Raises BadInputError without rows, for a row without a context or without an item, for a feature of both, for
    counts, and without the column of counts.
    """
    if not data.rows:
        raise BadInputError(f"{source}: there are no rows to train on")
    if data.field is None:
        raise BadInputError(f"{source}: its features have no fields, which tell users and items; write ffm text")
    users, items, counted = [*terms.users], [*terms.items], terms.counted
    side = np.where(np.isin(data.field, items), OF_ITEM, np.where(np.isin(data.field, users), OF_CONTEXT, -1))
    of_row = rows_of_entries(data)
    for number, name in enumerate(("user", "item")):
        lacking = np.bincount(of_row[side == number], minlength=data.rows) == 0
        if lacking.any():
            raise BadInputError(f"{source}: row {int(lacking.argmax()) + 1} has no {name}; each row needs both")
    both = np.intersect1d(data.index[side == OF_CONTEXT], data.index[side == OF_ITEM])
    if len(both):
        raise BadInputError(f"{source}: a feature is one of users and one of items, such as column {both[0]}")
    if data.label is None and table is not None and table.label is not None:
        raise BadInputError(f"{source}: no column {table.label!r}, which gives the pairs of the model their weights")
    count = np.ones(data.rows) if data.label is None else np.asarray(data.label, np.float64)
    valid = np.isfinite(count) & ((count >= 1) if counted else (count > 0))
    if not valid.all():
        row, what = int(valid.argmin()), "count" if counted else "weight"
        least, number = "at least 1" if counted else "positive", count[row]
        has = f"no {what}" if np.isnan(number) else f"the {what} {number:.6g}"
        raise BadInputError(f"{source}: row {row + 1} has {has}; leave out rows whose {what} is not {least}")
    kept = side >= 0
    indptr = np.concatenate([[0], np.cumsum(np.bincount(of_row[kept], minlength=data.rows))])
    pairs = Dataset(
        indptr.astype(np.int64),
        data.index[kept],
        None if data.value is None else data.value[kept],
        np.ones(data.rows),
        data.features,
        side[kept].astype(np.int32),
        numbering=data.numbering,
    )
    sides = PairsInMemory(pairs, terms=terms).sides
    code: NDArray[np.int64] = sides.context * int(sides.items.rows) + sides.item
    by_time = np.arange(data.rows) if ages.times is None else np.argsort(ages.times, kind="stable")
    _, last, place = np.unique(code[by_time[::-1]], return_index=True, return_inverse=True)
    last = data.rows - 1 - last
    count = count if ages.weight is None else count * ages.weight
    total, order = np.bincount(place, count[by_time[::-1]]), np.argsort(last)
    weight = np.where(total < 1, total, 1 + np.log(total)) if counted else total
    rows: RowNumbers = by_time[last[order]].astype(np.int32)
    each = pairs.take(rows).changed(weight=np.ascontiguousarray(weight[order]))
    in_order = ages.times is not None or not are_in_order_of_items(sides.context[rows], sides.item[rows])
    return PairsInMemory(each, own=True, terms=terms, in_order=in_order)


def are_in_order_of_items(context: NDArray[np.int64], item: NDArray[np.int64]) -> bool:
    """Return whether the pairs of contexts are in one order of the items, such as that of their ids, which then is no
    order of time: no items follow each other in a circle, in the pairs of the first contexts. context, item : (pairs)
    numbers."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first = context <= np.searchsorted(np.cumsum(np.bincount(context)), MOST_COMPARED)
    context, item = context[first], item[first]
    place = np.argsort(context, kind="stable")
    same = context[place[1:]] == context[place[:-1]]
    before, after = item[place[:-1]][same], item[place[1:]][same]
    items = int(item.max()) + 1
    follows = coo_array((np.ones(len(before), dtype=np.int8), (before, after)), shape=(items, items))
    return bool(connected_components(follows, connection="strong", return_labels=False) == items)


def terms_of(choices: Choices, table: Schema | None, warm_start: WarmStart | None) -> AllPairsTerms:
    """Return what the rows of a run are, and what pairs that are not observed add to its objective: as the run of the
    warm start had it, if it has one. table : the columns of the rows. Raises UsageError."""
    if warm_start is not None and warm_start.known is not None:
        return warm_start.known.terms
    given = choices.unseen_weight is not None
    weight, power = choices.unseen_weight if given else UNSEEN_WEIGHT, choices.l2_power
    negatives = choices.negatives if draws_negatives(choices) else 0
    by_popularity, counted = choices.negatives_by == BY_POPULARITY, not choices.weight_column
    return AllPairsTerms(
        weight, power, given, negatives, by_popularity, *fields_of_sides(choices, table), counted=counted
    )


def doubt_about_ids(rows: PairsInMemory, table: Schema | None) -> str | None:
    """Return a warning about users and items of a table whose ids usually mark missing ones, such as NULL; None if
    there are none."""
    numbering = rows.data.numbering
    if table is None or not isinstance(numbering, Dictionary):
        return None
    joined = {name for names in table.joins.values() for name in names}
    found = []
    for column in (name for name, kind in table.kinds.items() if kind == CATEGORY and name not in joined):
        for word in MARKER_SPELLINGS:
            feature = numbering.ids.find(escaped(f"{column}={word}").encode())
            if feature >= 0:
                pairs = int(np.count_nonzero(rows.data.index == feature))
                found.append(f"the {column} {word!r} has {counted(pairs, 'pair')}")
    return f"{listed(found)}: if these ids are missing, leave their rows out" if found else None


def pairs_in_words(rows: PairsInMemory, *, divided: bool) -> str:
    """Describe observed pairs; if they are `divided`, some are held out."""
    sides = rows.sides
    every = sides.contexts.rows * sides.items.rows
    order = "; each user's are in one order of items, so held-out pairs are random, not last"
    return (
        f"{rows.count:,} different pairs of {sides.contexts.rows:,} users and {sides.items.rows:,} items, "
        f"{100 * rows.count / every:.3g} % of all{order if divided and not rows.in_order else ''}"
    )
