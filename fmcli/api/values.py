"""The values of keyword arguments, by the types that their signature states: NumPy's scalars become numbers of Python,
which model files can keep, and a text in place of a list of names is one name."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from fmcli.errors import UsageError
from fmcli.registry.choices import RUN
from fmcli.registry.derived import Derived
from fmcli.registry.kinds import HELD, WEIGHTS, ValueKind
from fmcli.registry.options import Option
from fmcli.registry.row_choices import BALANCED
from fmcli.system.machine import cpu_count
from fmcli.text import escaped
from fmcli.training.setup.held import Held, held


def value_of(name: str, value: Any, kind: str) -> Any:
    """Return the value of an argument.

    kind : the annotation of the argument, alternatives of the names in KINDS: "int | None".

    Raises UsageError for a value of another type.
    """
    alternatives = [one for one in kind.split(" | ") if one != "None"]
    if value is None or "Any" in alternatives:
        return value
    for one in alternatives:
        found = KINDS[one][1](value)
        if found is not None:
            return found
    raise UsageError(f"{name} is {value!r}; it must be {' or '.join(KINDS[one][0] for one in alternatives)}")


def choice_value(choice: Option, value: Any) -> Any:
    """Return the value of a choice, as the command has it. Raises UsageError for one of another type, or out of its
    range."""
    if isinstance(value, Derived):
        return value
    name, kind = choice.name, choice.kind
    if choice.by_degree and isinstance(value, list | tuple | np.ndarray):
        return [value_of(name, one, kind.__name__) for one in value]
    if isinstance(kind, ValueKind):
        found = value_of(name, value, kind.annotation)
        return OF_KIND[kind](found) if kind in OF_KIND else found
    found = value_of(name, value, kind.__name__)
    if name in RUN and kind is not bool and (choice.choices or choice.low is not None) and not choice.permits(found):
        raise UsageError(f"{name} is {found!r}; it must be {choice.range(exact=False)}")
    return found


def held_out(value: float | str) -> Held:
    """Return which rows are held out. Raises UsageError."""
    try:
        return held(value)
    except ValueError as error:
        raise UsageError(f"holdout: {error}") from error


def weights_of(value: Mapping[Any, float] | str) -> Mapping[str, float] | str:
    """Return label -> weight, or BALANCED. Raises UsageError."""
    if isinstance(value, str):
        if value != BALANCED:
            raise UsageError(f"class_weight is {value!r}, expected {BALANCED!r} or a dict")
        return value
    weights = {escaped(str(label)): value_of(f"the weight of {label}", one, "float") for label, one in value.items()}
    for label, weight in weights.items():
        if not 0 < weight < math.inf:
            raise UsageError(f"the weight of {label} in class_weight is {weight}; it must be positive")
    return weights


# What values of a kind become, beside the types of their annotation.
OF_KIND: Mapping[ValueKind, Callable[[Any], Any]] = {HELD: held_out, WEIGHTS: weights_of}


def names_of(name: str, value: Any) -> tuple[str, ...]:
    """Return a list of names: a text is one. Raises UsageError."""
    found: tuple[str, ...] = value_of(name, value, "Sequence[str]")
    return found


def path_of(name: str, value: Any) -> str:
    """Return the name of a file. Raises UsageError for anything else, such as bytes."""
    return str(value_of(name, value, "PathLike[str]"))


def threads_of(value: Any) -> int:
    """Return a number of threads; None: one for each core. Raises UsageError."""
    number = value_of("threads", value, "int | None")
    if number is not None and number < 1:
        raise UsageError("threads must be at least 1")
    return number or cpu_count()


def _whole(value: Any) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, Integral):
        return int(value)
    return int(float(value)) if isinstance(value, Real) and float(value).is_integer() else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None


def _switch(value: Any) -> bool | None:
    is_switch = isinstance(value, bool | np.bool_) or (isinstance(value, Integral) and value in (0, 1))
    return bool(value) if is_switch else None


def _names(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return (str(value),)
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        return None
    found = list(value)
    return tuple(map(str, found)) if all(isinstance(one, str) for one in found) else None


def _path(value: Any) -> str | None:
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    return found if isinstance(found, str) else None


# Annotation -> the type in words, and a function that returns a value as this type; None: it is none of this type.
KINDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "int": ("an integer", _whole),
    "float": ("a number", _number),
    "bool": ("True or False", _switch),
    "str": ("a text", lambda value: str(value) if isinstance(value, str) else None),
    "Sequence[str]": ("a name, or a list of names, which are texts", _names),
    "Iterable[str]": ("a name, or a list of names, which are texts", _names),
    "Mapping[Any, float]": ("a dict", lambda value: value if isinstance(value, Mapping) else None),
    "PathLike[str]": ("the name of a file, as a text or a path", _path),
}
