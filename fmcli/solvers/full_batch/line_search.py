"""The step of a descent method along one direction: the strong Wolfe conditions.

Nocedal and Wright, Numerical Optimization, 2nd edition, section 3.5: the interval that must contain an acceptable step
is found, and narrowed by cubic interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

# The decrease that a step must reach, relative to the decrease along the slope at the start, and the fraction of the
# slope that may remain.
DECREASE, REMAINING = 1e-4, 0.9
# A longer step is this many times as long. An interpolated one keeps this fraction of the interval away from both ends.
LONGER, MARGIN = (2.0, 10.0), 0.1


class Point(NamedTuple):
    """The objective and its slope at a step along the direction."""

    step: float
    value: float
    slope: float


def search(at: Callable[[float], Point], start: Point, step: float, most: int) -> Point | None:
    """Return the point of an acceptable step, else the best point with enough decrease; None without one.

    Parameters
    ----------
    at : evaluates a step. Values that are not finite count as too large.
    start : the point of step 0, where the slope is negative.
    step : the first step to try.
    most : evaluations.
    """
    low, high = start, None
    for _ in range(most):
        point = at(step)
        if not reaches(point, start) or point.value >= low.value:
            high = point
        else:
            if abs(point.slope) <= -REMAINING * start.slope:
                return point
            towards = point.slope < 0 if high is None else point.slope * (high.step - point.step) < 0
            low, high = point, high if towards else low
        following = between(low, high) if high else beyond(start, low)
        if following == step:
            break
        step = following
    return low if low.step else None


def reaches(point: Point, start: Point) -> bool:
    """Return whether a point has the decrease that is required."""
    return point.value <= start.value + DECREASE * point.step * start.slope  # False for nan


def beyond(start: Point, low: Point) -> float:
    """Return a longer step."""
    shortest, longest = (low.step * factor for factor in LONGER)
    found = minimum(start, low)
    return min(max(found, shortest), longest) if math.isfinite(found) else longest


def between(low: Point, high: Point) -> float:
    """Return a step within the interval."""
    width = high.step - low.step
    known = width and math.isfinite(high.value + high.slope)
    share = (minimum(low, high) - low.step) / width if known else math.nan
    return low.step + width * (min(max(share, MARGIN), 1 - MARGIN) if math.isfinite(share) else 0.5)


def minimum(a: Point, b: Point) -> float:
    """Return the step that minimizes the cubic with the values and slopes of both points (equation 3.59); nan if there
    is none, or if both steps are the same."""
    if a.step == b.step:
        return math.nan
    first = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step)
    square = first * first - a.slope * b.slope
    if not square >= 0:
        return math.nan
    second = math.copysign(math.sqrt(square), b.step - a.step)
    divisor = b.slope - a.slope + 2 * second
    return b.step - (b.step - a.step) * (b.slope + second - first) / divisor if divisor else math.nan
