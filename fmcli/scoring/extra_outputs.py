"""Columns beside the predictions."""

from __future__ import annotations

from typing import NamedTuple


class ExtraOutputs(NamedTuple):
    """Figures beside the predictions of rows.

    spread : whether to give the standard deviation over draws.
    interval : the probability that the interval contains the label; None: no interval.
    """

    spread: bool = False
    interval: float | None = None


NOTHING = ExtraOutputs()
