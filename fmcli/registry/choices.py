"""The choices of a run, each declared once. Derived from this table: the options of the command, the parameters of
functions and estimators in Python with their types and docstrings, and the names of choices in errors and logs.

A new choice is an entry in `row_choices`, `run_choices` or `options`, and its use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from fmcli.records import dataclass
from fmcli.registry.options import OPTIONS, Option
from fmcli.registry.row_choices import OF_THE_ROWS
from fmcli.registry.run_choices import OF_THE_RUN

# All choices of a run by name: without, and with, the options of models, solvers and losses.
RUN = {option.name: option for option in (*OF_THE_RUN, *OF_THE_ROWS)}
CHOICES: dict[str, Option] = {**RUN, **OPTIONS}
# Alias -> choice; both front ends accept aliases but do not list them.
ALIASES = {option.alias: option.name for option in CHOICES.values() if option.alias}
# The value of each choice that was not made.
DEFAULTS: Mapping[str, Any] = {**dict.fromkeys(OPTIONS), **{name: option.default for name, option in RUN.items()}}


@dataclass(frozen=True)
class Choices:
    """The choices of a run as attributes.

    values : by name; None for options of models, solvers and losses that were not given.
    given : the names of the choices that were made; all others have their defaults.
    """

    values: Mapping[str, Any]
    given: frozenset[str]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Choices:
        """Return choices with these values, and the defaults of all others. None stands for the default."""
        made = {name: value for name, value in values.items() if value is not None and value != DEFAULTS[name]}
        return cls({**DEFAULTS, **made}, frozenset(made))

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def options(self) -> dict[str, Any]:
        """The options of models, solvers and losses that were given."""
        return {name: self.values[name] for name in OPTIONS if self.values[name] is not None}

    def changed(self, **values: Any) -> Choices:
        """Return the choices with some values replaced."""
        return replace(self, values={**self.values, **values})

    def differing(self, names: Collection[str]) -> list[str]:
        """Return the names whose values differ from the defaults."""
        return [name for name in names if self.values[name] != DEFAULTS[name]]


def long_flag(name: str) -> str:
    """Return the long flag of a choice, or of an option of a command."""
    return CHOICES[name].flag if name in CHOICES else f"--{name.replace('_', '-')}"


def spelled(text: str, of: Callable[[str], str]) -> str:
    """Return a text with each {name} of a choice in a front end's spelling."""
    return text.format_map(_Spelling(of))


class _Spelling(dict[str, str]):
    """Choice -> a front end's spelling."""

    def __init__(self, of: Callable[[str], str]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, name: str) -> str:
        return self._of(name)
