"""The progress of a run as named arrays, and the checks before another run continues from them.

The arrays may come from a file that others have changed. The checks raise ValueError, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Kept = Mapping[str, NDArray[Any]]
LARGEST = 2**53  # for counts: exact as a float
LONGEST_NAME = 40  # characters in a message


def under(prefix: str, kept: Kept) -> dict[str, NDArray[Any]]:
    """Return the arrays with a prefix added to all names."""
    return {f"{prefix}.{name}": array for name, array in kept.items()}


def part(prefix: str, kept: Kept) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names have a prefix, with the prefix removed."""
    return {name.removeprefix(f"{prefix}."): array for name, array in kept.items() if name.startswith(f"{prefix}.")}


def numbered(arrays: Iterable[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays named by their numbers."""
    return {str(number): array for number, array in enumerate(arrays)}


def in_order(kept: Kept) -> list[NDArray[Any]]:
    """Return the arrays named by `numbered`, in order. Raises ValueError for other names."""
    names = [str(number) for number in range(len(kept))]
    require_names(kept, names)
    return [kept[name] for name in names]


def require_names(kept: Kept, names: Collection[str]) -> None:
    """Raise ValueError unless the arrays have exactly these names."""
    for name in names:
        array_of(kept, name)
    for name in kept:
        if name not in names:
            raise ValueError(f"the array {name[:LONGEST_NAME]!r} is unknown")


def array_of(kept: Kept, name: str) -> NDArray[Any]:
    """Return the array with this name. Raises ValueError if it is missing."""
    if name not in kept:
        raise ValueError(f"the array {name} is missing")
    return kept[name]


def require_like(name: str, array: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Raise ValueError unless an array has the shape and the type of another array."""
    if array.shape != wanted.shape or array.dtype != wanted.dtype:
        shape, right = list(array.shape), list(wanted.shape)
        raise ValueError(f"the array {name} is {array.dtype}{shape}, but must be {wanted.dtype}{right}")


def require_each_like(name: str, arrays: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]) -> None:
    """Raise ValueError unless arrays have the shapes and the types of other arrays."""
    if len(arrays) != len(wanted):
        raise ValueError(f"{name} has {len(arrays)} arrays; it must have {len(wanted)}")
    for number, (array, like) in enumerate(zip(arrays, wanted, strict=True)):
        require_like(f"{name}.{number}", array, like)


def require_finite(name: str, array: NDArray[Any]) -> None:
    """Raise ValueError unless all numbers of an array are finite."""
    if not np.isfinite(array).all():
        raise ValueError(f"the array {name} has numbers that are not finite")


def whole_numbers(kept: Kept, name: str, count: int) -> list[int]:
    """Return the integers of an array of this length."""
    require_like(name, array_of(kept, name), np.empty(count, dtype=np.int64))
    values: list[int] = kept[name].tolist()
    return values


def whole_number(kept: Kept, name: str, lowest: int = 0, highest: int = LARGEST) -> int:
    """Return the integer in an array without dimensions."""
    require_like(name, array_of(kept, name), np.empty((), dtype=np.int64))
    return within(name, int(kept[name]), lowest, highest)


def within(name: str, value: int, lowest: int = 0, highest: int = LARGEST) -> int:
    """Return the value. Raises ValueError unless it is within bounds."""
    if not lowest <= value <= highest:
        wanted = f"{lowest}" if lowest == highest else f"from {lowest} to {highest}"
        raise ValueError(f"{name} is {value}; it must be {wanted}")
    return value


def real_number(kept: Kept, name: str, *, defined: bool = True) -> float:
    """Return the number in an array without dimensions. defined : whether it must be finite."""
    require_like(name, array_of(kept, name), np.empty((), dtype=np.float64))
    if defined:
        require_finite(name, kept[name])
    return float(kept[name])
