"""Which rows are held out of training: at random, or the last ones, in whole groups, or by time."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import LEAVE_OUT, BadInputError, UsageError
from fmcli.prepare.rules import ByTime, LastOf, SplitRule
from fmcli.registry.derived import Derived
from fmcli.registry.specs import Spec
from fmcli.registry.streams import HOLDOUT_STREAM, generator
from fmcli.training.setup.settings import HoldOut
from fmcli.training.setup.strata import ENOUGH_OF_CLASS, Strata

MOST_ROWS = 2**31 - 1  # numbered by int32
# The default holdout: the first share of the rows, but at least the number, and at most the second share.
USUAL_SHARE, ENOUGH_HELD_OUT, MOST_SHARE = 0.05, 500, 0.2
# To compare kinds of models takes more rows than to choose an epoch.
ENOUGH_TO_COMPARE = 5_000
# The fewest rows from which some are held out by default, and the most to hold out: they stay in memory.
LEAST_ROWS, MOST_HELD_OUT = 100, 500_000
# Rows are drawn from ranges of this size.
RANGE = 1 << 20


def split(
    rows: int,
    hold_out: HoldOut,
    spec: Spec,
    group: NDArray[np.int32] | None = None,
    strata: Strata | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the numbers of the rows to hold out and of the rows to train on, both increasing.

    Groups (0, 1, .. for each row), if there are some, remain whole; else random rows have their share of each class,
    if rows have `strata`.

    Raises UsageError if no rows are left for training or for validation, BadInputError if there are too many rows.
    """
    if rows > MOST_ROWS:
        raise BadInputError(f"{rows:,} rows are more than the {MOST_ROWS:,} that can be numbered; train on fewer")
    count = rows_held_out(rows, hold_out, spec, strata)
    if group is None:
        require_rows(hold_out)
        chosen = np.zeros(rows, dtype=np.bool_)
        chosen[numbers_held_out(rows, count, hold_out, spec, strata)] = True
    elif hold_out.each:
        chosen = last_of_each(group, hold_out.each)
    elif hold_out.times:
        chosen = last_times(group, count)
    elif hold_out.last:
        chosen = last_groups(group, count)[group]
    else:
        chosen = groups_held_out(group, count, spec)[group]
    everything = np.arange(rows, dtype=np.int32)
    return everything[chosen], everything[~chosen]  # `compress` would make 8 bytes for each row, too


def require_rows(hold_out: HoldOut) -> None:
    """Raise UsageError if rows without groups and times cannot be held out as asked: other rows would be."""
    if hold_out.grouped:
        raise UsageError("these rows keep no groups or times, so none can be held out by them", cache=LEAVE_OUT)


def last_times(time: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """Return whether each row is among the rows with the last times, about `count`. Raises UsageError if there is only
    one time."""
    if not time.any():
        raise UsageError("all rows have one time, so none can be held out by it")
    return in_last_share(ByTime([Fraction(len(time) - count), Fraction(count)]), time.astype(np.float64))


def last_of_each(group: NDArray[np.int32], each: int) -> NDArray[np.bool_]:
    """Return whether each row is among the last `each` rows of its group; smaller groups have none. Raises UsageError
    if no group is larger."""
    if np.bincount(group).max() <= each:
        raise UsageError(f"no group has more than {each} rows, so the last {each} cannot be held out; give fewer")
    return in_last_share(LastOf(each), np.arange(len(group), dtype=np.float64), group)


def in_last_share(
    rule: SplitRule, time: NDArray[np.float64], group: NDArray[np.int32] | None = None
) -> NDArray[np.bool_]:
    """Return whether a rule has each row in the last part."""
    keys = rule.keys(np.zeros(len(time), np.int64) if group is None else group.astype(np.int64), time)
    rule.learn(keys.copy())
    return rule.parts(keys).astype(np.bool_)


def rows_held_out(rows: int, hold_out: HoldOut, spec: Spec, strata: Strata | None = None) -> int:
    """Return how many rows to hold out; whole groups may hold out more. Raises UsageError as `split` does."""
    share = hold_out.share
    if hold_out.each:
        return min(hold_out.each, rows - 1)
    if share is None:
        epochs = spec.values["epochs"]
        several = isinstance(epochs, Derived) or epochs > 1
        chooses = hold_out.compares or (several and spec.solver_entry.stops_early)
        enough = ENOUGH_TO_COMPARE if hold_out.compares else ENOUGH_HELD_OUT
        rarer = None if strata is None else strata.rarer
        return min(MOST_HELD_OUT, round(usual_share(rows, enough, rarer) * rows)) if chooses else 0
    held = round(share * rows)
    if share and not 0 < held < rows:
        raise UsageError(f"holding out {share:g} of {rows} rows leaves no rows for validation or no rows for training")
    return held


def usual_share(rows: int, enough: int, rarer: int | None = None) -> float:
    """Return the share of the rows that is held out by default; `enough` held-out rows suffice. rarer : the number of
    rows of the rarer one of two classes (the held-out rows need some); None: there are no two classes."""
    if rows < LEAST_ROWS:
        return 0.0
    wanted = max(enough / rows, ENOUGH_OF_CLASS / rarer if rarer else 0.0)
    return max(USUAL_SHARE, min(MOST_SHARE, wanted))


def numbers_held_out(
    rows: int, count: int, hold_out: HoldOut, spec: Spec, strata: Strata | None = None
) -> NDArray[np.int64]:
    """Return the numbers of the rows to hold out, increasing. Random rows are drawn range by range, which takes little
    memory even if rows are not in memory. Each rare class has its share."""
    if hold_out.last or not count:
        return np.arange(rows - count, rows, dtype=np.int64)
    if strata is None:
        return random_numbers(rows, count, spec)
    rare, left = strata.drawn(rows, count, spec)
    known = np.sort(np.concatenate([rare, left]))
    others = random_numbers(rows - len(known), count - len(rare), spec)
    others += np.searchsorted(known - np.arange(len(known)), others, side="right")  # their places among all rows
    return np.sort(np.concatenate([rare, others]))


def random_numbers(rows: int, count: int, spec: Spec) -> NDArray[np.int64]:
    """Return the numbers of `count` random rows, increasing."""
    first = range(0, rows, RANGE)
    sizes = tuple(min(RANGE, rows - begin) for begin in first)
    ranges = zip(first, sizes, in_proportion(count, sizes), strict=True)
    found = [
        begin + drawn(size, of_range, generator(spec, HOLDOUT_STREAM, number))[0].astype(np.int64)
        for number, (begin, size, of_range) in enumerate(ranges)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def in_proportion(number: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many of `number` rows each part has, in proportion to the sizes of the parts."""
    total = max(1, sum(sizes))
    ends = [number * int(end) // total for end in np.cumsum([0, *sizes])]
    return tuple(stop - start for start, stop in pairwise(ends))


def drawn(rows: int, held: int, random: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the numbers of some rows that are drawn at random, and of the others, both increasing."""
    everything = np.arange(rows, dtype=np.int32)
    if not held:
        return everything[:0], everything
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[random.permutation(rows)[:held]] = True
    return everything.compress(chosen), everything.compress(~chosen)


def last_groups(group: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """Return whether each group begins in the last `count` rows. Raises UsageError if none does, or all do."""
    chosen: NDArray[np.bool_] = np.unique(group, return_index=True)[1] >= len(group) - count
    if count and (chosen.all() or not chosen.any()):
        left = "training" if chosen.any() else "validation"
        raise UsageError(f"holding out the groups that begin in the last {count} rows leaves no group for {left}")
    return chosen


def groups_held_out(group: NDArray[np.int32], count: int, spec: Spec) -> NDArray[np.bool_]:
    """Return whether each group is held out: groups are drawn until they have `count` rows or more.

    Raises UsageError if no group is left.
    """
    sizes = np.bincount(group)
    order = generator(spec, HOLDOUT_STREAM).permutation(len(sizes))
    groups = int(np.searchsorted(np.cumsum(sizes[order]), count)) + 1 if count else 0
    if groups == len(sizes):
        raise UsageError(f"holding out {count} of {len(group)} rows in whole groups leaves no group for training")
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[order[:groups]] = True
    return chosen
