"""What the columns of a table are, in words for a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from fmcli.data.tables.kinds import is_id, is_whole, without
from fmcli.data.tables.schema import CATEGORY, IGNORED, LABEL, NUMBER, TIME, VECTOR, Schema
from fmcli.names import listing
from fmcli.text import figure

Facts = Mapping[str, Mapping[str, Any]]

FEW, WIDEST = 12, 40  # columns that are listed, and characters of a name that others are aligned with


def column_lines(schema: Schema, facts: Facts, details: str) -> Iterator[tuple[str, bool]]:
    """Yield lines on the kinds of the columns of a table, and whether a line is a detail: each column if they are few,
    otherwise the number of each kind, and the names of those that a reader must check. The reason for the loss names
    the label. details : where details are listed."""
    kinds = {name: kind for name, kind in schema.kinds.items() if kind != LABEL}
    width = min(max(map(len, kinds), default=0), WIDEST)
    for name, kind in kinds.items():
        line = f"column {name:<{width}}  {kind:<8}  {', '.join(about(name, schema, facts.get(name)))}".rstrip()
        yield line, len(kinds) > FEW
    if len(kinds) > FEW:
        of_kind = ", ".join(f"{count:,} {kind}" for kind, count in Counter(kinds.values()).most_common())
        yield f"{len(kinds):,} columns: {of_kind} ({details} lists them)", False
        for words, names in to_check(kinds, facts).items():
            yield f"  {words}: {listing(names)}", False


def mean_word(mean: float, kind: str) -> str:
    """Return the mean of a column as text: of times, the date that many days after the beginning of 1970."""
    return str(date(1970, 1, 1) + timedelta(days=mean)) if kind == TIME else figure(mean)


def to_check(kinds: Mapping[str, str], facts: Facts) -> dict[str, list[str]]:
    """Return words -> the columns that they describe, whose kinds are not obvious or that say nothing."""
    found: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        figures, words = facts.get(name), ""
        if kind == IGNORED:
            words = "left out"
        elif kind == TIME:
            words = "dates"
        elif figures and figures["distinct"] == 1 and not figures["fractions"]:  # fractions are not counted
            words = "the same in all rows"
        elif figures and kind == CATEGORY and is_whole(figures):
            words = "ids" if is_id(name) else "whole numbers read as categories"
        if words:
            found.setdefault(words, []).append(name)
    return found


def about(name: str, schema: Schema, figures: Mapping[str, Any] | None) -> list[str]:
    """Return the kind of the cells of a column, and the treatment of its missing cells."""
    if not name:
        return ["no name"]
    gap = f"marked by the feature {name}=" if name in schema.gaps else ""
    if not figures:
        read_once = ["missing cells: " + gap] if gap and schema.kinds[name] == NUMBER else []
        return read_once
    if not figures["example"]:
        return ["all cells missing"]
    markers = schema.markers.get(name, ())
    figures = without(markers, figures)
    counted = figures["distinct"] or schema.kinds[name] != CATEGORY  # cells of columns that are named are not
    found = [f"{cells_of(figures)}, " * bool(counted) + f"such as {figures['example'][:40]}"]
    if schema.kinds[name] == TIME:
        first = f"the {schema.orders[name]} comes first, " if schema.orders[name] else ""
        found.append(f"{first}features month, weekday{', hour' if name in schema.hours else ''} and days since 1970")
    if schema.kinds[name] == VECTOR:
        found.append(f"{schema.lengths[name]:,} numbers each")
    if figures["missing"] or figures["unmatched"]:
        means = schema.means.get(name, ())
        mean = f"filled with the mean {mean_word(means[0], schema.kinds[name])}" if len(means) == 1 else ""
        mean = "filled with the means of their places" if len(means) > 1 else mean
        read_as = " and ".join(filter(None, (mean, gap)))
        such = f" ({', '.join(markers)})" if markers else ""
        missing = [f"{figures['missing']:,} missing{such}"] if figures["missing"] else []
        unmatched = [f"{figures['unmatched']:,} rows without one"] if figures["unmatched"] else []
        found.append(f"{', '.join([*missing, *unmatched])}{': ' if read_as else ''}{read_as}")
    return found


def cells_of(figures: Mapping[str, Any]) -> str:
    """Return the kind of the cells of a column, and how often each cell occurs on average if they are whole numbers."""
    if figures["fractions"] or not figures["distinct"]:
        return "fractions" if figures["fractions"] else "numbers"
    distinct = f"{'more than ' if figures['uncounted'] else ''}{figures['distinct']:,}"
    if figures["texts"] or figures["is_text"]:
        return f"{distinct} distinct"
    rows = (figures["cells"] - figures["missing"]) * figures["times"] / figures["distinct"]
    return f"{distinct} distinct whole numbers in {rows:,.{0 if rows >= 10 else 1}f} rows each"
