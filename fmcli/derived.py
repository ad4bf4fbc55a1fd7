"""Defaults that depend on the training data, or on other options: a text for people, and a function for the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What a default may depend on. All of it is known as soon as the rows to train on are.

    rows, nonzeros : number of the training rows and of their entries, without the rows that are held out.
    validated : whether there are validation data.
    solver : its name.
    values : all options by name. Those that precede the default's own in the registry are already resolved.
    """

    rows: int
    nonzeros: int
    validated: bool
    solver: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Derived:
    """A default that is computed when the training data are known.

    text : the rule in words, for the help and the README: "1/rows".
    of : the value, for the facts of a run.
    """

    text: str
    of: Callable[[Facts], Any]

    def __str__(self) -> str:
        return self.text
