"""Columns that predictions may have beside them."""

from __future__ import annotations

from typing import NamedTuple


class Beside(NamedTuple):
    """Figures beside the predictions of rows.

    spread : whether there is the standard deviation over draws.
    interval : the probability of an interval that has the label; None: there is none.
    """

    spread: bool = False
    interval: float | None = None


NOTHING = Beside()
