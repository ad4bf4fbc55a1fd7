"""The usual words for missing values."""

from __future__ import annotations

from collections.abc import Iterable

# In lower case.
MARKERS = frozenset(
    [
        *("na", "n/a", "#n/a", "n.a.", "<na>", "nan", "-nan", "null", "(null)", "none", "nil", "\\n"),
        *("?", "-", "--", ".", "unknown", "missing", "undefined", "not available"),
    ]
)


def markers_among(words: Iterable[str]) -> list[str]:
    """Return the words that usually stand for missing values."""
    return [word for word in words if word.strip().lower() in MARKERS]
