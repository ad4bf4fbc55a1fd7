"""Numbers to text: the shortest digits that give back the same number of the build's real type."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

REAL: Literal["float", "double"]
"""The type of parameters in this build; numbers are rounded to it before they are written."""

def format_values(values: NDArray[np.float64]) -> bytes:
    """One number a line. `values`: (rows). Minus zero is written as 0."""

def format_table(values: NDArray[np.float64]) -> bytes:
    """One row a line, its numbers separated by one blank. `values`: (rows, columns)."""
