"""Held-out pairs of users and items that are ranked among all items, for losses of the order of rows.

Whole groups of held-out rows say how well new users are ranked. If groups are users that have features of their own,
such as ids, no training row has these features, so that the only thing such rows can tell is which items are popular.
There, some relevant rows of each user are held out instead, and ranked among the items of all users.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.labels import Labels
from fmcli.data.shards.training_rows import RowNumbers
from fmcli.records import dataclass
from fmcli.registry.specs import Spec
from fmcli.registry.streams import HOLDOUT_STREAM, generator
from fmcli.scoring.recommend.halves import united
from fmcli.scoring.recommend.hashes import hashes

# A user is ranked with at most so many items, random ones beside the held-out ones, and all users with so many.
MOST_ITEMS, MOST_PAIRS = 1_000, 200_000
# With fewer held-out rows, an epoch is chosen by chance: whole groups are held out.
LEAST_HELD = 20
# Distinguishes the random numbers of these from other held-out rows.
ITEMS = 2

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class ItemRanking:
    """The held-out rows of users, which are ranked among all items.

    of_users : (features) whether each feature belongs to a user, and not to an item.
    held : int32, the numbers of the rows, increasing.
    seed : of the users and items that are drawn.
    """

    of_users: Flags
    held: RowNumbers
    seed: int

    def validation(self, data: Dataset, rows: RowNumbers, labels: Labels) -> Dataset:
        """Return rows to validate on: for each of some users, the held-out rows and rows with other items, whose label
        is not relevant, but not those items that relevant training rows of the user have.

        rows : the numbers of those rows of the data to train on.
        """
        random = np.random.default_rng([self.seed, HOLDOUT_STREAM, ITEMS])
        every = np.sort(np.concatenate([rows, self.held]))
        some = data.take(every)
        _, first, item = np.unique(hashes(some, ~self.of_users), return_index=True, return_inverse=True)
        relevant, is_held, group = labels.relevance.of(some.label), np.isin(every, self.held), groups_of(some)
        most = min(len(first), MOST_ITEMS)
        users = random.permutation(np.unique(group[is_held]))[: max(1, MOST_PAIRS // most)]
        one, other, is_other = [], [], []
        for user in np.sort(users).tolist():
            mine = np.flatnonzero(group == user)
            held = mine[is_held[mine]]
            others = np.setdiff1d(random.permutation(len(first))[:most], item[mine[relevant[mine]]])
            one.append(np.full(len(held) + len(others), mine[0], dtype=np.int32))
            other.append(np.concatenate([held, first[others]]).astype(np.int32))
            is_other.append(np.arange(len(held) + len(others)) >= len(held))
        of_user, of_item = np.concatenate(one), np.concatenate(other)
        pairs = united(some.only(self.of_users), some.only(~self.of_users), of_user, of_item)
        none = labels.pair[0] if labels.pair else min(0.0, float(some.label.min()))
        label = np.where(np.concatenate(is_other), none, some.label[of_item])
        return pairs.changed(label=label, group=group[of_user], numbering=data.numbering)


def item_ranking(data: Dataset, rows: RowNumbers, labels: Labels, count: float, spec: Spec) -> ItemRanking | None:
    """Return some relevant rows to hold out, about this share of them, at least one of each group being left; None if
    rows are not pairs of a user with features of its own and of an item, or if there are few.

    rows : the numbers of the rows of the data that are meant.
    """
    of_users = features_of_users(data.take(rows))
    if of_users is None:
        return None
    relevant = rows[labels.relevance.of(data.label[rows])]
    order = generator(spec, HOLDOUT_STREAM, ITEMS, 0).permutation(relevant)
    group = groups_of(data)[order]
    by_group = np.argsort(group, kind="stable")
    sizes = np.unique(group, return_counts=True)[1]
    place = np.empty(len(order), dtype=np.int64)
    place[by_group] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = np.sort(order[place > 0][: round(count * len(relevant))])  # the first of each group stays
    return ItemRanking(of_users, held, spec.values["seed"]) if len(held) >= LEAST_HELD else None


def features_of_users(data: Dataset) -> Flags | None:
    """Return (features) whether each feature belongs to the user that a group of rows is: most groups that have it have
    it in all rows. None unless most groups have such a feature that no other group has, and most rows a feature of
    another kind that several groups have."""
    group = np.unique(groups_of(data), return_inverse=True)[1]
    size, row = np.bincount(group), np.repeat(np.arange(data.rows), np.diff(data.indptr))
    pairs, counts = np.unique(group[row] * data.features + data.index, return_counts=True)
    of_group, feature = pairs // data.features, pairs % data.features
    several = size[of_group] > 1
    groups = np.bincount(feature[several], minlength=data.features)
    whole = np.bincount(feature[several & (counts == size[of_group])], minlength=data.features)
    of_users = 2 * whole > groups
    own = of_users & (np.bincount(feature, minlength=data.features) == 1)
    shared = ~of_users & (groups > 1)
    have_own = len(np.unique(of_group[own[feature]]))
    have_item = len(np.unique(row[shared[data.index]]))
    return of_users if 2 * have_own > len(size) and 2 * have_item > data.rows else None


def groups_of(data: Dataset) -> NDArray[np.int32]:
    """Return (rows) the groups of rows that have some."""
    assert data.group is not None
    return data.group
