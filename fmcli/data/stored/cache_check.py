"""Validate the header of a cache before it is used: others may have changed the file."""

from __future__ import annotations

import math
from typing import Any

from fmcli.base.rules import BOOLEAN, COUNT, NUMBER, Rule, is_number, list_of, null_or, one_of, whole, within
from fmcli.data.labels import is_name

DIMENSION, SIZE = whole(0, 2**31 - 1), within(0, math.inf)  # of features or fields; of a sum or a length
NAME, FIGURES = Rule("the name of a label", is_name), Rule("figures by name", lambda value: type(value) is dict)


def are_labels(value: Any) -> bool:
    """Return whether a value is a list of distinct labels, each with its number of rows and their weight."""
    return (
        type(value) is list
        and all(type(entry) is list and len(entry) == 3 for entry in value)
        and all(is_number(label) and COUNT.holds(rows) and SIZE.holds(weight) for label, rows, weight in value)
        and len({label for label, _, _ in value}) == len(value)
    )


def are_names(value: Any) -> bool:
    """Return whether a value is a list of distinct label names."""
    return list_of(NAME).holds(value) and len(set(value)) == len(value)


RULES: dict[str, dict[str, Rule]] = {
    "header": {
        "chunks": COUNT,
        "shuffled": BOOLEAN,
        # The sizes of its three arrays in bytes.
        "dictionary": null_or(Rule("sizes", lambda value: list_of(COUNT).holds(value) and len(value) == 3)),
        "facts": FIGURES,
        "about": FIGURES,
    },
    "facts": {
        "format": one_of("libsvm", "ffm"),
        **dict.fromkeys(("rows", "nonzeros", "longest", "repeated_rows", "bytes"), COUNT),
        **dict.fromkeys(("features", "fields"), DIMENSION),
        **dict.fromkeys(("longest_square", "total_weight", "deviation"), SIZE),
        **dict.fromkeys(("lowest", "highest", "mean"), NUMBER),
        "weighted": BOOLEAN,
        "labels": null_or(Rule("labels", are_labels)),
        "names": null_or(Rule("names", are_names)),
    },
    "about": dict.fromkeys(("keep_fields", "label_weights"), BOOLEAN),
}


def check_header(header: Any) -> None:
    """Raise ValueError unless all values of a header have the types and ranges that other code assumes."""
    if type(header) is not dict:
        raise ValueError("its header is not valid")
    for part, rules in RULES.items():
        table = header if part == "header" else header[part]
        for name, rule in rules.items():
            if name not in table or not rule.holds(table[name]):
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
