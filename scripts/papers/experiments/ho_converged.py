"""[HO] Figure 4, run to convergence on a sample of the rows, from several starts."""

import numpy as np
from convergence import curve
from experiment import Experiment, Numbers, Rule, Table, mean_and_spread
from fitting import Options
from sets.movielens import links
from sets.raw import Raw

RANK, INIT_STD, ROWS, STARTS = 8, 0.1, 2000, 5
PENALTY = {2: 1e-3, 3: 1e-4, 4: 1e-6}  # the paper's
SOLVERS: dict[str, Options] = {
    "cd": {"solver": "cd", "epochs": 2000, "tol": 0},
    "lbfgs": {"solver": "lbfgs", "epochs": 3000, "tol": 0},
}
CLOSE, STILL = 0.01, 0.001


def run(raw: Raw) -> Numbers:
    whole = links(raw, 0).train
    data = whole.take(np.sort(np.random.default_rng(0).permutation(whole.rows)[:ROWS]).astype(np.int32))
    numbers: Numbers = {}
    for order, l2 in PENALTY.items():
        common = {"loss": "squared", "order": order, "rank": RANK, "init_std": INIT_STD, "l2": l2}
        numbers[str(order)] = {
            solver: [curve(data, common | options | {"seed": seed}) for seed in range(STARTS)]
            for solver, options in SOLVERS.items()
        }
    return numbers


def last(found: list[Numbers]) -> list[float]:
    return [one["objective"][-1] for one in found]


def fall(found: list[Numbers]) -> float:
    """The largest relative fall of an objective between the last two points of its curve."""
    return max(1 - one["objective"][-1] / one["objective"][-2] for one in found)


def tables(numbers: Numbers) -> list[Table]:
    rows = [
        [
            order,
            solver,
            f"{min(last(found)):.5f}",
            mean_and_spread(last(found), 5),
            str(max(one["epochs"][-1] for one in found)),
            f"{max(one['seconds'][-1] for one in found):.1f}",
            f"{fall(found):.2%}",
        ]
        for order, by_solver in numbers.items()
        for solver, found in by_solver.items()
    ]
    head = [
        "m",
        "solver",
        "lowest objective",
        "mean",
        "epochs",
        "seconds",
        "largest fall in the last third of the epochs",
    ]
    return [Table(f"Objective at the end of {STARTS} starts", head, rows)]


EXPERIMENT = Experiment(
    name="ho_converged",
    source="[HO] Figure 4",
    title="do cd and lbfgs find the same minimum?",
    about=f"""
hofm-shared on a random {ROWS:,} of the training rows of the previous section, with {RANK} factors, so that both solvers
can be run for thousands of epochs from {STARTS} starts, which they share. l2 is the paper's.
""",
    rules=[
        Rule(
            f"the lowest objectives of cd and lbfgs are within {CLOSE:.0%} of each other, for each m.",
            lambda numbers: all(
                max(least) <= (1 + CLOSE) * min(least)
                for by_solver in numbers.values()
                for least in [[min(last(found)) for found in by_solver.values()]]
            ),
        ),
        Rule(
            f"both have converged: no objective falls by more than {STILL:.1%} in the last third of its epochs.",
            lambda numbers: all(fall(found) <= STILL for by_solver in numbers.values() for found in by_solver.values()),
        ),
    ],
    run=run,
    tables=tables,
)
