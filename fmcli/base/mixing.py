"""Random numbers that depend only on a key: splitmix64 (Steele, Lea and Flood, 2014)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
# The constants of splitmix64.
WEYL, FIRST, SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mixed(keys: Keys) -> Keys:
    """Return splitmix64 of the keys."""
    with np.errstate(over="ignore"):
        found = keys + WEYL
        found = (found ^ found >> np.uint64(30)) * FIRST
        found = (found ^ found >> np.uint64(27)) * SECOND
        return found ^ found >> np.uint64(31)
