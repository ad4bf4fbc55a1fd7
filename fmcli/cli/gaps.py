"""The log of missing numbers of tables that the model has no feature for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fmcli.cli.output import Log

MOST_SHOWN = 40  # columns in the log


def log_filled(log: Log, filled: Mapping[str, int]) -> None:
    """Log for how many missing cells of each column its mean stands, and nothing else."""
    for name, cells in list(filled.items())[:MOST_SHOWN]:
        log.line(
            f"column {name}: its mean stands for {cells:,} missing {'cells' if cells > 1 else 'cell'}, for which the "
            f"model has no feature {name}="
        )
