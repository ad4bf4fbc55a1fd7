"""Metrics of rankings of all items, for the users of labeled rows."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, FeatureIds
from fmcli.data.hashes import hashes, places_in
from fmcli.data.labels import Relevance
from fmcli.data.shards.observed_rows import Seen
from fmcli.data.tables.reading import TableSource, head_of_table
from fmcli.data.text.chunks import Columns, score_chunks
from fmcli.data.text.formats import RowGroups, Stream
from fmcli.data.text.pieces import TextRows, add_ids, concatenated
from fmcli.data.text.sources import name_of
from fmcli.errors import BadInputError, UsageError
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.scoring.evaluation import require_known
from fmcli.scoring.lists import Lists, Popularity, list_metric
from fmcli.scoring.metrics import metric_of
from fmcli.scoring.prediction import Counts
from fmcli.scoring.ranking import OfGroups, Others, RankedRows
from fmcli.scoring.recommend.factor_scores import PairScores, pair_scores
from fmcli.scoring.recommend.known import known_popularity, known_seen
from fmcli.scoring.recommend.recommender import Recommender
from fmcli.scoring.scorer import Scorer
from fmcli.system.parallel import in_turn

# The number of pairs whose fast scores are compared at a time.
FAST_PAIRS = 1 << 20
# The score of items that rank last.
LEAST = np.finfo(np.float32).min

Numbers = NDArray[np.int64]


class RankingInputs(NamedTuple):
    """The inputs of an evaluation over all items.

    rows : labeled rows; each has a user and an item.
    items : the rows of all items.
    seen : rows whose pairs are left out, except rows with the negative one of two labels. They may lack labels, and
        tables may lack columns.
    user : the column whose features identify the user of a row; None: all other features than an item's, or the group.
    """

    rows: Sequence[str]
    items: Sequence[str]
    seen: Sequence[str]
    user: str | None = None


@dataclass(frozen=True)
class Rankings:
    """Figures of the rankings of some users.

    figures : the metrics by name.
    users : the number of users.
    without : the number of users without a relevant item, who are left out.
    items : the number of items.
    unknown : how many of them rank last, because the model knows none of their features.
    seen : the number of pairs that were left out.
    unmatched : the inputs of seen rows that contain no known pair of a user and an item.
    reason : with the scores of a model, why all pairs were scored one by one; empty: they were not.
    """

    figures: dict[str, float]
    users: int
    without: int
    items: int
    unknown: int
    seen: int
    unmatched: Sequence[str]
    reason: str = ""


class SeenRows(NamedTuple):
    """The rows of an input of seen pairs.

    path : the input.
    rows : its rows, with the columns of all inputs.
    lacks : the columns with features that its table lacks.
    """

    path: str
    rows: Dataset
    lacks: frozenset[str]


class ReadRows:
    """Rows with the columns of all inputs, including features that the model does not know.

    labeled, items : the rows.
    seen : the rows of each input of seen pairs, without negatives.
    """

    def __init__(
        self,
        scorer: Scorer,
        inputs: RankingInputs,
        *,
        format: str,
        row_groups: RowGroups | None,
        threads: int,
        counts: Counts,
    ) -> None:
        self.scorer, self.format, self.threads = scorer, format, threads
        self.ids = FeatureIds()
        of_pairs = scorer.known is not None  # rows are observed pairs, which have no labels
        row_groups = None if inputs.user is not None or of_pairs else row_groups
        labeled = self._read(inputs.rows, row_groups=row_groups, labeled=not of_pairs)
        if of_pairs:
            labeled = labeled.changed(label=np.ones(labeled.rows))
        counts.rows, counts.nonzeros = labeled.rows, labeled.nnz
        seen = [self._seen(path, row_groups, labeled) for path in inputs.seen]
        items = self._read(inputs.items, row_groups=None, labeled=False)
        columns = None if scorer.transform.hash_bits else self.ids.sorted(np.ones(len(self.ids), dtype=np.bool_))
        self.labeled, self.items = self._ordered(labeled, columns), self._ordered(items, columns)
        self.seen = [one._replace(rows=self._ordered(one.rows, columns)) for one in seen]
        self._dictionary = None if columns is None else columns[0]

    def _seen(self, path: str, row_groups: RowGroups | None, labeled: Dataset) -> SeenRows:
        """Return the rows of an input of seen pairs. Raises BadInputError."""
        grouped = labeled.group is not None
        if (
            grouped
            and isinstance(path, TableSource)
            and path.schema.label not in head_of_table(path, path.schema).names
        ):
            raise BadInputError(
                f"{name_of(path)}: its rows need the column {path.schema.label!r}, because groups tell their users, "
                "not a column of features"
            )
        rows = self._read([path], row_groups=row_groups if grouped else None, labeled=grouped)
        if grouped and rows.group is None:
            raise BadInputError(
                f"{name_of(path)}: its rows have no groups, which tell the user of the rows to evaluate"
            )
        labels, lacks = self.scorer.labels, frozenset[str]()
        seen = labels.seen(rows.label, rows.rows)
        if isinstance(path, TableSource) and path.present is not None:
            lacks = frozenset(path.schema.features) - path.present
        return SeenRows(path, rows.take(np.flatnonzero(seen).astype(np.int32)), lacks)

    def features_of(self, columns: Container[str]) -> NDArray[np.bool_]:
        """Return (features) whether each feature is in one of these columns of the tables."""
        table = self.scorer.table
        if not columns or table is None:
            return np.zeros(self.labeled.features, dtype=np.bool_)
        if self._dictionary is None:
            raise UsageError(
                f"{self.scorer.path} knows hashes of features, and not their columns, and rows lack some columns"
            )
        names = map(str, self._dictionary.written(range(self.labeled.features)))
        wanted = {number for number, name in enumerate(table.features) if name in columns}
        return np.array([place in wanted for place in table.columns_of(names)], dtype=np.bool_)

    def _ordered(self, rows: Dataset, columns: tuple[Dictionary, NDArray[np.int32]] | None) -> Dataset:
        return rows if columns is None else rows.ordered(*columns, self.threads)

    def _read(self, paths: Sequence[str], *, row_groups: RowGroups | None, labeled: bool) -> Dataset:
        scorer, bits = self.scorer, self.scorer.transform.hash_bits
        pieces = []
        for chunk in score_chunks(
            paths,
            lambda piece: (piece.data, piece.ids),
            Columns(scorer.dimension, hash_bits=bits) if bits else Columns(growing=True),
            format=self.format,
            keep_fields=scorer.needs_fields,
            threads=self.threads,
            labeled=labeled,
            model=scorer.path,
            stream=Stream(row_groups=row_groups),
            check=partial(require_known, scorer.labels) if labeled else None,
            labels=scorer.labels.names,
        ):
            data, ids = chunk.result
            data = data if bits else add_ids(self.ids, TextRows(data, ids))
            if data.label is None:
                data = data.changed(label=np.full(data.rows, np.nan))
            pieces.append(data)
        return concatenated(pieces)


class UserItemPairs(NamedTuple):
    """Users and items.

    contexts : a row per user, with the columns of the model.
    items : all items, with the columns of the model.
    user, item, label : (pairs) the labeled pairs, each once.
    seen : the pairs that are left out.
    last : bool (items), which items rank last, because the model knows none of their features. `recommend` leaves these
        out, but a relevant one among them is a miss.
    popularity : of the items in the seen pairs of all users; None: no pairs were seen.
    unmatched : as in Rankings.
    """

    contexts: Dataset
    items: Dataset
    user: Numbers
    item: Numbers
    label: Floats
    seen: Seen
    last: NDArray[np.bool_]
    popularity: Popularity | None = None
    unmatched: Sequence[str] = ()

    def left_out(self) -> Seen:
        """Return the seen pairs that are not labeled."""
        user, item = self.seen.pairs()
        labeled = np.isin(user * self.items.rows + item, self.user * self.items.rows + self.item)
        return Seen.of(user[~labeled], item[~labeled], self.contexts.rows)


def pairs_of(read: ReadRows, inputs: RankingInputs) -> UserItemPairs:
    """Split rows into users and items. The item is the one with the row's item features; the user is the rest of the
    row, or the group. Raises BadInputError for a row without an item, and for equal items."""
    of_items = read.items.seen()
    known = hashes(read.items, of_items)
    if len(np.unique(known)) < len(known):
        raise BadInputError(
            f"{name_of(inputs.items[0])}: two rows have the same features; each item needs a row of its own"
        )
    item = places_in(known, hashes(read.labeled, of_items))
    if (item < 0).any():
        raise BadInputError(
            f"{name_of(inputs.rows[0])}: row {int((item < 0).argmax()) + 1} has no item: it needs exactly "
            f"the features of one row of {name_of(inputs.items[0])}, which has a row for each item and only its columns"
        )

    of_users = ~of_items if inputs.user is None else read.features_of((inputs.user,))

    def users(data: Dataset, kept: NDArray[np.bool_]) -> NDArray[np.generic]:
        return hashes(data, of_users & kept) if data.group is None else data.group

    _, first, user = np.unique(users(read.labeled, np.ones_like(of_items)), return_index=True, return_inverse=True)
    each_user, unmatched = read.labeled.take(first.astype(np.int32)), []
    seen, of_all = [np.empty((2, 0), dtype=np.int64)], []
    for one in read.seen:
        kept = ~read.features_of(one.lacks)
        sides = []
        for side, others, needed in (
            (users(each_user, kept), users(one.rows, kept), name_of(inputs.rows[0])),
            (hashes(read.items, of_items & kept), hashes(one.rows, of_items & kept), name_of(inputs.items[0])),
        ):
            if len(np.unique(side)) < len(side):
                lacking = ", ".join(sorted(one.lacks))
                raise BadInputError(
                    f"{name_of(one.path)}: its rows do not tell which ones of {needed} they belong to, "
                    f"without the columns {lacking}"
                )
            sides.append(places_in(side, others))
        pairs = np.stack(sides)
        seen.append(pairs[:, (pairs >= 0).all(axis=0)])
        unmatched += [] if seen[-1].size else [name_of(one.path)]
        of_all.append(np.stack([users(one.rows, kept).astype(np.uint64), pairs[1].astype(np.uint64)]))
    scorer = read.scorer
    label = scorer.labels.encode(read.labeled.label)
    # If a pair has several labels, the largest counts.
    order = np.lexsort((-label, item, user))
    user, item, label = user[order], item[order], label[order]
    once = np.concatenate(([True], (np.diff(user) != 0) | (np.diff(item) != 0)))
    contexts, items = map(scorer.transform.in_columns, (each_user.only(~of_items), read.items))
    labeled = contexts, items, user[once], item[once], label[once]
    last = (np.diff(items.indptr) == 0) & (scorer.known is not None)
    if not of_all and (known_pairs := known_seen(scorer, contexts, items)) is not None:
        return UserItemPairs(*labeled, known_pairs, last, known_popularity(scorer, items))
    seen_users, seen_items = np.concatenate(seen, axis=1)
    left_out = Seen.of(seen_users, seen_items, contexts.rows)
    popularity = popularity_of(np.concatenate(of_all, axis=1), items.rows) if of_all else None
    return UserItemPairs(*labeled, left_out, last, popularity, unmatched)


def popularity_of(pairs: NDArray[np.uint64], items: int) -> Popularity:
    """Return the popularity of items in (2, pairs) of users and items, which may repeat, or have an unknown item."""
    different = np.unique(pairs, axis=1)
    known = different[1] < items
    return Popularity(np.bincount(different[1, known].astype(np.int64), minlength=items), len(np.unique(pairs[0])))


class Near(NamedTuple):
    """The pairs of contexts and items whose exact scores determine the ranks of all labeled pairs.

    context, item : (pairs), in order.
    score : (pairs), the scores that rank them.
    ahead : (pairs) the number of the context's other pairs with a larger score.
    """

    context: Numbers
    item: Numbers
    score: Floats
    ahead: Numbers


def above_single(
    fast: NDArray[np.float32],
    labeled: NDArray[np.bool_],
    exact: NDArray[np.bool_],
    others: NDArray[np.bool_],
    margins: Floats,
) -> Numbers:
    """Return (contexts) what `above_each` returns as the first number, of contexts with one labeled pair each."""
    mine = fast[labeled].astype(np.float64)
    least, most = (bound.astype(np.float32)[:, None] for bound in (mine - margins, mine + margins))
    over = others & (fast >= least)
    exact |= over & (fast <= most)
    return np.asarray(np.count_nonzero(over & ~exact, axis=1))


def above_each(
    fast: NDArray[np.float32],
    labeled: NDArray[np.bool_],
    exact: NDArray[np.bool_],
    others: NDArray[np.bool_],
    margins: Floats,
) -> list[Numbers]:
    """Return for each context the number of other pairs above each of its labeled pairs, from the lowest labeled pair
    on; mark the pairs as `exact` that are within a margin of a labeled pair."""
    above: list[Numbers] = []
    for row, of_user, chosen, wanted, margin in zip(fast, labeled, exact, others, margins, strict=True):
        of_mine = np.sort(row[of_user]).astype(np.float64)
        # Keep a pair if the error can change the number of labeled pairs below it.
        below = np.searchsorted((of_mine - margin).astype(np.float32), row, side="right")
        chosen |= wanted & (below > np.searchsorted((of_mine + margin).astype(np.float32), row))
        beyond = np.bincount(below[wanted & ~chosen], minlength=len(of_mine) + 1)
        above.append(np.append(np.cumsum(beyond[:0:-1])[::-1], 0))
    return above


def near(
    scores: PairScores,
    contexts: Dataset,
    labeled: NDArray[np.bool_],
    others: NDArray[np.bool_],
    last: NDArray[np.bool_],
) -> Near:
    """Return the labeled pairs (contexts, items), and the other pairs whose fast score is within the error bound of a
    labeled pair's score. last : (items) whether an item ranks last, whatever its scores."""
    fast, error = np.empty(labeled.shape, dtype=np.float32), np.zeros(contexts.rows)
    for first, some, bound in scores.each(contexts):
        fast[:, first : first + some.shape[1]] = some
        np.maximum(error, bound, out=error)
    fast[:, last] = LEAST
    known = np.isfinite(fast).all(axis=1) & np.isfinite(error)
    exact = labeled | (others & ~known[:, None])
    single = bool((labeled.sum(axis=1) == 1).all())  # as where the last pair of each user is held out
    above: Sequence[Numbers] | Numbers = (above_single if single else above_each)(
        fast, labeled, exact, others, 2 * error
    )
    context, item = np.divmod(np.flatnonzero(exact), exact.shape[1])  # faster than np.nonzero
    score = np.where(last[item], LEAST, scores.exact(contexts, context.astype(np.int32), item.astype(np.int32)))
    if single:
        below = score <= score[labeled[exact]][context]
        return Near(context, item, score, np.where(below, np.array(above)[context], 0))
    ahead = np.empty(len(score), dtype=np.int64)
    cuts = np.searchsorted(context, np.arange(1, contexts.rows))
    places, is_labeled = np.split(np.arange(len(score)), cuts), np.split(labeled[exact], cuts)
    for place, known_label, counts in zip(places, is_labeled, above, strict=True):
        ahead[place] = counts[np.searchsorted(np.sort(score[place][known_label]), score[place])]
    return Near(context, item, score, ahead)


def rankings(
    scorer: Scorer,
    names: Sequence[str],
    inputs: RankingInputs,
    *,
    relevance: Relevance,
    format: str,
    row_groups: RowGroups | None,
    threads: int,
    counts: Counts,
) -> Rankings:
    """Return group metrics; a group is a user with all items. Labeled rows give items their labels; other items are
    not relevant. Seen pairs are left out, unless they are labeled.

    relevance : which labeled items are relevant.

    Raises BadInputError, MissingInputError, NotEnoughMemoryError and UsageError.
    """
    if scorer.model.outputs > 1:
        raise UsageError(f"{scorer.path} has scores of several classes, and no single one to rank items by")
    if scorer.transform.norm_of_all:
        raise UsageError(f"{scorer.path} divides a row by its length with unseen features, which pairs do not have")
    read = ReadRows(scorer, inputs, format=format, row_groups=row_groups, threads=threads, counts=counts)
    pairs = pairs_of(read, inputs)
    of_lists = list_figures(names, pairs, scorer, threads)
    of_groups = [name for name in names if name not in of_lists]
    scores, reason = pair_scores(scorer, pairs.items)
    found = ranked(of_groups, pairs, scores, relevance=relevance, threads=threads)
    figures = found.figures | of_lists
    return replace(found, figures={name: figures[name] for name in names}, reason=reason)


def list_figures(names: Sequence[str], pairs: UserItemPairs, scorer: Scorer, threads: int) -> dict[str, float]:
    """Return the metrics of lists among some metrics: of the items that `recommend` has for each user, without seen
    pairs that are not labeled. Raises UsageError without the pairs that tell how popular items are."""
    wanted = {name: found for name in names if (found := list_metric(name)) is not None}
    if not wanted:
        return {}
    if lacking := [name for name, (metric, _) in wanted.items() if metric.of_popularity and pairs.popularity is None]:
        raise UsageError(f"metric {lacking[0]} needs pairs that tell how popular items are", seen="FILE")
    recommender = Recommender(scorer, pairs.items, max(places for _, places in wanted.values()))
    items, _ = recommender.table(pairs.contexts, pairs.left_out(), threads)
    user, place = np.nonzero(items >= 0)
    lists = Lists(user, items[user, place], place, pairs.items.rows, pairs.popularity)
    return {name: metric.of(lists.first(places)) for name, (metric, places) in wanted.items()}


def ranked(
    names: Sequence[str], pairs: UserItemPairs, scores: PairScores, *, relevance: Relevance, threads: int
) -> Rankings:
    """Return group metrics of labeled pairs by these scores, as `rankings` does."""
    users, items = pairs.contexts.rows, pairs.items.rows
    begins = np.searchsorted(pairs.user, np.arange(users + 1))
    metrics = [metric_of(name) for name in names]
    step = max(1, FAST_PAIRS // items)

    def work(start: int) -> tuple[list[OfGroups], int, int]:
        stop = min(start + step, users)
        count = stop - start
        contexts = pairs.contexts.take(np.arange(start, stop, dtype=np.int32))
        labeled, known = np.zeros((2, count, items), dtype=np.bool_)
        known[pairs.seen.of_contexts(start, stop).pairs()] = True
        mine = slice(begins[start], begins[stop])
        labeled[pairs.user[mine] - start, pairs.item[mine]] = True
        rest = ~(known | labeled)
        found = near(scores, contexts, labeled, rest, pairs.last)
        label, is_labeled = np.full(len(found.score), -np.inf), labeled[found.context, found.item]
        label[is_labeled] = pairs.label[mine]
        beside = np.bincount(found.context[~is_labeled], minlength=count)
        others = Others(rest.sum(axis=1) - beside, found.ahead)
        ranked = RankedRows(label, found.score, found.context, relevance, others)
        figures = [metric.of_groups(ranked) for metric in metrics if metric.of_groups is not None]
        return figures, ranked.without_relevant, int((known & ~labeled).sum())

    blocks: Iterator[tuple[list[OfGroups], int, int]] = in_turn(work, range(0, users, step), threads)
    found, without, left_out = zip(*blocks, strict=True)
    each = (OfGroups.concatenated(several) for several in zip(*found, strict=True))
    figures = {name: of_users.mean() for name, of_users in zip(names, each, strict=True)}
    return Rankings(figures, users, sum(without), items, int(pairs.last.sum()), sum(left_out), pairs.unmatched)
