"""The log of gaps in tables: missing numbers without a feature in the model, and missing rows of joined tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.data.text.sources import Gaps

MOST_SHOWN = 40  # columns in the log
FEW_ROWS = 10  # that may all refer to rows which are new


def log_gaps(log: Log, gaps: Gaps, rows: int) -> None:
    """Log for how many missing cells of each column its mean stands, and nothing else, and how many of the rows refer
    to no row of a table that is joined; warn if all do."""
    from fmcli.data.tables.reading import no_match
    from fmcli.data.text.sources import name_of

    for name, cells in list(gaps.filled.items())[:MOST_SHOWN]:
        log.line(
            f"column {name}: its mean stands for {cells:,} missing {'cells' if cells > 1 else 'cell'}, for which the "
            f"model has no feature {name}="
        )
    if len(gaps.filled) > MOST_SHOWN:
        log.line(f"and means stand for missing cells of {len(gaps.filled) - MOST_SHOWN:,} more columns")
    for (column, table), count in gaps.unmatched.items():
        refer = "rows refer" if count > 1 else "row refers"
        log.line(f"column {column}: {count:,} {refer} to no row of {name_of(table)}, whose columns are missing there")
        if count >= rows > FEW_ROWS:
            log.warning(no_match(column, table))
