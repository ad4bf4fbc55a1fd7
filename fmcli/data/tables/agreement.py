"""Check options about the columns of tables against the columns that a model or a schema already knows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from fmcli.data.tables.named import AUTO, EVERY, NEVER, ColumnRoles
from fmcli.data.tables.schema import CATEGORY, IGNORED, LABEL, NUMBER, SEVERAL, TIME, VECTOR, WEIGHT, Schema
from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.names import no_such


def agreed(
    known: Schema,
    named: ColumnRoles,
    given: Collection[str],
    whose: str,
    columns_of: Callable[[Schema], Collection[str]],
) -> Schema:
    """Return the schema of tables whose columns are known, when options name columns, too.

    Options may repeat known choices, as in a job that began without a model. They may add markers of missing cells,
    ignored columns that only the new tables have, and a label if none is known.

    given : the names of the options that are given.
    whose : the name of the model or the schema, for messages.
    columns_of : returns the names of the columns of the tables, read by a schema.

    Raises UsageError for an option that contradicts the schema: it would have no effect.
    """
    if "label" in given and named.label is not None and LABEL not in known.kinds.values():
        known = replace(known, kinds={**known.kinds, named.label: LABEL})
    if others := {*named.ignored} - known.kinds.keys():
        new = others & {*columns_of(known)}
        known = replace(known, kinds={**known.kinds, **dict.fromkeys(sorted(new), IGNORED)})
    of_option = {
        "label": (LABEL, [] if named.label is None else [named.label]),
        "weight_column": (WEIGHT, [] if named.weight is None else [named.weight]),
        "categorical": (CATEGORY, named.categorical),
        "numeric": (NUMBER, named.numeric),
        "several": (SEVERAL, named.several),
        "vector": (VECTOR, named.vectors),
        "ignore": (IGNORED, named.ignored),
    }
    for option, (kind, columns) in of_option.items():
        for column in columns:
            if column not in known.kinds:
                raise UsageError(f"{whose}: {no_such('column', column, list(known.kinds))}", **without(option))
            if (found := known.kinds[column]) != kind:
                raise UsageError(f"{whose} knows the column {column!r} as {WORDS.get(found, found)}", **without(option))
    form = named.form
    if "bins" in given and not fits(known, named.bins):
        raise UsageError(f"{whose} has bins of its own, or none", **without("bins"))
    of_tables = {
        "separator": (form.separator, known.separator, "separates the values in a cell by"),
        "columns": (form.names, known.names, "knows the names of the columns:"),
        "delimiter": (form.delimiter, known.delimiter, "separates cells by"),
        "decimal": (form.decimal, known.decimal or "none", "has the decimal mark"),
        "encoding": (form.latin1, known.latin1, "reads Latin-1:"),
    }
    if "missing" in given and not has_gaps(known, named.gap_features):
        raise UsageError(f"{whose} knows the columns whose missing cells are features", **without("missing"))
    for option, (mine, theirs, what) in of_tables.items():
        if option in given and mine != theirs:
            raise UsageError(f"{whose} {what} {shown(theirs)}", **without(option))
    if form.joined_names and form.joined_names != known.joined_names:
        raise UsageError(f"{whose} knows the names of the columns of joined tables", **without("columns"))
    return known.with_missing(form.missing)


WORDS = {
    LABEL: "the label",
    WEIGHT: "the weight",
    CATEGORY: "names",
    NUMBER: "a number",
    SEVERAL: "several names in a cell",
    TIME: "a time",
    VECTOR: "a vector",
    IGNORED: "one to ignore",
}


def without(option: str) -> dict[str, Any]:
    """Return the advice to drop an option."""
    return {option: LEAVE_OUT}


def has_gaps(known: Schema, which: str) -> bool:
    """Return whether the missing cells of these columns of a schema are features."""
    names = {name for name, kind in known.kinds.items() if kind in (CATEGORY, SEVERAL)}
    return {AUTO: True, NEVER: not known.gaps, EVERY: known.gaps >= names}[which]


def fits(known: Schema, bins: int) -> bool:
    """Return whether a schema may come from a run with this number of bins, which have equally many rows."""
    return max((len(edges) + 1 for edges in known.bins.values()), default=0) == bins


def shown(value: Any) -> str:
    """Return a value of a schema in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "what their first line has"
    return (
        ",".join(value) if isinstance(value, tuple) and value else repr(value) if value else "their headers have them"
    )
