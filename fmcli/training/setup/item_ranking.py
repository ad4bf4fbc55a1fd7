"""Held-out pairs of users and items that are ranked among all items, for losses of the order of rows.

Whole groups of held-out rows say how well new users are ranked. If groups are users that have features of their own,
such as ids, no training row has these features, so the only thing such rows can tell is which items are popular.
There, some relevant rows of each user are held out instead, and ranked among the items of all users.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.entries import rows_of_entries
from fmcli.data.hashes import hashes
from fmcli.data.labels import Labels
from fmcli.data.shards.paired_rows import PairedRows
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.united import united
from fmcli.records import dataclass
from fmcli.registry.specs import Spec
from fmcli.registry.streams import HOLDOUT_STREAM, generator

# The most items that a user is ranked with (random ones beside the held-out ones), and the most pairs of all users.
MOST_ITEMS, MOST_PAIRS = 1_000, 200_000
# With fewer held-out rows, an epoch is chosen by chance: whole groups are held out.
LEAST_HELD = 20
# About this many groups tell whether users have features.
MOST_GROUPS = 1_000
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
        """Return rows to validate on: for each of some users, the held-out rows, and rows with other items, whose label
        is not relevant, except items that relevant training rows of the user have.

        rows : the numbers of the rows to train on.
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


@dataclass(frozen=True)
class GroupsOfFeatures:
    """In which groups of rows each feature is.

    size : (groups) the numbers of their rows.
    of_group, feature : a group and a feature of its rows, for each such pair.
    groups : (features) the numbers of groups of several rows that have each feature.
    of_users : (features) whether each feature belongs to the user that a group is: most groups that have it have it in
        all rows.
    """

    size: NDArray[np.int64]
    of_group: NDArray[np.int64]
    feature: NDArray[np.int64]
    groups: NDArray[np.int64]
    of_users: Flags

    @classmethod
    def of(cls, data: Dataset, group: NDArray[np.int64]) -> GroupsOfFeatures:
        """Return the occurrences in rows, whose groups have numbers from 0 on."""
        size = np.bincount(group)
        pairs, counts = np.unique(group[rows_of_entries(data)] * data.features + data.index, return_counts=True)
        of_group, feature = pairs // data.features, pairs % data.features
        several = size[of_group] > 1
        groups = np.bincount(feature[several], minlength=data.features)
        whole = np.bincount(feature[several & (counts == size[of_group])], minlength=data.features)
        return cls(size, of_group, feature, groups, 2 * whole > groups)


def features_of_users(data: Dataset) -> Flags | None:
    """Return (features) whether each feature belongs to the user that a group of rows is. None unless most groups have
    such a feature that no other group has, and most rows a feature of another kind that several groups have."""
    found = GroupsOfFeatures.of(data, np.unique(groups_of(data), return_inverse=True)[1])
    own = found.of_users & (np.bincount(found.feature, minlength=data.features) == 1)
    shared = ~found.of_users & (found.groups > 1)
    have_own = len(np.unique(found.of_group[own[found.feature]]))
    have_item = rows_with(data, shared)
    return found.of_users if 2 * have_own > len(found.size) and 2 * have_item > data.rows else None


def without_users(source: TrainingRows, named: Callable[[str], str]) -> str:
    """Return a warning if the rows are pairs whose groups are users without features, by some of the groups: most rows
    have the same features as a row of another group, and no feature that belongs to some users alone; else "".

    named : returns how the caller spells an option.
    """
    if not isinstance(source, PairedRows) or source.data.relations:
        return ""
    every = groups_of(source.data)[source.rows]
    some = every[:: max(1, len(every) // MOST_GROUPS)]
    data = source.data.take(source.rows[np.isin(every, some)])
    group = np.unique(groups_of(data), return_inverse=True)[1]
    item = np.unique(hashes(data), return_inverse=True)[1]
    of_item = np.unique(item * (group.max() + 1) + group) // (group.max() + 1)
    repeated = (np.bincount(of_item) > 1)[item]
    found = GroupsOfFeatures.of(data, group)
    told_apart = rows_with(data, found.of_users & (found.groups < np.count_nonzero(found.size > 1)))
    if 2 * np.count_nonzero(repeated) <= data.rows or 2 * told_apart > data.rows:
        return ""
    return (
        "the rows have no features of users: different groups have the same rows, so all users will get one list "
        f"of items; add features of users, such as their id ({named('categorical')} makes the column of the groups one)"
    )


def rows_with(data: Dataset, features: Flags) -> int:
    """Return the number of rows that have one of some features."""
    return len(np.unique(rows_of_entries(data)[features[data.index]]))


def groups_of(data: Dataset) -> NDArray[np.int32]:
    """Return (rows) the groups of rows that have some."""
    assert data.group is not None
    return data.group
