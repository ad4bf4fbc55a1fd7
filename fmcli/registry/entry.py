"""What the registry's entries of models, solvers and losses have in common."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A class that can be chosen by name, and the options that it takes.

    help : one sentence that says what it is.
    path : module:class, or a function that makes one of several classes; imported when it is used.
    options : names of the options that the class takes as keywords.
    defaults : of options, if they differ from the options' own.
    refuses : option -> why it cannot be given.
    """

    name: str
    help: str
    path: str
    options: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    refuses: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> Any:
        """The class."""
        return load(self.path)


def load(path: str) -> Any:
    """What module:name stands for."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
