"""Figures as text for people: names and values under each other, and tables. The same figures are JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fmcli.text import number, printable

# A section's figures: values by name, or the rows of a table, each with the same names.
Figures = Mapping[str, Any] | Sequence[Mapping[str, Any]]

GAP = "  "
# In place of what is undefined.
NOTHING = "-"
# Figures that name something: their digits are all written.
EXACT = ("label", "labels", "class")


def cell(value: Any, name: str = "", *, grouped: bool = False) -> str:
    """The value of a figure as text; `grouped` separates thousands."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}" if grouped else str(value)
        case float():
            exact = number(value) if name in EXACT else f"{value:.6g}"
            return NOTHING if math.isnan(value) else exact
        case list() | tuple():
            return " ".join(cell(item, name) for item in value)
    return printable(str(value))


def pairs(figures: Mapping[str, Any]) -> list[str]:
    """A line each, values aligned; of figures within figures the names are joined: "train-auc"."""
    flat: dict[str, str] = {}
    for name, value in figures.items():
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{name}-{part}".rstrip("-").replace("_", "-"): cell(each, name, grouped=True) for part, each in inner}
    width = max(map(len, flat), default=0)
    return [f"{name:<{width}}{GAP}{text}" for name, text in flat.items()]


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A head and a line each; texts to the left, numbers to the right."""
    if not rows:
        return ["none"]
    head = [name.replace("_", "-") for name in rows[0]]
    lines = [head, *([cell(value, name) for name, value in row.items()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = [isinstance(value, str | list) for value in rows[0].values()]
    return [
        GAP.join(
            text.ljust(width) if to_left else text.rjust(width)
            for text, width, to_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in lines
    ]


def section(figures: Figures, title: str = "") -> str:
    """Figures under a title, which ends in a blank line's distance from what comes before."""
    lines = pairs(figures) if isinstance(figures, Mapping) else table(figures)
    return "".join(f"{line}\n" for line in ([f"\n{title}"] if title else []) + lines)


def as_json(figures: Mapping[str, Any]) -> str:
    """One line of JSON, with null for what is undefined or infinite."""
    from fmcli.base.finite import finite

    return json.dumps(finite(dict(figures)), allow_nan=False) + "\n"
