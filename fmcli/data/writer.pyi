"""Number formatting: the fewest digits that read back as the same number of the real type of the build."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

REAL: Literal["float", "double"]
"""The type of parameters in this build; numbers are rounded to it before they are written."""

def format_values(values: NDArray[np.float64]) -> bytes:
    """Write one number per line. `values`: (rows). Minus zero is written as 0."""

def format_table(values: NDArray[np.float64]) -> bytes:
    """Write one row per line, with its numbers separated by a space. `values`: (rows, columns)."""
