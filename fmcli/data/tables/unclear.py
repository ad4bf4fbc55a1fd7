"""Columns whose kind does not follow from their cells: the reasons, and the options of the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from fmcli.text import listed

Figures = Mapping[str, Any]
Columns = Mapping[str, Figures]
# A value of an option that helps -> its purpose; lists are tuples.
Advice = dict[Any, str]

# Texts hardly repeat if there are more than FEW_TEXTS of them, with fewer rows each than ROWS_PER_TEXT.
ROWS_PER_TEXT, FEW_TEXTS = 2, 50
# A column has dates or local numbers if this share of its cells look like them.
SOME = 0.25
# If this share of the cells are numbers, the other cells are probably missing values.
MOSTLY = 0.9
# The most columns that an error describes.
MOST_DESCRIBED = 10

DATES, MIXED_DATES, NO_DATE, SHORT_YEARS = "dates", "mixed dates", "no date", "short years"
LISTS, LOCAL, MIXED_MARKS, UNITS, NAMES = "lists", "local", "mixed marks", "units", "names"
UNCLEAR_DATES = (DATES, MIXED_DATES, NO_DATE, SHORT_YEARS)
# A number and a unit: 45.6 kg, 1,200 sqft, 12 km/h.
WITH_UNIT = re.compile(r"([+-]?[0-9][0-9.,]*)\s?([^\W\d_][^\d,;|]*)")
# A date whose year has two digits, perhaps with a time: 3/1/24, 03.01.24 13:05.
WITH_SHORT_YEAR = re.compile(r"(?:\d\d?/\d\d?/|\d\d([.-])\d\d\1)\d\d(?:[ T]\d.*)?", re.ASCII)


def present(facts: Figures) -> int:
    """Return the number of cells that are not missing."""
    found: int = facts["cells"] - facts["missing"]
    return found


def date_order(facts: Figures) -> str | None:
    """Return how the dates of a column begin, "day" or "month"; "" if the order does not matter because they begin with
    years or with points; None if some cells are not dates, or both orders are possible."""
    cells = present(facts)
    day_first, month_first = (cells == facts[of] > 0 for of in ("days", "months"))
    if day_first and month_first:
        return None if facts["ordered"] else ""
    return "day" if day_first else "month" if month_first else None


def decimal_marks(facts: Figures) -> list[str]:
    """Return the decimal marks with which all cells of a column are numbers, if some cells are not plain numbers, or if
    points may group their digits."""
    return fitting_marks(facts) if (facts["texts"] or facts["grouped_cell"]) and not facts["others"] else []


def fitting_marks(facts: Figures) -> list[str]:
    """Return the decimal marks with which all cells of a column except odd texts are numbers."""
    cells = present(facts) - facts["others"]
    found = {",": facts["whole"] + facts["commas"], ".": facts["whole"] + facts["fractions"] + facts["dots"]}
    return [mark for mark, count in found.items() if count == cells]


def cause(facts: Figures) -> str | None:
    """Return why the kind of a text column is unclear; None for a column of names."""
    cells = present(facts)
    if max(facts["days"], facts["months"]) > SOME * cells:
        if date_order(facts) is not None:
            return None
        if facts["days"] == facts["months"] == cells:
            return DATES
        return NO_DATE if facts["others"] else MIXED_DATES
    if facts["lists"] == cells:
        return LISTS
    if decimal_marks(facts):
        return LOCAL
    if facts["texts"] > facts["lists"] + facts["others"]:  # some cells are local numbers
        if facts["points"] and facts["commas"] and cells - facts["others"] >= MOSTLY * cells:
            return LOCAL if fitting_marks(facts) else MIXED_MARKS
        if max(facts["commas"], facts["dots"]) > SOME * cells:
            return LOCAL
    if facts["declared"]:
        return None
    if facts["texts"] == cells and all(map(WITH_SHORT_YEAR.fullmatch, facts["words"])):
        return SHORT_YEARS
    return UNITS if units_of(facts) else NAMES if hardly_repeats(facts) else None


def units_of(facts: Figures) -> list[str]:
    """Return the units of numbers that all of a column's first distinct texts have, if there are further texts; several
    units only beside fractions, as 4A and 12C are seats."""
    found = [WITH_UNIT.fullmatch(word) for word in facts["words"]]
    units = sorted({match[2] for match in found if match})
    several = len(units) > 1 and not any(match and "." in match[1] for match in found)
    return units if facts["other_words"] and all(found) and not several else []


def hardly_repeats(facts: Figures) -> bool:
    """Return whether a column has many names, most with a single row."""
    few = present(facts) * facts["times"] < ROWS_PER_TEXT * facts["distinct"]
    return bool(few and facts["distinct"] > FEW_TEXTS)


def described(facts: Columns) -> tuple[list[str], dict[str, Advice]]:
    """Return the messages about unclear text columns, and the options that help."""
    messages, options = [], dict[str, Advice]()
    for why, message in MESSAGES.items():
        columns = {name: one for name, one in facts.items() if cause(one) == why}
        if columns:
            text, helps = message(columns)
            messages.append(text)
            options = joined(options, helps)
    return messages, options


def joined(options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options that help. If both name columns for one option and purpose, the columns are joined."""
    found = {**others, **options}
    for name in options.keys() & others.keys():
        by_purpose: dict[str, tuple[str, ...]] = {}
        for values in (options[name], others[name]):
            for value, why in values.items():
                by_purpose[why] = (*by_purpose.get(why, ()), *value)
        found[name] = {names: why for why, names in by_purpose.items()}
    return found


def _each(columns: Columns, text: Callable[[str, Figures], str]) -> str:
    return listed([text(*one) for one in islice(columns.items(), MOST_DESCRIBED)], len(columns))


def left_out_or_names(columns: Columns) -> dict[str, Advice]:
    """Return the options for columns that are no use as they are: leave them out, or read them as names."""
    every = tuple(columns)
    return {"ignore": {every: "to leave them out"}, "categorical": {every: "for names"}}


def _names(columns: Columns) -> tuple[str, dict[str, Advice]]:
    def text(name: str, one: Figures) -> str:
        return f"{name!r} has {one['distinct']:,} different texts in {present(one):,} cells, such as {one['example']!r}"

    return (
        f"the column {_each(columns, text)}: names that hardly repeat teach a model nothing",
        left_out_or_names(columns),
    )


def _local(columns: Columns) -> tuple[str, dict[str, Advice]]:
    """Describe numbers in local notation."""
    texts = tuple(name for name, one in columns.items() if one["texts"])
    common = set(",.").intersection(*map(decimal_marks, columns.values())) or {
        "," if one["commas"] >= one["dots"] else "." for one in columns.values()
    }
    return (
        f"the column {_each(columns, lambda name, one: f'{name!r} has numbers such as {shown(one)!r}')}",
        {"decimal": {mark: purpose(mark) for mark in sorted(common)}}
        | ({"categorical": {texts: "for names"}} if texts else {}),
    )


def _mixed_marks(columns: Columns) -> tuple[str, dict[str, Advice]]:
    return (
        f"the column {_each(columns, lambda name, one: f'{name!r} has numbers such as {shown(one)!r}')}, and others "
        "with another decimal mark; write all with a point",
        left_out_or_names(columns),
    )


def _units(columns: Columns) -> tuple[str, dict[str, Advice]]:
    def text(name: str, one: Figures) -> str:
        units = units_of(one)
        several = listed([repr(unit) for unit in units], len(units))
        return f"{name!r} has numbers with the unit{'s' * (len(units) > 1)} {several}, such as {shown(one)!r}"

    return f"the column {_each(columns, text)}: write the numbers alone", left_out_or_names(columns)


def _dates(columns: Columns) -> tuple[str, dict[str, Advice]]:
    return (
        f"the column {_each(columns, lambda name, one: f'{name!r} has dates such as {shown(one)!r}')}: the day "
        "or the month may be first; write them as 2025-12-31",
        left_out_or_names(columns),
    )


def _short_years(columns: Columns) -> tuple[str, dict[str, Advice]]:
    return (
        f"the column {_each(columns, lambda name, one: f'{name!r} has dates such as {shown(one)!r}')}, whose years "
        "have two digits; write them as 2025-12-31",
        left_out_or_names(columns),
    )


def _no_date(columns: Columns) -> tuple[str, dict[str, Advice]]:
    def text(name: str, one: Figures) -> str:
        words = [f"{word!r} (line {line})" for word, line in one["odd"].items()]
        more = ", and other texts," if one["other_odd"] else ""
        return f"{listed(words, len(words))}{more} in the column {name!r}"

    every = tuple(columns)
    missing = tuple(dict.fromkeys(word for one in columns.values() for word in one["odd"]))
    return (
        f"found {_each(columns, text)}, where other cells are dates",
        {"missing_values": {missing: "for cells that are missing"}, "categorical": {every: "for names"}},
    )


def _mixed_dates(columns: Columns) -> tuple[str, dict[str, Advice]]:
    return (
        f"the column {_each(columns, lambda name, one: f'{name!r} has dates such as {shown(one)!r}')}, in which the "
        "day is first in some, and the month in others; write them as 2025-12-31",
        left_out_or_names(columns),
    )


def _lists(columns: Columns) -> tuple[str, dict[str, Advice]]:
    every = tuple(columns)
    return (
        f"the column {_each(columns, lambda name, one: f'{name!r} has lists of numbers such as {shown(one)!r}')}",
        {"vector": {every: "for vectors of numbers"}, "several": {every: "for names"}},
    )


def shown(facts: Figures) -> str:
    """Return a text of a column as an example, preferably not a marker of missing values."""
    longest = 40
    words = facts["words"] or [facts["grouped_cell"]]
    text = next((word for word in words if word not in facts["odd"]), next(iter(words)))
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def purpose(mark: str) -> str:
    """Return an example of numbers with a decimal mark."""
    return "if 1.067,5 is 1067.5" if mark == "," else "if 1,067.5, $5.50 and 12% are 1067.5, 5.5 and 12"


MESSAGES: dict[str, Callable[[Columns], tuple[str, dict[str, Advice]]]] = {
    DATES: _dates,
    MIXED_DATES: _mixed_dates,
    NO_DATE: _no_date,
    SHORT_YEARS: _short_years,
    LISTS: _lists,
    LOCAL: _local,
    MIXED_MARKS: _mixed_marks,
    UNITS: _units,
    NAMES: _names,
}
