"""Sums of vectors that are as long as a model's parameters. They need no memory for products: the kernel clears new
memory, which takes as long as the arithmetic."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
PIECE = 1 << 14  # numbers whose products stay in the cache


def add_multiple(total: Vector, factor: float, vector: Vector) -> None:
    """total += factor * vector."""
    set_sum(total, total, factor, vector)


def set_sum(total: Vector, first: Vector, factor: float, second: Vector) -> None:
    """total = first + factor * second. Raises ValueError if the vectors are not of one size."""
    if not len(total) == len(first) == len(second):
        raise ValueError(f"vectors of {len(total)}, {len(first)} and {len(second)} numbers")
    products = np.empty(min(PIECE, len(total)))
    for begin in range(0, len(total), PIECE):
        piece = slice(begin, begin + PIECE)
        some = np.multiply(second[piece], factor, out=products[: len(second[piece])])
        np.add(first[piece], some, out=total[piece])
