"""Folds: which rows each run of a cross-validation trains on, and which it predicts.

Without shuffling, folds equal scikit-learn's KFold, StratifiedKFold, GroupKFold and TimeSeriesSplit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import within
from fmcli.data.text.sources import BUFFER_BYTES, buffers, name_of
from fmcli.errors import BadInputError, UsageError
from fmcli.prepare.rules import ByGroup, ByTime
from fmcli.records import dataclass
from fmcli.text import quote

# The number of a row that no fold predicts: all folds train on it, or the later folds.
ALWAYS = -1
FEWEST, LARGEST_SEED = 2, 2**62
# Tasks whose labels are classes: each fold has its share of each class.
OF_CLASSES = ("binary", "classes")

# The fold of each row, from 0, or ALWAYS.
Numbers = NDArray[np.int32]


class Fold(NamedTuple):
    """A run of a cross-validation.

    repeat, number : from 1.
    train, test : int32, the numbers of the rows, increasing.
    """

    repeat: int
    number: int
    train: NDArray[np.int32]
    test: NDArray[np.int32]


@dataclass(frozen=True)
class Folding:
    """How rows are divided into folds.

    folds : how many there are.
    repeats : how many times, with other random choices.
    shuffled : whether rows, or groups of rows, are in random folds; otherwise, folds are consecutive rows, and groups
        are assigned by their sizes. Folds in the order of time are never random.
    stratified : whether the folds have the classes of the rows, if there are some, in the same shares.
    in_order : whether each fold is predicted by a model of the rows before it, in the order of the rows or of time.
    """

    folds: int = 5
    repeats: int = 1
    shuffled: bool = True
    stratified: bool = True
    in_order: bool = False

    def numbers(
        self,
        rows: int,
        random: Sequence[np.random.Generator],
        classes: NDArray[np.float64] | None = None,
        groups: NDArray[np.int32] | None = None,
    ) -> list[Numbers]:
        """Return the fold of each row, once for each repeat.

        Parameters
        ----------
        random : a generator for each repeat.
        classes : (rows) the class of each row; None: the rows have none.
        groups : (rows) numbers of groups, which are in one fold each; if folds are in order, of times. None: each row
            is one.

        Raises UsageError if there are too few rows, groups or times.
        """
        if self.in_order:
            return [in_time(np.arange(rows, dtype=np.int32) if groups is None else groups, self.folds)]
        if groups is not None:
            units, name = int(groups.max(initial=-1)) + 1, "groups"
        else:
            units, name = rows, "rows"
        if units < self.folds:
            raise UsageError(f"{units:,} {name} cannot be divided into {self.folds} folds; give fewer folds")
        chances = [one if self.shuffled else None for one in random]
        if groups is not None:
            return [of_groups(groups, self.folds, chance) for chance in chances]
        if classes is None or not self.stratified:
            classes = np.zeros(rows)
        return [stratified(classes, self.folds, chance) for chance in chances]


def stratified(classes: NDArray[np.float64], folds: int, random: np.random.Generator | None) -> Numbers:
    """Return the fold of each row: each fold has the classes in the same shares, and sizes differ by at most 1. None:
    the first rows of each class are in the first fold, and so on, as in StratifiedKFold; with one class, as in KFold.
    """
    _, first, of_row = np.unique(classes, return_index=True, return_inverse=True)
    of_row = np.argsort(np.argsort(first))[of_row]  # in the order in which they occur
    in_order = np.sort(of_row)
    counts = np.array([np.bincount(in_order[fold::folds], minlength=len(first)) for fold in range(folds)])
    found = np.empty(len(classes), dtype=np.int32)
    for number in range(len(first)):
        mine = np.arange(folds, dtype=np.int32).repeat(counts[:, number])
        found[of_row == number] = mine if random is None else random.permutation(mine)
    return found


def of_groups(groups: NDArray[np.int32], folds: int, random: np.random.Generator | None) -> Numbers:
    """Return the fold of each row, the same for all rows of a group. Groups are in random order, as in `split
    --by-group`; or each group, the largest first, goes to the fold with the fewest rows so far, as in GroupKFold."""
    if random is not None:
        rule = ByGroup([Fraction(1)] * folds, int(random.integers(LARGEST_SEED)))
        keys = rule.keys(groups.astype(np.int64), np.zeros(0))
        rule.learn(keys.copy())
        return rule.parts(keys).astype(np.int32)
    sizes = np.bincount(groups)
    loads = [(0, fold) for fold in range(folds)]
    of_group = np.empty(len(sizes), dtype=np.int32)
    for group in np.argsort(sizes, kind="stable")[::-1].tolist():
        load, fold = heapq.heappop(loads)
        of_group[group] = fold
        heapq.heappush(loads, (load + int(sizes[group]), fold))
    return of_group[groups]


def in_time(times: NDArray[np.int32], folds: int) -> Numbers:
    """Return the fold of each row, in the order of time, with ALWAYS for the first rows. Sizes are as close to
    TimeSeriesSplit's as rows of equal times allow. Raises UsageError if there are too few times."""
    rows, size = len(times), len(times) // (folds + 1)
    several = len(np.unique(times))
    if several <= folds:
        raise UsageError(
            f"{several:,} different times cannot be divided into {folds} folds and the rows before; give fewer folds"
        )
    rule = ByTime([Fraction(rows - folds * size), *[Fraction(size)] * folds])
    keys = rule.keys(np.zeros(0, dtype=np.int64), times.astype(np.float64))
    rule.learn(keys.copy())
    return (rule.parts(keys) - 1).astype(np.int32)


def folds_of(numbers: Sequence[Numbers], *, in_order: bool) -> Iterator[Fold]:
    """Yield the folds of each repeat. in_order : whether a fold trains only on the rows of folds before it."""
    for repeat, of_row in enumerate(numbers, start=1):
        for fold in range(int(of_row.max()) + 1):
            train = of_row < fold if in_order else of_row != fold
            yield Fold(repeat, fold + 1, places(train), places(of_row == fold))


def places(flags: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return where flags are true."""
    return np.flatnonzero(flags).astype(np.int32)


def read_numbers(path: str, rows: int) -> list[Numbers]:
    """Return the folds in a file, which has a line for each row: the number of its fold, from 1, or -1 if none predicts
    it; or several numbers, one for each repeat. If one of them is 0, the numbers of the file begin with 0.

    Raises BadInputError, which names file and line, and MissingInputError.
    """
    found: list[list[int]] = []
    for buffer in buffers([path], [], BUFFER_BYTES):
        for line in bytes(buffer.data[buffer.start : buffer.stop]).splitlines():
            try:
                found.append([within("fold", int(word), ALWAYS, rows) for word in line.split()])
            except ValueError:
                found.append([])
            if not found[-1] or len(found[-1]) != len(found[0]):
                place = f"{name_of(path)}:{len(found)}"
                raise BadInputError(f"{place}: found {quote(line)}, expected the number of a fold, from 1, or -1")
    if len(found) != rows:
        raise BadInputError(
            f"{name_of(path)} has {len(found):,} lines, but there are {rows:,} rows; each needs a line with its fold"
        )
    numbers = np.array(found, dtype=np.int32)
    first = int((numbers != 0).all())
    numbers[numbers != ALWAYS] -= first
    for column in numbers.T:
        sizes = np.bincount(column[column != ALWAYS])
        if len(sizes) < FEWEST and (column != ALWAYS).all():
            raise BadInputError(f"{name_of(path)} has {len(sizes)} folds; at least {FEWEST} are needed")
        if not len(sizes) or not sizes.all():
            raise BadInputError(
                f"{name_of(path)} has no row of fold {first + int(sizes.argmin() if len(sizes) else 0)}"
            )
    return list(numbers.T)


def lines_of(numbers: Sequence[Numbers]) -> bytes:
    """Return the lines of a file of folds, numbered from 1; see `read_numbers`."""
    written = [np.where(one == ALWAYS, ALWAYS, one + 1) for one in numbers]
    return b"".join(b"%s\n" % b" ".join(b"%d" % one for one in row) for row in zip(*written, strict=True))
