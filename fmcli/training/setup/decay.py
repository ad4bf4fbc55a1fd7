"""Weights of rows that halve with their age."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fmcli.errors import BadInputError, UsageError, called

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fmcli.registry.choices import Choices

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


class Decayed(NamedTuple):
    """The decayed weights of rows.

    weight : float64 (rows), 1 at the newest time.
    said : the times and weights in words.
    warning : if the newest time is later than now, else "".
    """

    weight: NDArray[np.float64]
    said: str
    warning: str


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


def decayed(decay: Decay, inputs: Sequence[str]) -> Decayed:
    """Return the weights of the rows of tables, by another pass over them. Raises BadInputError for rows without a
    time, and UsageError for inputs without times, or with times of another unit."""
    import numpy as np

    from fmcli.data.tables.reading import TableSource
    from fmcli.data.text.sources import FileRange, name_of
    from fmcli.prepare.keyed import Source

    flag, pieces = called("decay"), []
    for table in inputs:
        if not isinstance(table, TableSource):
            raise UsageError(f"{name_of(table)} is not a table, and other rows have no column of times for {flag}")
        if table == "-":
            raise UsageError(f"{flag} needs the newest time before the rows, and standard input is read once")
        extent = FileRange(str(table), frame=table.frame, used=frozenset([decay.column]))
        for _, buffer, keys in Source(extent, time=decay.column, header=True, form=table.schema).keyed():
            assert keys.times is not None
            pieces.append(keys.times)
            if len(keys.times) and keys.dated != decay.dated:
                kind = "dates" if keys.dated else "numbers"
                unit = (
                    f"a unit: one of {', '.join(UNITS)}" if keys.dated else "no unit: it counts in that of the numbers"
                )
                raise UsageError(
                    f"{flag} {decay.text}: the times of {buffer.name} are {kind}, whose half-life has {unit}"
                )
    times = np.concatenate([np.empty(0), *pieces])
    if not len(times):
        raise BadInputError("there are no rows to train on")
    age = (times.max() - times) / decay.half_life
    weight = np.exp2(-np.minimum(age, MOST_HALVINGS))
    newest, oldest = (shown(float(one), decay) for one in (times.max(), times.min()))
    effective = weight.sum() ** 2 / (weight**2).sum()
    said = (
        f"weights halve with each {decay.text.rpartition(':')[2]} before {newest}: {weight.min():.3g} at {oldest}; "
        f"{len(weight):,} rows count as {effective:,.0f}"
    )
    late = decay.dated and times.max() > time.time()
    warning = f"the newest time of {decay.column!r} is {newest}, which is later than now" if late else ""
    return Decayed(weight, said, warning)


def shown(when: float, decay: Decay) -> str:
    """Return a time as text."""
    return (EPOCH + timedelta(seconds=when)).strftime("%Y-%m-%d %H:%M:%S") if decay.dated else f"{when:.10g}"
