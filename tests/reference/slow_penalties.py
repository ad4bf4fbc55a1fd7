"""The formulas of the group penalties: the value for a row, and the proximal operator."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

Array = np.ndarray


@dataclass(frozen=True)
class Group:
    """A penalty on a whole parameter row.

    value : Ω of all parameters of a row.
    prox : (c, d, strength, rest) -> argmin over v of Σ(½d v² − c v) + strength·Ω([v, rest]).
    """

    value: Callable[[Array], float]
    prox: Callable[[Array, Array, float, Array], Array]


def norm(v: Array) -> float:
    """‖v‖."""
    return float(np.linalg.norm(v))


def prox_of_norm(c: Array, d: Array, strength: float, rest: Array) -> Array:
    """v = c/(d + λ_g/nu), where nu² = ‖v‖² + ‖rest‖²."""
    if norm(c) <= strength and norm(rest) == 0:
        return np.zeros_like(c)
    v_at = lambda nu: c * nu / (d * nu + strength)  # noqa: E731
    excess = lambda nu: np.hypot(norm(v_at(nu)), norm(rest)) / nu - 1  # noqa: E731
    highest = norm(c / d) + norm(rest)
    return v_at(brentq(excess, 1e-12 * highest, 2 * highest, xtol=1e-300, rtol=1e-14))


GROUPS = {"group_l1": Group(norm, prox_of_norm)}
