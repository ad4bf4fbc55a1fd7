"""The fields of rows, and the groups of features with a common prior, which default to the fields."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.entries import values_of

Groups = NDArray[np.int32]

LARGEST_GROUP = (1 << 31) - 2
# The largest numeric id.
LARGEST = (1 << 63) - 1
# The group of a feature whose group is not known.
NO_GROUP = -1


class Counted(NamedTuple):
    """Groups of features, counted without gaps.

    place : (features) the position in `numbers` of each feature's group; NO_GROUP if its group is not known, or if no
        feature of the group occurs.
    numbers : int32 (groups), the numbers of the groups, increasing.
    """

    place: Groups
    numbers: NDArray[np.int32]


def fields_of_features(data: Dataset) -> Counted:
    """Return the field of the first entry of each feature. The entries must have fields.

    A feature without entries gets the field of its neighbors, if each field has consecutive features.
    """
    assert data.field is not None
    fields = np.full(data.features, NO_GROUP, dtype=np.int32)
    numbers, place = np.unique(data.field, return_inverse=True)
    fields[data.index[::-1]] = place[::-1]  # reversed, so the first entry of an index wins
    occurs = np.flatnonzero(fields != NO_GROUP)
    if len(occurs) and np.count_nonzero(np.diff(fields[occurs])) < len(numbers):
        others = np.flatnonzero(fields == NO_GROUP)
        others = others[(others > occurs[0]) & (others < occurs[-1])]
        after = np.searchsorted(occurs, others)
        before, after = fields[occurs[after - 1]], fields[occurs[after]]
        fields[others] = np.where(before == after, after, NO_GROUP)
    return Counted(fields, numbers.astype(np.int32))


def without_gaps(groups: Groups, occurs: NDArray[np.bool_]) -> Counted:
    """Return the groups of the features that occur, and the features in them, including features that do not occur."""
    numbers = np.unique(groups[occurs]).astype(np.int32)
    found = np.searchsorted(numbers, groups)
    found[~np.isin(groups, numbers)] = NO_GROUP
    return Counted(found.astype(np.int32), numbers)


def without_fields(data: Dataset) -> Dataset:
    """Return the rows without fields. Values of a feature in several fields of a row are added."""
    if data.field is None:
        return data
    first = np.ones(data.nnz, dtype=np.bool_)
    first[1:] = data.index[1:] != data.index[:-1]
    first[data.indptr[:-1][np.diff(data.indptr) > 0]] = True
    if first.all():
        return data.changed(field=None)
    places = np.flatnonzero(first)
    return Dataset(
        np.concatenate([[0], np.cumsum(first)])[data.indptr].astype(np.int64),
        data.index[places],
        np.add.reduceat(values_of(data), places),
        data.label,
        data.features,
        weight=data.weight,
        group=data.group,
        numbering=data.numbering,
        unit=data.unit,
    )


def group_numbers(groups: Counted | None) -> NDArray[np.int32]:
    """Return the numbers of groups; NO_GROUP if all features are in one."""
    return np.array([NO_GROUP], dtype=np.int32) if groups is None else groups.numbers
