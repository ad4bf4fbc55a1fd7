"""Items that are drawn beside observed pairs: which ones, how often, and how the rows look."""

import numpy as np
import pytest
from problems import dataset
from scipy.stats import chisquare

from fmcli.data.shards.observed_rows import PAIRS_AT_ONCE, AllPairsTerms, DrawnPairs
from fmcli.errors import BadInputError

# Items 0 .. 4 of users 0 .. 3; the third user has observed all items, the last one all but one.
SEEN = {0: [0], 1: [0, 3], 2: [0, 1, 2, 3, 4], 3: [0, 1, 3, 4]}
PAIRS = [(user, item) for user, items in SEEN.items() for item in items]
ITEMS, USERS, DRAWN = 5, 4, 4000


def drawn_pairs(negatives=1, *, by_popularity=False, pairs=PAIRS, rows=None):
    """Observed pairs: an item has a feature of its own, and one of its value with others; a weight is 1 + user."""
    samples = [{user: 1.0, USERS + item: 1.0, USERS + ITEMS: 0.5 + item} for user, item in pairs]
    data = dataset(samples, USERS + ITEMS + 1, np.ones(len(pairs)), np.array([1.0 + user for user, _ in pairs]))
    terms = AllPairsTerms(0.1, negatives=negatives, by_popularity=by_popularity)
    every = np.arange(len(pairs), dtype=np.int32) if rows is None else rows
    return DrawnPairs(data, every, np.arange(USERS + ITEMS + 1) >= USERS, terms)


def parts(data):
    """The user and the item of each row."""
    rows = [data.index[begin:end] for begin, end in zip(data.indptr, data.indptr[1:], strict=False)]
    return [(int(row[0]), int(row[1]) - USERS) for row in rows]


@pytest.mark.parametrize("by_popularity", [False, True])
def test_unseen_items_are_drawn(by_popularity):
    source = drawn_pairs(2, by_popularity=by_popularity)
    visited = [at for at, (user, _) in enumerate(PAIRS) if user != 2]
    order = source.order(None)
    assert order.tolist() == 2 * visited
    assert sorted(source.order(np.random.default_rng(1))) == sorted(order)
    assert source.sizes == [2 * len(visited)]
    assert source.total_weight == 2 * sum(1.0 + PAIRS[at][0] for at in visited)
    random = np.random.default_rng(3)
    found = {user: np.zeros(ITEMS) for user in SEEN}
    for _ in range(DRAWN // len(order)):
        data = source.with_negatives(order, random)
        both, pairs = parts(data), len(order)
        assert both[:pairs] == [PAIRS[at] for at in order]
        assert [user for user, _ in both[pairs:]] == [PAIRS[at][0] for at in order]
        for user, item in both[pairs:]:
            found[user][item] += 1
    assert data.label.tolist() == [1.0] * pairs + [0.0] * pairs
    assert data.weight.tolist() == 2 * [1.0 + PAIRS[at][0] for at in order]
    assert data.value[data.indptr[1:] - 1].tolist() == [0.5 + item for _, item in both]  # with all features
    popularity = np.bincount([item for _, item in PAIRS], minlength=ITEMS) if by_popularity else np.ones(ITEMS)
    for user, counts in found.items():
        unseen = np.setdiff1d(np.arange(ITEMS), SEEN[user])
        assert set(np.flatnonzero(counts)) == set(unseen if user != 2 else [])
        if len(unseen) > 1:
            share = popularity[unseen] / popularity[unseen].sum()
            assert chisquare(counts[unseen], share * counts.sum()).pvalue > 1e-4


def test_held_out_pairs_are_not_seen():
    source = drawn_pairs(rows=np.array([0, 1, 3, 4, 5, 6, 7], dtype=np.int32))
    assert source.order(None).tolist() == [0, 1]  # without the pair of user 1 and item 3, and the pairs of user 3
    drawn = {parts(source.with_negatives(source.order(None), np.random.default_rng(seed)))[3] for seed in range(50)}
    assert drawn == {(1, item) for item in (1, 2, 3, 4)}


def test_many_pairs_are_in_memory_a_part_at_a_time():
    source = drawn_pairs(20_000)
    assert source.sizes == [PAIRS_AT_ONCE, PAIRS_AT_ONCE, 20_000 * 7 - 2 * PAIRS_AT_ONCE]
    assert source.visits == 20_000 * 7
    assert source.only(np.array([0, 1, 2], dtype=np.int32)).count == 3


def test_users_of_all_items_have_nothing_to_compare():
    with pytest.raises(BadInputError, match="no other item can be drawn"):
        drawn_pairs(pairs=[(0, 0), (0, 1), (1, 0), (1, 1)])
