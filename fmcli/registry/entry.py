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
    """Alternative values of an option. Before a cheap run, the quick search tries them on held-out rows.

    paths : the values of a path are tried in turn, while each is better than the one before; the next path is tried if
        the first value of a path was not better.
    absolute : whether the numbers are values; otherwise they are factors of the default.
    errors : for each path, the number of standard errors of the difference by which a better value must win.
        Empty: 1.
    early : whether the solver needs them before it is compared with others.
    """

    paths: tuple[tuple[float, ...], ...]
    absolute: bool = False
    errors: tuple[float, ...] = ()
    early: bool = False

    def __post_init__(self) -> None:
        if not self.errors:
            object.__setattr__(self, "errors", (1.0,) * len(self.paths))


@dataclass(frozen=True)
class Entry:
    """A component that can be chosen by name, and the options that it takes.

    help : a one-sentence description.
    path : "module:class", or "module:function" for a function that returns an instance; imported on first use.
    options : the names of the options that the class takes as keywords.
    defaults : option -> its default, if it differs from the default in OPTIONS.
    refuses : option -> why it cannot be used with this component.
    tries : option, or "solver" -> the values that the quick search tries if the option is not given.
    tunes : option -> its range in a search if no range is given.
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
