"""The base class of the registry entries of models, solvers and losses."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Any

from fmcli.records import dataclass
from fmcli.registry.ranges import Range


@dataclass(frozen=True)
class Trial:
    """Other values of an option, which the quick search before a cheap run tries on held-out rows.

    paths : the values of a path are tried one after the other, as long as each is better than the one before; the
        next path if the first value was not.
    absolute : whether these are values; otherwise they are factors of the usual value.
    errors : for each path: a value is better if the metric is by more than so many standard errors of the difference.
        Empty: 1.
    least_rows : of fewer rows, nothing is tried.
    dense : whether nothing is tried unless rows have most features.
    """

    paths: tuple[tuple[float, ...], ...]
    absolute: bool = False
    errors: tuple[float, ...] = ()
    least_rows: int = 0
    dense: bool = False

    def __post_init__(self) -> None:
        if not self.errors:
            object.__setattr__(self, "errors", (1.0,) * len(self.paths))


@dataclass(frozen=True)
class Entry:
    """A component that can be chosen by name, and the options that it takes.

    help : a one-sentence description.
    path : "module:class", or "module:function" for a function that returns an instance; imported on first use.
    options : names of the options that the class takes as keywords.
    defaults : defaults of options that differ from the defaults in OPTIONS.
    refuses : option -> the reason why it cannot be used with this component.
    tries : option -> the values that the quick search tries, if it is not given.
    tunes : option -> its values in a search, if none is given.
    """

    name: str
    help: str
    path: str
    options: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    refuses: Mapping[str, str] = field(default_factory=dict)
    tries: Mapping[str, Trial] = field(default_factory=dict)
    tunes: Mapping[str, Range] = field(default_factory=dict)

    def load(self) -> Any:
        """Import the class."""
        return load(self.path)


@cache
def load(path: str) -> Any:
    """Import the object at "module:name"."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
