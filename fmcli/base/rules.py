"""Rules for the values in JSON files, which may be untrusted: each entry has a rule, and one function checks all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

MOST_COUNT = 2**53  # for counts of rows, updates and so on: exact as a float
# The squares of all labels are below LARGEST; sums, quotients and squares of such measures are still finite.
LARGEST = 1e100
LONGEST_TEXT = 200
LONGEST_QUOTE = 40
DEEPEST = 3  # levels of nested tables and lists
HALF = re.compile("[\ud800-\udfff]")  # of a pair of UTF-16, which is not a character


class Rule(NamedTuple):
    """A condition for a value, in words and as a function."""

    words: str
    holds: Callable[[Any], bool]


def whole(low: int, high: int) -> Rule:
    """Return a rule for an integer within bounds."""
    return Rule(f"an integer from {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def within(low: float, high: float) -> Rule:
    """Return a rule for a number within bounds."""
    return Rule(f"a number from {low:g} to {high:g}", lambda value: is_number(value) and low <= value <= high)


def null_or(rule: Rule) -> Rule:
    """Return the rule that also allows null."""
    return Rule(f"null or {rule.words}", lambda value: value is None or rule.holds(value))


def one_of(*texts: str) -> Rule:
    """Return a rule for one of these texts."""
    return Rule(f"one of {', '.join(map(repr, texts))}", lambda value: type(value) is str and value in texts)


def list_of(rule: Rule) -> Rule:
    """Return a rule for a list whose items follow a rule."""
    return Rule(f"a list, of {rule.words} each", lambda value: type(value) is list and all(map(rule.holds, value)))


def by_name(rule: Rule) -> Rule:
    """Return a rule for a table whose values follow a rule."""
    words = f"a table, of {rule.words} each"
    return Rule(words, lambda value: type(value) is dict and all(map(rule.holds, value.values())))


def entries(required: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None, *, others: bool = False) -> Rule:
    """Return a rule for a table with these entries, each with its own rule; see `fault`."""
    words = f"a table of {', '.join(required)}"
    return Rule(words, lambda value: not fault(value, required, optional or {}, others=others))


def fault(value: Any, required: Mapping[str, Rule], optional: Mapping[str, Rule], *, others: bool = False) -> str:
    """Return what is wrong with a table of entries; "" if nothing is.

    others : whether it may have other entries, which are not checked.
    """
    if type(value) is not dict:
        return f"it is {quoted(value)}, expected a table of entries"
    for name in required:
        if name not in value:
            return f"the entry {name} is missing"
    for name, one in value.items():
        rule = required.get(name) or optional.get(name)
        if rule and not rule.holds(one):
            return f"{name} is {quoted(one)}, expected {rule.words}"
        if not rule and not others:
            return f"the entry {quoted(name)} is unknown"
    return ""


def is_text(value: Any) -> bool:
    """Return whether a value is printable text of a reasonable length."""
    return type(value) is str and len(value) <= LONGEST_TEXT and value.isprintable()


def is_unicode(value: Any) -> bool:
    """Return whether a value is text of whole characters; JSON may contain single halves of UTF-16 pairs."""
    return type(value) is str and not HALF.search(value)


def is_number(value: Any) -> bool:
    """Return whether a value is a number that is finite as a float."""
    return (type(value) is int and abs(value) <= MOST_COUNT) or (type(value) is float and math.isfinite(value))


def are_names(value: Any) -> bool:
    """Return whether a value is a list of distinct texts."""
    return type(value) is list and all(map(is_text, value)) and len(set(value)) == len(value)


def are_increasing(value: Any) -> bool:
    """Return whether a value is a list of at least one number, increasing."""
    several = type(value) is list and bool(value) and all(map(is_number, value))
    return several and all(low < high for low, high in pairwise(value))


def are_figures(value: Any, deepest: int = DEEPEST) -> bool:
    """Return whether a value can always be printed: a number, text, null, or a list or table of such values."""
    if type(value) is dict:
        return deepest > 0 and all(is_text(name) and are_figures(inner, deepest - 1) for name, inner in value.items())
    if type(value) is list:
        return deepest > 0 and all(are_figures(inner, deepest - 1) for inner in value)
    return value is None or type(value) is bool or is_text(value) or is_number(value)


def quoted(value: Any) -> str:
    """Return a value for a message: on one line, without control characters, shortened if long."""
    if type(value) in (list, dict):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."


TEXT = Rule(f"printable text of at most {LONGEST_TEXT} characters", is_text)
UNICODE = Rule("text of whole characters", is_unicode)
NUMBER = Rule("a finite number", is_number)
BOOLEAN = Rule("true or false", lambda value: type(value) is bool)
COUNT = whole(0, MOST_COUNT)
MEASURE = within(-LARGEST, LARGEST)
TABLE = Rule("figures by name", lambda value: type(value) is dict and are_figures(value))
NAME_LIST = Rule("a list of names", are_names)
EDGES = Rule("a list of one or more increasing numbers", are_increasing)
