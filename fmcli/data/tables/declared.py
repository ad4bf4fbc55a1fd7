"""Columns of data frames whose types give their kinds, although names or cells suggest another kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from fmcli.data.tables.kinds import is_id
from fmcli.data.tables.schema import CATEGORY, NUMBER, Schema
from fmcli.data.tables.unclear import MOST_DESCRIBED, SOME, hardly_repeats, present
from fmcli.text import listed

Columns = dict[str, Mapping[str, Any]]


def doubts(schema: Schema, facts: Mapping[str, Mapping[str, Any]], named: Collection[str]) -> list[str]:
    """Return the evidence against the kinds of a frame's columns, and the parameters that settle the question.

    facts : as in ColumnRoles.schema.
    named : the columns whose kinds the caller has named.
    """
    kinds = {name: kind for name, kind in schema.kinds.items() if name in facts and name not in named}
    columns = {kind: {name: facts[name] for name in kinds if kinds[name] == kind} for kind in (CATEGORY, NUMBER)}
    names = {name: one for name, one in columns[CATEGORY].items() if hardly_repeats(one)}
    texts = {name: one for name, one in columns[CATEGORY].items() if one["is_text"]}
    fractions = [name for name, one in texts.items() if one["points"] > SOME * present(one)]
    ids = {name: one for name, one in columns[NUMBER].items() if is_id(name) and is_whole(one)}
    found = []
    if names:
        found.append(
            f"{described(names, 'names')}: names that hardly repeat teach a model nothing; give ignore={[*names]} to "
            f"leave them out, or categorical={[*names]} to keep them"
        )
    if fractions:
        columns_of_text = [f"the column {name!r}" for name in islice(fractions, MOST_DESCRIBED)]
        found.append(
            f"{listed(columns_of_text, len(fractions))}: numbers with fractions are names here, since they are text; "
            f"give numeric={[*fractions]} for numbers, or categorical={[*fractions]} to keep them"
        )
    if ids:
        found.append(
            f"{described(ids, 'whole numbers')}: fmcli reads them as numbers, but their names look like ids; give "
            f"categorical={[*ids]} for ids, numeric={[*ids]} for numbers, or ignore={[*ids]} for neither"
        )
    return found


def described(columns: Columns, what: str) -> str:
    """Describe the numbers of different cells of columns, with examples."""
    texts = [
        f"the column {name!r} has {one['distinct']:,} different {what} in {present(one):,} cells, such as "
        f"{one['example']}"
        for name, one in islice(columns.items(), MOST_DESCRIBED)
    ]
    return listed(texts, len(columns))


def is_whole(facts: Mapping[str, Any]) -> bool:
    """Return whether the numbers of a column are all integers, and not all 0 or 1."""
    return bool(0 < facts["whole"] == present(facts) > facts["bits"])
