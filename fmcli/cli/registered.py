"""Options of the registry as options of the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fmcli.cli.options import F, option
from fmcli.cli.spellings.translate import LIBFM
from fmcli.errors import UsageError
from fmcli.registry.derived import Derived, of_libfm
from fmcli.registry.options import OPTIONS, Option
from fmcli.registry.words import notes

METAVARS = {int: "N", float: "X", str: "NAME"}


def by_degree(kind: type) -> Callable[[str], Any]:
    """Return the type of an option that is a number, or several numbers separated by slashes."""
    one = click.types.convert_type(kind)

    def convert(value: str) -> Any:
        numbers = [one(part) for part in value.split("/")]
        return numbers if len(numbers) > 1 else numbers[0]

    return convert


def strength(value: str) -> float | Derived:
    """Return the type of an L2 penalty option: a number, or the prefix LIBFM and a strength in libFM's convention."""
    number = float(click.FLOAT(value.removeprefix(LIBFM)))
    return of_libfm(number) if value.startswith(LIBFM) else number


# Types of options whose values are not only numbers.
TYPES = {"l2_w": strength, "l2_v": strength}


def converted(choice: Option) -> Callable[[str], Any]:
    """Return what makes a value of the text of an option with several values; it raises UsageError."""
    kind = click.types.convert_type(by_degree(choice.kind) if choice.by_degree else TYPES.get(choice.name, choice.kind))

    def convert(text: str) -> Any:
        try:
            return kind(text)
        except click.BadParameter as error:
            accepted = f"{choice.range(exact=False)}, " if choice.range() else ""
            raise UsageError(
                f"{choice.flag}: {error.message.rstrip('.')}; give {accepted}several values as A,B,C, or a range as "
                "A..B"
            ) from error

    return convert


def registered(section: str) -> Callable[[F], F]:
    """Return the options of one group of the registry. An option that is not given is None, to distinguish it from a
    given default."""

    def decorate(function: F) -> F:
        for choice in reversed([choice for choice in OPTIONS.values() if choice.group == section]):
            function = _registered(choice)(function)
        return function

    return decorate


def _registered(choice: Option) -> Callable[[F], F]:
    flag = choice.name.replace("_", "-")
    text = f"{choice.help} {notes(choice)}".rstrip()
    if choice.kind is bool:
        declaration = f" /--no-{flag}" if choice.negative else f"--{flag}/--no-{flag}"
        return option(choice.group, declaration, choice.name, default=None, help=text)
    return option(
        choice.group,
        *choice.flags,
        f"--{flag}",
        choice.name,
        type=by_degree(choice.kind) if choice.by_degree else TYPES.get(choice.name, choice.kind),
        metavar=METAVARS[choice.kind],
        help=text,
        names=choice.choices,
    )
