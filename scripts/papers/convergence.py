"""The objective of hofm-shared by epoch and by CPU second, for several solvers."""

from collections.abc import Collection, Mapping

import numpy as np
from experiment import Figure, Numbers, Table
from fitting import Options, spec_of
from watching import spaced, watched

from fmcli.data.dataset import Dataset
from fmcli.training import job

POINTS = 16  # of a curve
ROUNDING = 1e-5  # the relative increase of an objective that is tolerated: scores are updated incrementally
NEAR = 0.01  # of the lowest objective
FLOOR = 1e-4  # of figures: what is closer to the lowest objective is drawn at this height


def curve(data: Dataset, options: Options, points: int = POINTS) -> Numbers:
    """What `watched` returns for hofm-shared, at so many points."""
    plan = job.plan(data, spec_of("hofm-shared", options))
    return watched(plan, data, spaced(options["epochs"], points))


def never_rises(curves: Collection[Numbers]) -> bool:
    """Whether no objective of these curves rises."""
    found = [np.array(one["objective"]) for one in curves]
    return all((np.diff(one) <= ROUNDING * one[:-1]).all() for one in found)


def lowest(by_solver: Mapping[str, Numbers]) -> float:
    return float(min(min(one["objective"], default=np.inf) for one in by_solver.values()))


def seconds_until_near(one: Numbers, least: float) -> float:
    """The CPU seconds until the objective is NEAR its lowest value, infinite if it never is."""
    near = [s for s, value in zip(one["seconds"], one["objective"], strict=True) if value <= (1 + NEAR) * least]
    return float(near[0]) if near else float("inf")


def ends(caption: str, curves: Mapping[str, Mapping[str, Numbers]]) -> Table:
    """The end of each curve. curves : by title and by solver."""
    rows = []
    for title, by_solver in curves.items():
        least = lowest(by_solver)
        for solver, one in by_solver.items():
            until = seconds_until_near(one, least)
            near = f"{until:.2f}" if np.isfinite(until) else "not reached"
            ends_at = ("epochs", "{}"), ("seconds", "{:.1f}"), ("objective", "{:.5f}")
            last = [form.format(one[name][-1]) if one[name] else "" for name, form in ends_at]
            last[0] += " diverged" if one.get("diverged") else ""
            rows.append([title, solver, *last, near])
    head = ["problem", "solver", "epochs", "seconds", "objective", f"seconds until within {NEAR:.0%} of the lowest"]
    return Table(caption, head, rows)


def figure(caption: str, curves: Mapping[str, Mapping[str, Numbers]]) -> Figure:
    """How far each curve is above the lowest objective of its problem, by epoch."""
    panels = {}
    for title, by_solver in curves.items():
        least = lowest(by_solver)
        panels[title] = {
            solver: (one["epochs"], [max(value / least - 1, FLOOR) for value in one["objective"]])
            for solver, one in by_solver.items()
            if one["epochs"]
        }
    return Figure(caption, "epoch", "(objective - lowest) / lowest", panels, log_x=True, log_y=True, digits=5)
