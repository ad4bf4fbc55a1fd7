"""The times of rows, and weights that halve with age."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fmcli.errors import BadInputError, UsageError, called
from fmcli.training.setup.chosen import held_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fmcli.registry.choices import Choices

Say = Callable[[str], object]
# The seconds of each unit of dates and times.
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365.25 * 86400}
FORM = re.compile(r"time:(?P<column>.+):(?P<number>[0-9.]+)(?P<unit>[a-z]*)", re.DOTALL)
# Weights halve at most so often, because rows of weight 0 do not exist.
MOST_HALVINGS = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Decay(NamedTuple):
    """How weights halve with age, before the newest time.

    column : the column of times.
    half_life : in seconds, or in the unit of a column of numbers.
    dated : whether times are dates and times; otherwise they are numbers.
    text : as it was given.
    """

    column: str
    half_life: float
    dated: bool
    text: str


class Ages(NamedTuple):
    """The times of rows.

    times : float64 (rows), increasing with time; None: they are not known.
    weight : float64 (rows), decayed, 1 at the newest time; None: all times count the same.
    """

    times: NDArray[np.float64] | None = None
    weight: NDArray[np.float64] | None = None


UNKNOWN = Ages()


def ages_of(choices: Choices, inputs: Sequence[str], say: Say, warn: Say) -> Ages:
    """Return the times of the rows of tables, if weights decay, or the latest of observed pairs are held out; this
    takes another pass over the tables. Raises BadInputError and UsageError.

    say, warn : get what the weights are, and a warning if the newest time is later than now.
    """
    decay, held = decay_of(choices), held_of(choices)
    found = Ages() if decay is None else decayed(decay, inputs, say, warn)
    if not (choices.implicit and held.times) or (decay and decay.column == held.column):
        return found
    assert held.column is not None
    return found._replace(times=times_of(inputs, held.column, "holdout")[0])


def decay_of(choices: Choices) -> Decay | None:
    """Return how the weights of rows decay; None if they do not. Raises UsageError."""
    text = choices.decay
    if text is None:
        return None
    found, flag = FORM.fullmatch(text), called("decay")
    if found is None:
        raise UsageError(f"{flag} {text!r} has not the form time:COLUMN:HALF-LIFE, such as time:when:30d")
    unit = found["unit"]
    if unit and unit not in UNITS:
        raise UsageError(f"{flag} {text!r}: there is no unit {unit!r}; there are: {', '.join(UNITS)}")
    try:
        half_life = float(found["number"]) * UNITS.get(unit, 1)
    except ValueError:
        half_life = 0.0
    if half_life <= 0:
        raise UsageError(f"{flag} {text!r}: {found['number']!r} is not a positive number")
    return Decay(found["column"], half_life, bool(unit), text)


def times_of(inputs: Sequence[str], column: str, option: str) -> tuple[NDArray[np.float64], bool]:
    """Return (rows) the times in a column of tables, and whether they are dates and times, in seconds, and not numbers.

    option : what needs the times, for messages.

    Raises BadInputError for rows without a time, and UsageError for inputs without times.
    """
    import numpy as np

    from fmcli.data.tables.reading import TableSource
    from fmcli.data.text.sources import FileRange, name_of
    from fmcli.prepare.keyed import Source

    pieces, dated = [], set()
    for table in inputs:
        if not isinstance(table, TableSource):
            raise UsageError(
                f"{name_of(table)} is not a table, and other rows have no column of times: {called(option)}"
            )
        if table == "-":
            raise UsageError(f"{called(option)} needs all times before the rows, and standard input is read once")
        extent = FileRange(str(table), frame=table.frame, used=frozenset([column]))
        for _, _, keys in Source(extent, time=column, header=True, form=table.schema).keyed():
            assert keys.times is not None
            pieces.append(keys.times)
            dated |= {keys.dated} if len(keys.times) else set()
    if len(dated) > 1:
        raise BadInputError(f"the column {column!r} has dates in one table, and numbers in another")
    if not dated:
        raise BadInputError("there are no rows to train on")
    return np.concatenate(pieces), dated.pop()


def decayed(decay: Decay, inputs: Sequence[str], say: Say, warn: Say) -> Ages:
    """Return the times and weights of the rows of tables, and say what `ages_of` says. Raises BadInputError and
    UsageError as `times_of` does, and UsageError for times of another unit."""
    import numpy as np

    times, dated = times_of(inputs, decay.column, "decay")
    if dated != decay.dated:
        unit = f"a unit: one of {', '.join(UNITS)}" if dated else "no unit: it counts in the unit of the numbers"
        kind = "dates" if dated else "numbers"
        raise UsageError(f"{called('decay')} {decay.text}: {decay.column!r} has {kind}, so the half-life has {unit}")
    age = (times.max() - times) / decay.half_life
    weight = np.exp2(-np.minimum(age, MOST_HALVINGS))
    newest, oldest = (shown(float(one), decay) for one in (times.max(), times.min()))
    effective = weight.sum() ** 2 / (weight**2).sum()
    say(
        f"weights halve with each {decay.text.rpartition(':')[2]} before {newest}: {weight.min():.3g} at {oldest}; "
        f"{len(weight):,} rows count as {effective:,.0f}"
    )
    if decay.dated and times.max() > time.time():
        warn(f"the newest time of {decay.column!r} is {newest}, which is later than now")
    return Ages(times, weight)


def shown(when: float, decay: Decay) -> str:
    """Return a time as text."""
    return (EPOCH + timedelta(seconds=when)).strftime("%Y-%m-%d %H:%M:%S") if decay.dated else f"{when:.10g}"
