"""JSON files that a user gives. They may be untrusted, or not JSON at all."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, NoReturn

from fmcli.errors import BadInputError, MissingInputError

# The most levels of lists and tables. No valid file has as many, and Python's functions for nested values have limits.
DEEPEST = 32
MOST_BYTES = 256 << 20  # the file is read whole, and takes about ten times the memory when parsed


def check_file(path: str, what: str) -> None:
    """Raise BadInputError if a path names a file that is too large, or a pipe or a device, which may never end or may
    wait for a writer. A missing file is found when it is opened.

    what : what the file should be, for messages.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(status.st_mode):
        raise BadInputError(f"{path}: is not {what}, but no regular file")
    if status.st_size > MOST_BYTES:
        raise BadInputError(f"{path}: is larger than {MOST_BYTES >> 20} MiB, too large for {what}")


def text_of(path: str, what: str) -> str:
    """Return the text of a file that passes `check_file`. Raises BadInputError and MissingInputError."""
    check_file(path, what)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise MissingInputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not {what}, which is text in UTF-8") from error


def parse(text: str) -> Any:
    """Parse JSON. Unlike json.loads, this rejects repeated names, NaN and deeply nested values. Raises
    ValueError."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(value, (dict, list)) and text.count("[") + text.count("{") > DEEPEST and _is_deeper(value, DEEPEST):
        raise ValueError("it is nested too deeply")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    nested = [value]  # the lists and tables of one level; deeper levels have few
    for _ in range(levels):
        contents = (one.values() if isinstance(one, dict) else one for one in nested)
        nested = [one for inner in contents for one in inner if isinstance(one, (dict, list))]
    return bool(nested)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name occurs twice")
    return values


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
