"""Ranges of options, for a search to draw values from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fmcli.errors import UsageError, called
from fmcli.records import dataclass
from fmcli.registry.options import Option

DOTS, COMMA = "..", ","
# Drawn numbers have this many significant digits, so a command can repeat them.
DIGITS = 3
# The methods by which a search draws values, with their default numbers of trials.
TPE = "tpe"
SAMPLERS = {
    "near": "near the best ones so far, and a third of them anywhere",
    "random": "anywhere",
    TPE: "by the TPE of Optuna, which must be installed",
}
TRIALS = 50
# Options with a single value per run -> the reason.
SINGLE = {
    "epochs": "the search chooses the number of epochs by itself",
    "seed": "a seed is not a choice between models",
    **dict.fromkeys(
        ("scale", "norm", "clip", "scale_labels"), "all trials share the rows in memory, as they are transformed"
    ),
    **dict.fromkeys(("shuffle", "round_size"), "it is not a choice between models"),
    **dict.fromkeys(("draws", "burn_in"), "more draws are better, but take longer"),
    "init_strength": "no trial resumes from a model",
}


@dataclass(frozen=True)
class Range:
    """The possible values of an option.

    low, high : the ends; numbers are uniform on a logarithmic scale if low > 0.
    choices : the values, in place of ends.
    relative : whether the ends are factors of the default.
    whole : whether values are integers.
    """

    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()
    relative: bool = False
    whole: bool = False

    def at(self, unit: float, usual: Any = None) -> Any:
        """Return the value at a position in [0, 1). usual : the default of the option, for a relative range."""
        if self.choices:
            return self.choices[int(unit * len(self.choices))]
        low, high = self.low, self.high + self.whole
        value = low * (high / low) ** unit if low > 0 else low + unit * (high - low)
        if self.whole:
            return int(value)
        return float(f"{value * usual if self.relative else value:.{DIGITS}g}")

    def nearest(self, usual: Any) -> Any:
        """Return the value nearest to the default; without a numeric default, the first choice, or the middle."""
        if usual in self.choices:
            return usual
        known = isinstance(usual, int | float)
        if self.choices:
            are_numbers = known and all(isinstance(choice, int | float) for choice in self.choices)
            return min(self.choices, key=lambda choice: abs(choice - usual)) if are_numbers else self.choices[0]
        if not known:
            return self.at(0.5)
        found = min(max(usual, self.low), self.high)
        return int(found) if self.whole else found

    def spaced(self, number: int, usual: Any = None) -> list[Any]:
        """Return `number` values at equal distances from the lowest to the highest; or all choices, sorted."""
        if self.choices:
            return sorted(self.choices)
        return [self.at(place / (number - 1), usual) for place in range(number)]

    def place_of(self, value: Any, usual: Any = None) -> float | None:
        """Return the position of a value, the inverse of `at`; None if it has none."""
        if self.choices:
            return (self.choices.index(value) + 0.5) / len(self.choices) if value in self.choices else None
        low, high = self.low, self.high + self.whole
        value = value / usual if self.relative else value + 0.5 * self.whole
        if low > 0:
            return math.log(value / low) / math.log(high / low) if value > 0 else None
        return float((value - low) / (high - low))


def by(factor: float, other: float | None = None) -> Range:
    """Return the range from 1/factor of the default to `other` (None: `factor`) times the default."""
    return Range(1 / factor, other or factor, relative=True)


def of(*choices: Any) -> Range:
    """Return a range of listed values."""
    return Range(choices=choices)


def is_range(text: object) -> bool:
    """Return whether the text of an option is a range."""
    return isinstance(text, str) and (DOTS in text or COMMA in text)


def read(option: Option, text: str, convert: Callable[[str], Any]) -> Range:
    """Return the range in a text: low..high, or values separated by commas. convert : converts the text of a value.

    Raises UsageError, and the errors of `convert`.
    """
    name = called(option.name)
    asked = f"{name} {text}"
    if reason := SINGLE.get(option.name):
        raise UsageError(f"{asked}: {name} is not tuned: {reason}; give one value, or leave it out")
    if COMMA in text:
        choices = tuple(checked(option, convert(part), asked) for part in text.split(COMMA))
        if len(set(map(str, choices))) < len(choices):
            raise UsageError(f"{asked}: a value is given twice; leave one out")
        return Range(choices=choices)
    if option.kind not in (int, float):
        raise UsageError(f"{asked}: {name} has no range from .. to; list its values, separated by commas")
    parts = text.split(DOTS, 1)
    ends = [checked(option, convert(part), asked) for part in parts]
    if not all(isinstance(end, int | float) for end in ends):
        raise UsageError(f"{asked}: the ends of a range must be numbers")
    if ends[0] >= ends[1]:
        raise UsageError(f"{asked}: a range begins with its smaller end; write {parts[1]}{DOTS}{parts[0]}")
    return Range(float(ends[0]), float(ends[1]), whole=option.kind is int)


def checked(option: Option, value: Any, asked: str) -> Any:
    """Return the value. Raises UsageError if the option does not permit it."""
    if not option.permits(value):
        raise UsageError(f"{asked}: {value} is not permitted; it must be {option.range() or 'a number'}")
    return value
