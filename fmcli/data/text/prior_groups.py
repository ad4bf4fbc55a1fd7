"""The groups of features in a file, which share a prior."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping

import numpy as np

from fmcli.data.dictionary import Dictionary
from fmcli.data.fields import LARGEST, LARGEST_GROUP, NO_GROUP, Groups
from fmcli.data.numbering import Numbering
from fmcli.data.text.sources import BUFFER_BYTES, buffers, name_of
from fmcli.errors import BadInputError
from fmcli.records import dataclass
from fmcli.text import quote

NUMBER = re.compile(rb"\+?[0-9]+\Z")


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
