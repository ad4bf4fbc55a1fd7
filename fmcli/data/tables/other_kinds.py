"""Other ways to read the columns of a table whose kinds no fixed rule tells: whole numbers may be names or quantities,
and what a quantity does may have steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fmcli.data.tables.kinds import ROWS_PER_ID, is_id, is_whole
from fmcli.data.tables.named import ColumnRoles
from fmcli.data.tables.schema import CATEGORY, NUMBER, Schema

# The number of bins that is tried. A column with fewer different numbers than these predicts the same as any kind.
BINS, FEW_NUMBERS = 32, 3


def other_kinds(named: ColumnRoles, schema: Schema, facts: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the changed choices of other ways to read a table: whole numbers that are categories as quantities; whole
    numbers that are quantities as categories, if each has enough rows; and its numbers, or the others, cut into bins.

    named : the columns that the user has named, which keep their kinds.
    schema, facts : of the table, as the survey of its cells has found them.
    """
    known, several = named.kinds(), [name for name, one in facts.items() if one["distinct"] >= FEW_NUMBERS]
    whole = [name for name in several if name not in known and is_whole(facts[name]) and not is_id(name)]
    if names := tuple(name for name in whole if schema.kinds.get(name) == CATEGORY):
        yield {"numeric": (*named.numeric, *names)}
    numbers = [name for name in several if schema.kinds.get(name) == NUMBER]
    names = tuple(name for name in whole if name in numbers and has_rows_for_each(facts[name]))
    categorical = {"categorical": (*named.categorical, *names)} if names else {}
    if categorical:
        yield categorical
    if numbers and not named.bins:
        yield {"bins": BINS}
        if 0 < len(names) < len(numbers):
            yield {"bins": BINS, **categorical}


def has_rows_for_each(facts: Mapping[str, Any]) -> bool:
    """Return whether there are enough rows of each number of a column to learn something about it."""
    present: int = facts["cells"] - facts["missing"]
    return bool(present * facts["times"] >= ROWS_PER_ID * facts["distinct"])
