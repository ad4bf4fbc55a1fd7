"""Validate the header of a cache before it is used: others may have changed the file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fmcli.data.labels import is_name

LARGEST_COUNT = 2**31 - 1  # features or fields


def is_count(value: Any, most: int = 2**63 - 1) -> bool:
    """Return whether a value is an integer from 0 to `most`."""
    return type(value) is int and 0 <= value <= most


def is_dimension(value: Any) -> bool:
    """Return whether a value can be a number of features or fields."""
    return is_count(value, LARGEST_COUNT)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**63)


def is_size(value: Any) -> bool:
    """Return whether a value is a finite number, at least 0."""
    return is_number(value) and value >= 0


def are_labels(value: Any) -> bool:
    """Return whether a value is a list of distinct labels, each with its number of rows and their weight, or None."""
    return value is None or (
        type(value) is list
        and all(type(entry) is list and len(entry) == 3 for entry in value)
        and all(is_number(label) and is_count(rows) and is_size(weight) for label, rows, weight in value)
        and len({label for label, _, _ in value}) == len(value)
    )


def are_names(value: Any) -> bool:
    """Return whether a value is a list of distinct label names, or None."""
    return value is None or (type(value) is list and all(map(is_name, value)) and len(set(value)) == len(value))


def are_sizes(value: Any) -> bool:
    """Return whether a value is a list of the sizes of a dictionary's three arrays in bytes, or None."""
    return value is None or (type(value) is list and len(value) == 3 and all(map(is_count, value)))


def is_flag(value: Any) -> bool:
    """Return whether a value is true or false."""
    return type(value) is bool


RULES: dict[str, dict[str, Callable[[Any], bool]]] = {
    "header": {
        "chunks": is_count,
        "shuffled": is_flag,
        "dictionary": are_sizes,
        "facts": lambda value: type(value) is dict,
        "about": lambda value: type(value) is dict,
    },
    "facts": {
        "format": lambda value: value in ("libsvm", "ffm"),
        **dict.fromkeys(("rows", "nonzeros", "longest", "repeated_rows", "bytes"), is_count),
        **dict.fromkeys(("features", "fields"), is_dimension),
        **dict.fromkeys(("longest_square", "total_weight", "deviation"), is_size),
        **dict.fromkeys(("lowest", "highest", "mean"), is_number),
        "weighted": is_flag,
        "labels": are_labels,
        "names": are_names,
    },
    "about": dict.fromkeys(("keep_fields", "label_weights"), is_flag),
}


def check_header(header: Any) -> None:
    """Raise ValueError unless all values of a header have the types and ranges that other code assumes."""
    if type(header) is not dict:
        raise ValueError("its header is not valid")
    for part, rules in RULES.items():
        table = header if part == "header" else header[part]
        for name, rule in rules.items():
            if name not in table or not rule(table[name]):
                raise ValueError(f"its header has no valid {name}")
    facts = header["facts"]
    if facts.keys() != RULES["facts"].keys():
        raise ValueError("its header has other facts")
    lowest, highest, names, labels = (facts[name] for name in ("lowest", "highest", "names", "labels"))
    if labels is not None:
        beyond = any(not lowest <= label <= highest for label, _, _ in labels)
        if beyond or sum(rows for _, rows, _ in labels) != facts["rows"]:
            raise ValueError("its labels do not fit its rows")
    if names is not None and not 0 <= lowest <= highest < len(names):
        raise ValueError("its labels have no names")
