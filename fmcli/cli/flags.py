"""Choices of a run as flags of the command line, for messages and the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmcli.errors import LEAVE_OUT, Also, FmcliError
from fmcli.registry.choices import RUN, long_flag
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import as_given
from fmcli.text import names_word, shell_word, value_word


def with_flag(name: str, value: Any) -> str:
    """Return a choice on the command line: "--rank 16", "--no-norm", "-m fm"."""
    if isinstance(value, bool):
        switch = name.replace("_", "-")
        return f"--{switch}" if value else f"--no-{switch}"
    if isinstance(value, tuple):
        value = names_word(value)
    return f"{flag_of(name)} {shell_word(value) if isinstance(value, str) else as_given(value)}"


def flag_of(name: str) -> str:
    """Return the flag of a choice: the short one of a run's, if there is one; the long one of others, which options of
    models, solvers and losses are, and options of other commands."""
    return RUN[name].flags[0] if name in RUN and RUN[name].flags else long_flag(name)


def with_flags(error: FmcliError) -> str:
    """Return the message of an error, followed by the choices that help."""
    advice, uses, beside = [], [], ""
    for name, value in error.options.items():
        if value is None:
            advice.append(f"see {flag_of(name)}")
        elif value is LEAVE_OUT:
            advice.append(f"leave out {flag_of(name)}")
        elif isinstance(value, dict):
            uses += [f"{with_flag(name, choice)} {purpose}".rstrip() for choice, purpose in value.items()]
        elif isinstance(value, Also):
            beside += f", and {with_flag(name, value.value)}"
        else:
            uses.append(with_flag(name, value))
    return "; ".join([error.text(flag_of), *advice, *([f"use {', or '.join(uses)}{beside}"] if uses else [])])


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as the words of a command line."""
    flags = {name: OPTIONS[name].flags[0] if OPTIONS[name].flags else OPTIONS[name].flag for name in options}
    words = [
        [with_flag(name, value)] if isinstance(value, bool) else [flags[name], value_word(value)]
        for name, value in options.items()
    ]
    return [word for of_option in words for word in of_option]
