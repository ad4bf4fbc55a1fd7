"""Groups of features with a common prior: the fields of the features, or the groups in a file."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.faults import quote
from fmcli.data.numbering import Numbering
from fmcli.data.sources import BUFFER_BYTES, buffers, name_of
from fmcli.errors import BadInputError
from fmcli.records import dataclass

Groups = NDArray[np.int32]

LARGEST_GROUP = (1 << 31) - 2
# The largest numeric id.
LARGEST = (1 << 63) - 1
# The group of a feature whose group is not known.
NO_GROUP = -1
NUMBER = re.compile(rb"\+?[0-9]+\Z")


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


@dataclass(frozen=True)
class PriorGroups:
    """The groups of features in a file.

    name : the name of the file, for messages.
    by_line : int32, the groups of features 0, 1, ..; None: the file has ids.
    by_id : id -> group.
    """

    name: str
    by_line: Groups | None
    by_id: Mapping[int | str, int]

    def group(self, feature: int | str) -> int:
        """Return the group of a feature, or NO_GROUP."""
        if self.by_line is None:
            return self.by_id.get(feature, NO_GROUP)
        if isinstance(feature, int) and feature < len(self.by_line):
            return int(self.by_line[feature])
        return NO_GROUP

    def of_columns(self, count: int, numbering: Numbering | Dictionary | None) -> Groups:
        """Return (count) the group of each column, or NO_GROUP. The column that rare features share is a group of its
        own."""
        ids = range(count) if numbering is None else numbering.written(np.arange(count, dtype=np.int32))
        found = np.array([self.group(feature) for feature in ids], dtype=np.int32)
        if numbering is not None and numbering.shared is not None:
            found[numbering.shared] = LARGEST_GROUP + 1
        return found


def read_groups(path: str) -> PriorGroups:
    """Return the groups in a file. Its lines have the groups of features 0, 1, ..; or an id and its group
    each.

    Raises MissingInputError, and BadInputError, which names the file and the line.
    """
    name, by_line, by_id = name_of(path), list[int](), dict[int | str, int]()
    words = 0
    for where, tokens in _lines(path):
        words = words or len(tokens)
        if len(tokens) != words or words not in (1, 2) or (group := _group(tokens[-1])) is None:
            form = {1: "the group of a feature,", 2: "an id and its group,"}.get(
                words, "a group, or an id and a group,"
            )
            raise BadInputError(
                f"{where}: found {quote(b' '.join(tokens))}, expected {form} a whole number from 0 to {LARGEST_GROUP}"
            )
        if words == 1:
            by_line.append(group)
            continue
        feature = _id(tokens[0])
        if feature in by_id:
            raise BadInputError(f"{where}: found a second group for feature {feature}; each feature has one")
        by_id[feature] = group
    return PriorGroups(name, np.array(by_line, dtype=np.int32) if words == 1 else None, by_id)


def _lines(path: str) -> Generator[tuple[str, list[bytes]], None, None]:
    before = 0
    for buffer in buffers([path], [], BUFFER_BYTES):
        lines = bytes(buffer.data[buffer.start : buffer.stop]).split(b"\n")[:-1]
        for number, line in enumerate(lines, before + 1):
            yield f"{buffer.name}:{number}", line.split()
        before += len(lines)


def _group(token: bytes) -> int | None:
    group = int(token) if NUMBER.match(token) else -1
    return group if 0 <= group <= LARGEST_GROUP else None


def _id(token: bytes) -> int | str:
    """Return an id in the form of Dictionary.written."""
    number = int(token) if NUMBER.match(token) else LARGEST + 1
    return number if number <= LARGEST else token.decode(errors="backslashreplace")


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
    values = np.ones(data.nnz, dtype=np.float32) if data.value is None else data.value
    return Dataset(
        np.concatenate([[0], np.cumsum(first)])[data.indptr].astype(np.int64),
        data.index[places],
        np.add.reduceat(values, places),
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
