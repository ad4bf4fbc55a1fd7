"""The words of a user for the rows to hold out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fmcli.data.text.formats import RowGroups

# The forms besides a share, and the name of the groups by query number in text.
LAST, GROUP, TIME, LAST_OF, QUERY = "last", "group", "time", "last-of", "qid"
FORMS = "FRACTION, last:FRACTION, group:COL:FRACTION, time:COL:FRACTION or last-of:COL:N"


class Held(NamedTuple):
    """Which rows are held out.

    share, last, times, each : as in settings.HoldOut.
    column : the source of the groups of rows, or of their times: a column of a table; in text, qid or a field. None:
        nothing, unless the run needs groups.
    """

    share: float | None = None
    last: bool = False
    times: bool = False
    each: int = 0
    column: str | None = None

    @property
    def group(self) -> RowGroups | None:
        """The numbers, or the field, that tell the groups of rows; None: rows are held out one by one."""
        return None if self.column is None else RowGroups(field_of(self.column))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run."""
        return {
            "holdout": self.share,
            "holdout_last": self.last,
            "holdout_times": self.times,
            "holdout_each": self.each,
            "holdout_grouped": self.column is not None,
        }


def held(value: str | float | None) -> Held:
    """Return the rows that a text holds out, or a share. Raises ValueError."""
    form, colon, rest = str(value).partition(":")
    if not colon:
        return Held(None if value is None else share_of(form))
    if form == LAST:
        return Held(share_of(rest), last=True)
    column, _, number = rest.rpartition(":")
    if form not in (GROUP, TIME, LAST_OF) or not column:
        raise ValueError(f"{value!r} has none of the forms {FORMS}")
    if form != LAST_OF:
        return Held(share_of(number), times=form == TIME, column=column)
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"{number!r} is not a number of rows, at least 1")
    return Held(each=int(number), column=column)


def share_of(text: str) -> float:
    """Return a share from 0 to below 1. Raises ValueError."""
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        raise ValueError(f"{text!r} is not a share in the range 0<=x<1")
    return share


def field_of(column: str | None) -> int | None:
    """Return the field of text that a column names; None if it names none."""
    return int(column) if column is not None and column.isdecimal() else None
