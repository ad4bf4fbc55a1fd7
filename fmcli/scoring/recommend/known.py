"""The users and items that a model of observed pairs knows, and their pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.hashes import Hashes, equal_rows, hashes, spread
from fmcli.data.shards.observed_rows import Seen
from fmcli.errors import UsageError, called
from fmcli.scoring.lists import Popularity
from fmcli.scoring.recommend.named import NamedRows
from fmcli.scoring.scorer import Scorer

# The sides of pairs, and the options that give other ones.
USERS, ITEMS = "users", "items"
OPTIONS = {USERS: "given", ITEMS: "over"}

Numbers = NDArray[np.int64]


def known_rows(scorer: Scorer, side: str) -> NamedRows:
    """Return all users, or all items. The id of a row has the cells of its columns that are not joined, or is its first
    feature, if that is its own. Raises UsageError for a model of other rows."""
    if scorer.known is None:
        raise UsageError(
            f"{scorer.path} does not know its {side}, as models of {called('implicit')} do", **{OPTIONS[side]: None}
        )
    data: Dataset = {USERS: scorer.known.users, ITEMS: scorer.known.items}[side]
    source, table = f"the {side} of {scorer.path}", scorer.table
    names = [str(name).encode(errors="surrogateescape") for name in scorer.ids(data.index)]
    begins = data.indptr.tolist()
    rows = [names[begin:end] for begin, end in pairwise(begins)]
    if table is None:
        first = [row[0] for row in rows]
        ids = first if len(set(first)) == len(first) else [b",".join(row) for row in rows]
        return NamedRows(data, ids, first, None, {}, source, None)
    joined = {name for several in table.joins.values() for name in several}
    found = list(table.columns_of(name.decode(errors="surrogateescape") for name in names))
    cells = [
        sorted(
            (place, name.partition(b"=")[2] or name)
            for place, name in zip(found[begin:end], names[begin:end], strict=True)
            if place is not None and table.features[place] not in joined
        )
        for begin, end in pairwise(begins)
    ]
    columns = sorted({place for row in cells for place, _ in row})
    ids = [b",".join(cell for _, cell in row) for row in cells]
    present = frozenset(table.features[place] for place in found if place is not None)
    return NamedRows(data, ids, None, ",".join(table.features[place] for place in columns), {}, source, present)


def known_popularity(scorer: Scorer, items: Dataset) -> Popularity | None:
    """Return the popularity of some items in the pairs of training; None for a model of other rows."""
    known = scorer.known
    if known is None:
        return None
    counts = np.bincount(known.seen.items, minlength=known.items.rows)
    order, begin, size = equal_rows(own_hashes(scorer, known.items), own_hashes(scorer, items))
    item, place = spread(begin, size)
    return Popularity(np.bincount(item, counts[order[place]], items.rows).astype(np.int64), known.users.rows)


def known_seen(scorer: Scorer, contexts: Dataset, items: Dataset) -> Seen | None:
    """Return the pairs of training of some contexts and items, or of some items and users; None for a model of other
    rows."""
    known = scorer.known
    if known is None:
        return None
    sides = own_hashes(scorer, known.users), own_hashes(scorer, known.items)
    given, over = own_hashes(scorer, contexts), own_hashes(scorer, items)
    seen = known.seen
    if np.isin(given[given != 0], sides[1]).any():
        user, item = seen.pairs()
        seen, sides = Seen.of(item, user, known.items.rows), sides[::-1]
    return Seen.of(*pairs_of_equal(seen, sides, given, over), contexts.rows)


def own_hashes(scorer: Scorer, rows: Dataset) -> Hashes:
    """Return hashes of what identifies users or items: features that no joined table has, because a cell there may
    have changed since training; 0 for rows without such features."""
    table = scorer.table
    if table is None or not table.joins:
        return hashes(rows)
    joined = {name for several in table.joins.values() for name in several}
    own, columns = np.ones(scorer.model.features, dtype=np.bool_), np.unique(rows.index)
    places = table.columns_of(map(str, scorer.ids(columns)))
    own[columns] = [place is None or table.features[place] not in joined for place in places]
    return hashes(rows, own)


def pairs_of_equal(seen: Seen, sides: tuple[Hashes, Hashes], given: Hashes, over: Hashes) -> tuple[Numbers, Numbers]:
    """Return seen pairs as contexts and items with the hashes `given` and `over`. sides : the hashes of both sides of
    the seen pairs."""
    order, begin, size = equal_rows(sides[0], given)
    context, place = spread(begin, size)
    user = order[place]
    of_user, place = spread(seen.begins[user], np.diff(seen.begins)[user])
    item = seen.items[place]
    order, begin, size = equal_rows(over, sides[1])
    pair, place = spread(begin[item], size[item])
    return context[of_user][pair], order[place]
