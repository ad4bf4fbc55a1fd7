"""The choices of the command line, and where they come from."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from fmcli.cli import ARGUMENTS
from fmcli.records import dataclass
from fmcli.registry.options import OPTIONS


@dataclass(frozen=True)
class Choices:
    """The choices of the command line.

    words : as they were typed.
    values : of all options, by name; None: not given.
    given : the names of the given options.
    """

    words: list[str]
    values: dict[str, Any]
    given: frozenset[str]

    @classmethod
    def current(cls) -> Choices:
        """Return the choices of the command that is running."""
        context = click.get_current_context()
        names = {long_name(parameter): parameter.name or "" for parameter in context.command.params}
        values = {name: context.params[key] for name, key in names.items() if key in context.params}
        sources = {name: context.get_parameter_source(names[name]) for name in values}
        given = frozenset(name for name, source in sources.items() if source is ParameterSource.COMMANDLINE)
        return cls(context.meta.get(ARGUMENTS, []), values, given)


def long_name(parameter: click.Parameter) -> str:
    """Return the name of an option's longest flag: "metric" of -x and --metric; or the name of an argument."""
    if parameter.name in OPTIONS or not isinstance(parameter, click.Option):
        return parameter.name or ""
    return max(parameter.opts, key=len).lstrip("-").replace("-", "_")
