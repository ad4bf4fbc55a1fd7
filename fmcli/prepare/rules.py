"""Rules that split rows without leaks: whole groups, whole times, or the last rows of each group.

A rule makes a key of each row, learns from the keys of all rows, and derives the part of a row from its key. It keeps
no rows: they are read a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fmcli.base.mixing import WEYL, mixed
from fmcli.errors import BadInputError

Groups = NDArray[np.int64]
Times = NDArray[np.float64]
Keys = NDArray[Any]

LARGEST = 2**64 - 1
# The bits of positive, finite doubles. Such doubles have the order of their bits.
FINITE = np.uint64((1 << 62) - 1)

# The sides of a run of equal keys.
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class SplitRule(Protocol):
    """A rule that assigns each row to a part.

    kind : the type of its keys.
    """

    @property
    def kind(self) -> type[np.generic]: ...

    def keys(self, groups: Groups, times: Times) -> Keys:
        """Return the keys of rows with these groups and times."""
        ...

    def learn(self, keys: Keys) -> None:
        """Learn from the keys of all rows, and sort them in place. Raises BadInputError if a part would have no
        rows."""
        ...

    def parts(self, keys: Keys) -> NDArray[np.intp]:
        """Return the part of each row, by its key."""
        ...


class ByTime:
    """Parts are consecutive in time. All rows of a time are in one part, so the shares are only as exact as the rows
    allow."""

    kind: type[np.generic] = np.float64
    keyed_by = "times"

    def __init__(self, shares: Sequence[Fraction]) -> None:
        self._shares, self._first = shares, np.empty(0)

    def keys(self, groups: Groups, times: Times) -> Keys:
        return times

    def learn(self, keys: Keys) -> None:
        keys.sort()
        self._first = keys[cuts(keys, self._shares, self.keyed_by)]

    def parts(self, keys: Keys) -> NDArray[np.intp]:
        return np.searchsorted(self._first, keys, side="right")


class ByGroup(ByTime):
    """Groups in random order, each in one part; the shares are as exact as the groups allow."""

    kind, keyed_by = np.uint64, "groups"

    def __init__(self, shares: Sequence[Fraction], seed: int) -> None:
        super().__init__(shares)
        self._seed = seed

    def keys(self, groups: Groups, times: Times) -> Keys:
        return in_random_order(groups, self._seed)


class LastOf:
    """The second part has the last rows of each group, and all other rows of the group at the same times. All other
    rows are in the first part, and so are groups that would have no rows there.

    whole : the number of groups that are entirely in the first part.
    """

    # A key is the pair of a group and a time; sorting orders by group first.
    kind: type[np.generic] = np.complex128

    def __init__(self, last: int) -> None:
        self._last, self.whole = last, 0
        self._groups, self._first = np.empty(0), np.empty(0)

    def keys(self, groups: Groups, times: Times) -> Keys:
        pairs = np.empty(len(groups), dtype=np.complex128)
        pairs.real, pairs.imag = (in_random_order(groups, 0) & FINITE).view(np.float64), times
        return pairs

    def learn(self, keys: Keys) -> None:
        keys.sort()
        groups, times = keys.real, keys.imag
        starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), np.bool_), groups[1:] != groups[:-1]]))
        ends = np.concatenate([starts[1:], [len(keys)]])[: len(starts)]
        self._groups, self._first = groups[starts], times[np.maximum(ends - self._last, starts)]
        leaves_none = self._first == times[starts]
        self._first[leaves_none] = np.inf
        self.whole = int(leaves_none.sum())
        if self.whole == len(starts):
            raise BadInputError(
                f"no group has rows of a time before its last {self._last}, so none can be split; give a smaller N"
            )

    def parts(self, keys: Keys) -> NDArray[np.intp]:
        of = np.minimum(np.searchsorted(self._groups, keys.real), len(self._groups) - 1)
        return (keys.imag >= self._first[of]).astype(np.intp)


def in_random_order(groups: Groups, seed: int) -> NDArray[np.uint64]:
    """Return a random number for each group; different groups get different numbers."""
    # `mixed` adds WEYL once.
    return mixed(groups.view(np.uint64) + np.uint64((seed - 1) * int(WEYL) & LARGEST))


def cuts(keys: Keys, shares: Sequence[Fraction], name: str) -> list[int]:
    """Return the positions in the sorted keys where all parts but the first begin. Equal keys stay in one part. Raises
    BadInputError if there are fewer distinct keys, called `name`, than parts."""
    rows, before = len(keys), 0
    found = []
    for end in list(accumulate(shares))[:-1] if rows else ():
        wanted = rows * end / sum(shares)
        low, high = (int(np.searchsorted(keys, keys[int(wanted)], side)) for side in SIDES)
        before = low if low > before and wanted - low <= high - wanted else high
        found.append(before)
    after = rows
    for part in reversed(range(len(found))):
        if found[part] >= after:  # no keys are left for the remaining parts
            found[part] = int(np.searchsorted(keys, keys[after - 1])) if after else 0
        after = found[part]
    if not after:
        raise BadInputError(f"the rows have too few different {name} for {len(shares)} outputs; give fewer outputs")
    return found
