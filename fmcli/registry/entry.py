"""The base class of the registry entries of models, solvers and losses."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A component that can be chosen by name, and the options that it takes.

    help : a one-sentence description.
    path : "module:class", or "module:function" for a function that returns an instance; imported on first use.
    options : names of the options that the class takes as keywords.
    defaults : defaults of options that differ from the defaults in OPTIONS.
    refuses : option -> the reason why it cannot be used with this component.
    looks : option -> a factor: before a cheap run, its default times the factor is tried on held-out rows.
    looks_from : the number of rows from which that pays.
    """

    name: str
    help: str
    path: str
    options: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    refuses: Mapping[str, str] = field(default_factory=dict)
    looks: Mapping[str, float] = field(default_factory=dict)
    looks_from: int = 0

    def load(self) -> Any:
        """Import the class."""
        return load(self.path)


def load(path: str) -> Any:
    """Import the object at "module:name"."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
