"""The choices of a run as options of commands: each entry of the registry's table becomes an option of click."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fmcli.cli.files import (
    CACHE,
    DATA,
    LOG,
    MODEL,
    CheckpointFile,
    InputFile,
    OutputFile,
    QueryFile,
    RelationFile,
    TableOfColumn,
)
from fmcli.cli.flags import flag_of
from fmcli.cli.options import not_negative, option, positive, positive_number
from fmcli.cli.relations import names, once_each
from fmcli.cli.spellings.translate import LIBFM
from fmcli.errors import UsageError
from fmcli.registry import kinds
from fmcli.registry.choices import CHOICES, DEFAULTS, RUN, Choices, spelled
from fmcli.registry.derived import Derived, of_libfm
from fmcli.registry.entry import Entry
from fmcli.registry.kinds import Kind
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import LARGEST, OPTIONS, Option
from fmcli.registry.row_choices import BALANCED
from fmcli.registry.run_choices import METRIC_NAMES
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.words import notes

F = TypeVar("F", bound=Callable[..., Any])

METAVARS: Mapping[Kind, str] = {int: "N", float: "X", str: "NAME"}


def helps(table: Mapping[str, Entry]) -> dict[str, str]:
    """Return name -> help of each entry of a table."""
    return {entry.name: entry.help for entry in table.values()}


# The values that shells complete, with a description of each.
NAMES: Mapping[str, Iterable[str]] = {
    "model": helps(MODELS),
    "solver": helps(SOLVERS),
    "loss": helps(LOSSES),
    "metrics": METRIC_NAMES,
}


def by_degree(kind: Kind) -> Callable[[str], Any]:
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


def holdout(value: str) -> Any:
    """Return the type of rows that are held out."""
    from fmcli.training.setup.held import held

    try:
        return held(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def united(context: click.Context, parameter: click.Parameter, lists: tuple[tuple[str, ...], ...]) -> Any:
    """Return the names of an option that is given several times."""
    return tuple(name for some in lists for name in some)


def weights(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Any:
    """Return label -> weight of texts LABEL=W, or BALANCED; None if there are none."""
    if not texts or texts == (BALANCED,):
        return BALANCED if texts else None
    found = {}
    for text in texts:
        label, _, weight = text.rpartition("=")
        try:
            found[label or text] = positive_number(weight if label else "")
        except ValueError as error:
            raise UsageError(
                f"--class-weight {text}: it must be LABEL=W with a number W > 0, such as 1=2.5, or {BALANCED} alone"
            ) from error
    if len(found) < len(texts):
        raise UsageError("--class-weight gives a label two weights; give one of them")
    return found


# The attributes of options of each kind.
ATTRIBUTES: Mapping[Kind, dict[str, Any]] = {
    kinds.FLAG: {"is_flag": True},
    kinds.COUNT: {"count": True},
    kinds.NAMES: {"type": names, "multiple": True, "callback": united},
    kinds.TEXTS: {"multiple": True},
    kinds.LABEL: {},
    kinds.WEIGHTS: {"multiple": True, "callback": weights},
    kinds.HELD: {"type": holdout},
    kinds.INPUT: {"type": InputFile(), "metavar": "FILE"},
    kinds.INPUTS: {"type": InputFile(), "metavar": "FILE", "multiple": True},
    kinds.MODEL_FILE: {"type": InputFile(becomes=MODEL), "metavar": "FILE"},
    kinds.QUERY: {"type": QueryFile()},
    kinds.JOINED: {"type": TableOfColumn(), "multiple": True, "callback": once_each},
    kinds.RELATIONS: {"type": RelationFile(), "multiple": True},
    kinds.NEW_MODEL: {"type": OutputFile(MODEL), "metavar": "FILE"},
    kinds.NEW_DATA: {"type": OutputFile(DATA), "metavar": "FILE"},
    kinds.NEW_LOG: {"type": OutputFile(LOG), "metavar": "FILE"},
    kinds.NEW_CACHE: {"type": OutputFile(CACHE), "metavar": "FILE"},
    kinds.NEW_CHECKPOINT: {"type": CheckpointFile(), "metavar": "FILE"},
}
# The attributes of {missing_values} for a model that knows tables.
AS_IN_TRAINING: Mapping[str, Any] = {
    "help": "Of a table: further cells that are like empty ones, such as ?,NA. [default: as in training]"
}
# Types of options of models, solvers and losses whose values are not only numbers.
TYPES: Mapping[str, Any] = {"l2_w": strength, "l2_v": strength}


def type_of(choice: Option) -> Any:
    """Return the type of an option that is a number or a text. The ranges of options of models, solvers and losses are
    checked with these."""
    if choice.name in OPTIONS:
        return by_degree(choice.kind) if choice.by_degree else TYPES.get(choice.name, choice.kind)
    if choice.choices:
        return click.Choice(choice.choices)
    if choice.kind is int:
        assert choice.low is not None
        return click.IntRange(int(choice.low), None if choice.high == LARGEST else int(choice.high or 0))
    number = positive if choice.open_low else not_negative
    return number if choice.kind is float else choice.kind


def converted(choice: Option) -> Callable[[str], Any]:
    """Return the parser of the text of an option with several values; it raises UsageError."""
    kind = click.types.convert_type(type_of(choice))

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


def help_of(choice: Option) -> str:
    """Return the help of a choice, with its default."""
    text = spelled(choice.help, flag_of)
    return text if choice.name in RUN else f"{text} {notes(choice)}".rstrip()


def chosen(name: str, section: str = "", **attributes: Any) -> Callable[[F], F]:
    """Return the option of a choice.

    section : of the help; "": the section of the choice.
    attributes : of click, such as the help, that replace the attributes of the table for this command.
    """
    choice = CHOICES[name]
    flag = choice.flag
    of_kind: dict[str, Any] = {**ATTRIBUTES[choice.kind]} if choice.kind in ATTRIBUTES else {"type": type_of(choice)}
    if choice.kind is bool:
        of_kind = {"default": choice.default if name in RUN else None}
        flag = f" /{flag}" if choice.negative else f"{flag}/--no-{flag.removeprefix('--')}"
    elif choice.default is not None and choice.kind != kinds.COUNT and name in RUN:
        of_kind["default"] = choice.default
    if choice.kind is not bool and not of_kind.get("is_flag") and not of_kind.get("count"):
        of_kind["metavar"] = choice.metavar or of_kind.get("metavar") or METAVARS.get(choice.kind, "FILE")
    if choice.choices and name in RUN and not choice.metavar:
        of_kind.pop("metavar")
    short = [one for one in choice.flags if one != flag]
    of_command = {"help": help_of(choice), "names": NAMES.get(name, choice.choices if name in OPTIONS else ())}
    return option(section or choice.group, *short, flag, name, **{**of_kind, **of_command, **attributes})


def with_choices(*names: str | Callable[[Any], Any], **described: Mapping[str, Any]) -> Callable[[F], F]:
    """Return a decorator that adds the options of choices to a command, which gets their values as `choices`.

    names : of choices; or further options, which have no value.
    described : choice -> attributes of its option that replace the attributes of the table for this command.
    """
    added = {name for name in names if isinstance(name, str)} | described.keys()

    def decorate(function: F) -> F:
        @wraps(function)
        def command(*arguments: Any, **values: Any) -> Any:
            own = {name: value for name, value in values.items() if name not in added}
            return function(*arguments, **own, choices=current(added))

        found: Any = command
        for name, attributes in reversed(described.items()):
            found = chosen(name, **attributes)(found)
        for one in reversed(names):
            found = (chosen(one) if isinstance(one, str) else one)(found)
        return found  # type: ignore[no-any-return]

    return decorate


def current(among: Collection[str] = CHOICES, context: click.Context | None = None) -> Choices:
    """Return choices of a command.

    among : the names of the ones that count; all others have their defaults.
    context : of the command; None: the one that is running.
    """
    context = context or click.get_current_context()
    values = {name: context.params[name] for name in among if name in context.params}
    given = {name for name in values if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    return Choices({**DEFAULTS, **values}, frozenset(given))
