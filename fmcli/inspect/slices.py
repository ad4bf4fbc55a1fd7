"""The errors of a model by slice: the rows that have one value, or a range of values, in a column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.entries import rows_of_entries
from fmcli.inspect.importance import NO_FIELD, Fields
from fmcli.inspect.inspection import Row
from fmcli.inspect.labeled import ScoredRows
from fmcli.losses.links import Floats
from fmcli.text import number, readable

# Slices with fewer rows are left out, and features beyond the most frequent ones.
FEWEST_ROWS, MOST_FEATURES = 10, 2000
# The number of ranges of a number, the most slices of a column and of all columns, and the worst ones are kept.
RANGES, MOST_OF_COLUMN, MOST_SLICES = 4, 30, 400
# The normal quantile of intervals with a probability of 95 %.
QUANTILE = 1.96

Numbers = NDArray[np.int64]


def slices(rows: ScoredRows) -> list[Row]:
    """Return the slices of the rows with their mean error and its interval; the slices whose interval begins highest
    come first. The error is the share of wrong labels, or the mean absolute error of numbers."""
    wrong, label, prediction, found = rows.wrong, rows.label, rows.prediction, list[Row]()
    error, interval = (rows.loss, mean_interval) if wrong is None else (wrong, share_interval)
    for column, name, chosen in each_slice(rows):
        row = {"column": column, "slice": name, "rows": len(chosen), "error": float(error[chosen].mean())}
        row |= dict(zip(("low", "high"), interval(error[chosen]), strict=True))
        if np.isfinite(prediction).all():
            row |= {"label": float(label[chosen].mean()), "prediction": float(prediction[chosen].mean())}
        found.append(row)
    found.sort(key=lambda row: -row["low"])
    left = dict.fromkeys((row["column"] for row in found), MOST_OF_COLUMN)
    kept = []
    for row in found:
        left[row["column"]] -= 1
        if left[row["column"]] >= 0:
            kept.append(row)
    return kept[:MOST_SLICES]


def each_slice(rows: ScoredRows) -> Iterator[tuple[str, str, Numbers]]:
    """Yield the column, the name and the numbers of the rows of each slice with enough rows."""
    data, scorer = rows.data, rows.scorer
    fields, row = Fields(scorer), rows_of_entries(data)
    of_entry = fields.of(data)
    table = scorer.transform.table
    times = np.bincount(data.index, minlength=scorer.model.features)
    order = np.argsort(data.index, kind="stable")
    begins = np.concatenate([[0], np.cumsum(times)])
    frequent = np.argsort(-times, kind="stable")[:MOST_FEATURES]
    for feature in frequent[times[frequent] >= FEWEST_ROWS].tolist():
        entries = order[begins[feature] : begins[feature + 1]]
        name = readable(str(scorer.ids(np.array([feature]))[0]))
        column = NO_FIELD if of_entry is None else int(of_entry[entries[0]])
        title = "feature" if column == NO_FIELD else column_title(fields, column)
        shown = name.partition("=")[2] if table is not None else name  # "" of a number
        values = np.ones(len(entries)) if data.value is None else data.value[entries]
        for text, mine in each_range(values):
            chosen = np.unique(row[entries[mine]])
            if len(chosen) >= FEWEST_ROWS:
                gap = "(missing)" if name.endswith("=") and not shown else ""
                yield title, f"{shown} {text}".strip() or gap, chosen
    if of_entry is None:
        return
    for column in range(len(fields.names)):
        without = np.ones(data.rows, dtype=np.bool_)
        without[row[of_entry == column]] = False
        if FEWEST_ROWS <= without.sum() < data.rows:
            is_number = table is not None and fields.names[column] in table.numbers
            yield (
                column_title(fields, column),
                "(0 or missing)" if is_number else "(missing or new)",
                np.flatnonzero(without),
            )


def column_title(fields: Fields, column: int) -> str:
    """Return the title of a column, or of a field without a name."""
    name = fields.names[column]
    return name if isinstance(name, str) else f"field {name}"


def each_range(values: NDArray[np.floating[Any]]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the text and the members of ranges of values with about equally many members; a single one without a text
    if all values are the same."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, RANGES + 1), method="nearest"))
    if len(edges) == 1:
        yield "", np.ones(len(values), dtype=np.bool_)
        return
    for low, high in pairwise(edges.tolist()):
        last = high == edges[-1]
        text = f"{number(float(f'{low:.4g}'))} to {number(float(f'{high:.4g}'))}"
        yield text, np.asarray((values >= low) & ((values <= high) if last else (values < high)))


def mean_interval(values: Floats) -> tuple[float, float]:
    """Return the interval of the mean of some values, by their standard deviation."""
    half = QUANTILE * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half


def share_interval(values: Floats) -> tuple[float, float]:
    """Return the interval of a share, by Wilson (1927), which is within 0 and 1."""
    share, n, square = float(values.mean()), len(values), QUANTILE**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = QUANTILE * (share * (1 - share) / n + square / (4 * n * n)) ** 0.5 / (1 + square / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)
