"""Errors as callers in Python know them: with the names of parameters, and as ValueError and its like, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fmcli.errors import (
    LEAVE_OUT,
    Also,
    BadInputError,
    FmcliError,
    MissingInputError,
    NotEnoughMemoryError,
    OutputError,
    UsageError,
)

# Errors that are also built-in errors, so callers need not know the classes of this package.
BUILT_IN: dict[type[FmcliError], type[Exception]] = {
    UsageError: ValueError,
    BadInputError: ValueError,
    MissingInputError: FileNotFoundError,
    OutputError: OSError,
    NotEnoughMemoryError: MemoryError,
}
# The options by which the command, and nothing else, leaves out rows of tables without a label.
OF_SKIPPING = {"missing_values", "on_bad_line"}


@contextmanager
def in_python() -> Iterator[None]:
    """Raise the errors of a call as a caller in Python expects them."""
    try:
        yield
    except FmcliError as error:
        kind = next((one for one in type(error).__mro__ if one in TWINS), None)
        if kind is None:
            raise
        raise TWINS[kind](text_of(error)) from error


def twin(kind: type[FmcliError]) -> type[FmcliError]:
    """Return a class of errors that is `kind` and the built-in one."""
    return type(kind.__name__, (kind, BUILT_IN[kind]), {"__module__": __name__, "__doc__": kind.__doc__})


TWINS = {kind: twin(kind) for kind in BUILT_IN}


def text_of(error: FmcliError) -> str:
    """Return the message of an error with the names of parameters in place of flags, and the values that help."""
    advice = []
    of_command = OF_SKIPPING if error.options.keys() >= OF_SKIPPING else ()
    for name, value in error.options.items():
        if name in of_command:
            continue  # callers in Python leave out the rows themselves
        if value is None:
            advice.append(f"see {name}")
        elif value is LEAVE_OUT:
            advice.append(f"leave out {name}")
        else:
            needed = value.value if isinstance(value, Also) else value
            values = needed if isinstance(needed, dict) else {needed: ""}
            advice += [f"use {name}={in_code(choice)} {purpose}".rstrip() for choice, purpose in values.items()]
    return "; ".join([error.text(in_python_words), *advice])


def in_code(value: Any) -> str:
    """Return the value of a parameter in Python; a list of one name is the name."""
    if isinstance(value, tuple):
        value = list(value) if len(value) > 1 else value[0]
    return repr(value)


def in_python_words(name: str) -> str:
    """Return the name of a choice in Python."""
    if name == "disk":
        return "cache"
    switch = name.removeprefix("no_")
    return f"{switch}=False" if switch != name else name


def refuse(condition: Any, message: str) -> None:
    """Raise UsageError with a message if a condition holds."""
    if condition:
        raise UsageError(message)
