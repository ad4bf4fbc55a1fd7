"""The users and items that a model of observed pairs knows, and their pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.hashes import hashes, places_in
from fmcli.data.shards.observed_rows import Seen
from fmcli.errors import UsageError, called
from fmcli.scoring.lists import Popularity
from fmcli.scoring.recommend.named import NamedRows
from fmcli.scoring.scorer import Scorer

# The sides of pairs, and the options that give other ones.
USERS, ITEMS = "users", "items"
OPTIONS = {USERS: "given", ITEMS: "over"}


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
    return NamedRows(data, ids, None, ",".join(table.features[place] for place in columns), {}, source, None)


def known_popularity(scorer: Scorer, items: Dataset) -> Popularity | None:
    """Return the popularity of some items in the pairs of training; None for a model of other rows."""
    known = scorer.known
    if known is None:
        return None
    place = places_in(hashes(known.items), hashes(items))
    counts = np.bincount(known.seen.items, minlength=known.items.rows)
    return Popularity(np.where(place >= 0, counts[place], 0), known.users.rows)


def known_seen(scorer: Scorer, contexts: Dataset, items: Dataset) -> Seen | None:
    """Return the pairs of training of some contexts and items, which are found by their features; None for a model of
    other rows."""
    known = scorer.known
    if known is None:
        return None
    sides = (known.users, contexts), (known.items, items)
    user, item = (places_in(hashes(theirs), hashes(mine)) for theirs, mine in sides)
    row_of: NDArray[np.int64] = np.full(known.items.rows, -1, dtype=np.int64)
    row_of[item[item >= 0]] = np.flatnonzero(item >= 0)
    begins, seen = known.seen
    sizes = np.where(user >= 0, np.diff(begins)[user], 0)
    context = np.repeat(np.arange(contexts.rows), sizes)
    within = np.arange(len(context)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = row_of[seen[np.repeat(begins[user], sizes) + within]]
    return Seen.of(context[found >= 0], found[found >= 0], contexts.rows)
