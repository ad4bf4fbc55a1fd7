"""Figures as readable text (names and values, and tables) or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fmcli.cli.layout import FEWEST_COLUMNS, columns_of_tables, wrapped
from fmcli.text import in_cell, printable, readable

# The figures of a section: values by name, or the rows of a table, which all have the same names.
Figures = Mapping[str, Any] | Sequence[Mapping[str, Any]]

GAP = "  "
# Figures that are identifiers, so all their digits are written.
EXACT = ("label", "labels", "class")
# Figures that are names of features, which are shown as they are in a table.
FEATURES = ("feature", "other")


def cell(value: Any, name: str = "", *, grouped: bool = False) -> str:
    """Return the value of a figure as text; `grouped` separates thousands."""
    text = in_cell(value, exact=name in EXACT, grouped=grouped)
    return printable(readable(text) if name in FEATURES else text)


def pairs(figures: Mapping[str, Any]) -> list[str]:
    """Return one line per figure, with aligned values; the names of nested figures have hyphens: "train-auc"."""
    flat: dict[str, str] = {}
    for name, value in figures.items():
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{name}-{part}".rstrip("-").replace("_", "-"): cell(each, name, grouped=True) for part, each in inner}
    width = max(map(len, flat), default=0)
    return [f"{name:<{width}}{GAP}{text}" for name, text in flat.items()]


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a header and one line per row; text is aligned to the left, numbers to the right. If the terminal is too
    narrow, a line for each cell."""
    if not rows:
        return ["none"]
    head = [name.replace("_", "-") for name in rows[0]]
    lines = [head, *([cell(value, name) for name, value in row.items()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if sum(widths) + len(GAP) * (len(widths) - 1) > columns_of_tables():
        return [line for row in lines[1:] for line in upright(head, row)]
    left = [isinstance(value, str | list) for value in rows[0].values()]
    return [
        GAP.join(
            text.ljust(width) if to_left else text.rjust(width)
            for text, width, to_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in lines
    ]


def upright(head: Sequence[str], row: Sequence[str]) -> list[str]:
    """Return a row of a table as lines."""
    width = max(map(len, head[1:]), default=0)
    below = [f"{GAP}{name:<{width}}{GAP}{text}" for name, text in zip(head[1:], row[1:], strict=True)]
    return [f"{head[0]} {row[0]}", *below]


def section(figures: Figures, title: str = "") -> str:
    """Figures as lines, under a title if there is one, with a blank line before the title."""
    lines = pairs(figures) if isinstance(figures, Mapping) else table(figures)
    above = ["", *wrapped(title, max(columns_of_tables(), FEWEST_COLUMNS))] if title else []
    return "".join(f"{line}\n" for line in above + lines)


def as_json(figures: Mapping[str, Any]) -> str:
    """Return one line of JSON, with null for undefined and infinite values."""
    from fmcli.base.finite import finite

    return json.dumps(finite(dict(figures)), allow_nan=False) + "\n"
