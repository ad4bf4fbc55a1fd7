"""The keyword parameters of training, for functions and estimators: the choices of a run that the registry has."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from fmcli.api.values import choice_value
from fmcli.api.words import counterpart
from fmcli.errors import UsageError
from fmcli.names import find_name
from fmcli.registry.choices import ALIASES, CHOICES, DEFAULTS, RUN, Choices, spelled
from fmcli.registry.kinds import ValueKind
from fmcli.registry.options import Option
from fmcli.registry.words import notes, usual_default

F = TypeVar("F", bound=Callable[..., Any])
# Where the parameters stand in a docstring.
PLACE = "{parameters}"
WIDTH = 100
# Parameters that have another name in scikit-learn.
RENAMED = {"seed": "random_state", "threads": "n_jobs"}


# The choices of functions, the choices that estimators lack, and the default of each choice in a signature.
PARAMETERS: Mapping[str, Option] = {name: choice for name, choice in CHOICES.items() if not choice.absent}
OF_ROWS = tuple(name for name, choice in PARAMETERS.items() if choice.of_rows)


def split(given: Mapping[str, Any]) -> Choices:
    """Return keyword arguments as choices; None means the default of each. Raises UsageError for names that do not
    exist, and for values of other types or out of range."""
    given = listed(given)
    for name in given:
        if name not in PARAMETERS:
            why = CHOICES[name].absent if name in CHOICES else ""
            if meant := counterpart(name) or (f": {why}" if why else ""):
                raise UsageError(f"there is no option {name!r}{meant}")
            find_name("option", name, PARAMETERS)
    values = {name: choice_value(PARAMETERS[name], value) for name, value in given.items() if value is not None}
    return Choices.of({**dict.fromkeys(given), **values, "disk": "cache" in values})


def listed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments by the names that are listed. Raises UsageError for one that has both its names."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if (own := ALIASES.get(name, name)) in found:
            raise UsageError(f"{own} is given twice, also by its other name; give it once")
        found[own] = value
    return found


def parameters(renamed: Mapping[str, str] = {}, without: Iterable[str] = ()) -> Iterator[Parameter]:
    """Yield the keyword parameters of training. renamed : other names of some; without : the names to leave out."""
    for name in PARAMETERS:
        if name not in without:
            yield Parameter(renamed.get(name, name), Parameter.KEYWORD_ONLY, default=DEFAULTS[name])


def described(renamed: Mapping[str, str] = {}, without: Iterable[str] = ()) -> str:
    """Return the parameters as a section of a docstring."""
    lines: list[str] = []

    def word(name: str) -> str:
        return renamed.get(name, name)

    for name, choice in PARAMETERS.items():
        if name not in without:
            # The flag of a negative option is --no-bias: its help is about the value False.
            help = f"False: {choice.help[0].lower()}{choice.help[1:]}" if choice.negative else choice.help
            defaults = "" if name in RUN else notes(choice, usual_default(choice, word))
            lines += entry(word(name), kind_of(choice), f"{spelled(help, word)} {defaults}")
    return "\n".join(lines)


def entry(name: str, kind: str, help: str) -> list[str]:
    """Return the lines of a parameter in a docstring."""
    return [f"{name} : {kind}", *textwrap.wrap(help.strip(), WIDTH, initial_indent="    ", subsequent_indent="    ")]


def kind_of(choice: Option) -> str:
    """Return the type of a choice in words."""
    if choice.choices:
        return f"{{{', '.join(map(repr, choice.choices))}}}, optional"
    kind = choice.kind.words if isinstance(choice.kind, ValueKind) else choice.kind.__name__
    return f"{kind} or list of {kind}, optional" if choice.by_degree else f"{kind}, optional"


def with_parameters(renamed: Mapping[str, str] = {}, without: Iterable[str] = ()) -> Callable[[F], F]:
    """Return a decorator that gives a function with ``**choices`` the signature and the docstring of training."""

    def decorate(function: F) -> F:
        own = signature(function)
        named = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        every = [*named, *parameters(renamed, without)]
        function.__signature__ = Signature(every, return_annotation=own.return_annotation)  # type: ignore[attr-defined]
        function.__doc__ = documented(function.__doc__ or "", renamed, without)
        return function

    return decorate


def documented(text: str, renamed: Mapping[str, str] = {}, without: Iterable[str] = (), more: str = "") -> str:
    """Return a docstring with the parameters, and `more` of them, in their place, which is alone in its line."""
    before, _, after = text.partition(PLACE)
    indent = before.rpartition("\n")[2]
    return before + textwrap.indent(described(renamed, without) + more, indent).lstrip() + after
