"""The steps of L-BFGS."""

import math

import pytest

from fmcli.solvers.full_batch.line_search import DECREASE, REMAINING, Point, search

# Functions of the step, and their derivatives; each falls at 0.
FUNCTIONS = {
    "a minimum far away": (lambda t: (t - 300) ** 2, lambda t: 2 * (t - 300)),
    "a minimum nearby": (lambda t: (t - 1e-3) ** 2, lambda t: 2 * (t - 1e-3)),
    "waves": (lambda t: math.sin(3 * t + 2) + t * t / 20, lambda t: 3 * math.cos(3 * t + 2) + t / 10),
    "higher waves behind lower ones": (
        lambda t: math.sin(5 * t + 2) / 2 + t * t / 20,
        lambda t: 2.5 * math.cos(5 * t + 2) + t / 10,
    ),
    "a wall": (lambda t: t * t - t if t < 0.6 else math.inf, lambda t: 2 * t - 1 if t < 0.6 else math.nan),
    "no number": (lambda t: -t if t < 0.01 else math.nan, lambda t: -1.0 if t < 0.01 else math.nan),
    "a kink": (lambda t: abs(t - 0.4), lambda t: math.copysign(1, t - 0.4)),
}


@pytest.mark.parametrize("first", [1e-6, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_is_acceptable_or_the_best_one(name, first):
    value, slope = FUNCTIONS[name]
    tried = []

    def at(step):
        tried.append(Point(step, value(step), slope(step)))
        return tried[-1]

    start = Point(0.0, value(0.0), slope(0.0))
    found = search(at, start, first, 40)
    assert found in tried
    low = [point.value for point in tried if point.value <= start.value + DECREASE * point.step * start.slope]
    assert found.value == min(low)
    if name in ("no number", "a kink"):  # no point is flat enough
        assert len(tried) <= 40
        assert found.value == min(point.value for point in tried if point.value == point.value)
    else:
        assert abs(found.slope) <= REMAINING * abs(start.slope)
        assert len(tried) < 25


def test_there_may_be_no_step():
    start = Point(0.0, 1.0, -1.0)
    assert search(lambda step: Point(step, 2.0, 1.0), start, 1.0, 9) is None
