"""[HO] Figures 1 to 3: the objective of three solvers, on drawn networks of the shapes of the paper's data."""

from convergence import curve, ends, figure, lowest, never_rises, seconds_until_near
from experiment import Experiment, Figure, Numbers, Rule, Table
from fitting import Options
from sets.network import GROUPS, SHAPES, WITHIN, drawn_network
from sets.raw import Raw

RANK, INIT_STD = 30, 0.1
# The paper's, by the order.
PENALTY = {
    "NIPS": {2: 0.1, 3: 0.1, 4: 0.1},
    "Enzyme": {2: 0.1, 3: 0.1, 4: 0.01},
    "GD": {2: 0.01, 3: 0.01, 4: 0.0001},
}
SOLVERS: dict[str, Options] = {
    "cd": {"solver": "cd", "epochs": 60, "tol": 0},
    "lbfgs": {"solver": "lbfgs", "epochs": 200, "tol": 0},
    "fobos 0.01": {"solver": "fobos", "adaptive": True, "learning_rate": 0.01, "epochs": 60},
    "fobos 0.1": {"solver": "fobos", "adaptive": True, "learning_rate": 0.1, "epochs": 60},
}


def run(raw: Raw) -> Numbers:
    numbers: Numbers = {}
    for name, by_order in PENALTY.items():
        data = drawn_network(raw, name)
        for order, l2 in by_order.items():
            common = {"loss": "squared", "order": order, "rank": RANK, "init_std": INIT_STD, "l2": l2}
            numbers[title(name, order)] = {solver: curve(data, common | options) for solver, options in SOLVERS.items()}
    return numbers


def title(name: str, order: int) -> str:
    return f"{name}, m = {order}"


def cd_is_faster(numbers: Numbers, name: str, order: int) -> bool:
    """Whether cd comes close to the lowest objective in fewer CPU seconds than lbfgs."""
    found = numbers[title(name, order)]
    cd, lbfgs = (seconds_until_near(found[solver], lowest(found)) for solver in ("cd", "lbfgs"))
    return cd < lbfgs


def tables(numbers: Numbers) -> list[Table]:
    return [ends("Objective at the end", numbers)]


def figures(numbers: Numbers) -> dict[str, Figure]:
    return {
        name.lower(): figure(
            f"Distance to the lowest objective by epoch, drawn network of the shape of {name}",
            {title(name, order): numbers[title(name, order)] for order in by_order},
        )
        for name, by_order in PENALTY.items()
    }


EXPERIMENT = Experiment(
    name="ho_networks",
    source="[HO] Figures 1 to 3",
    title="convergence of three solvers on stand-ins for NIPS, Enzyme and GD",
    about=f"""
The paper's data could not be had. These are stand-ins, drawn at random: as many nodes, features and links as in its
Table 2, with {SHAPES["NIPS"].ones} features of a node for NIPS and {SHAPES["GD"].ones} for the others, most of which
({WITHIN:.0%}) follow Zipf's law within one of {GROUPS} groups of nodes; links are between nodes of a group. So only the
work and the ranking of the solvers can be compared, not objectives. hofm-shared, squared loss, {RANK} factors, and the
paper's l2; the same initial factors for all solvers. By its text, on NIPS cd performs very well for m up to 3, and from
m = 4 on lbfgs is better; AdaGrad diverged with step sizes of 0.01 and above.
""",
    rules=[
        Rule(
            "the objective of cd never rises.",
            lambda numbers: never_rises([by_solver["cd"] for by_solver in numbers.values()]),
        ),
        Rule(
            "for m = 2 and 3, cd is within 1% of the lowest objective in fewer CPU seconds than lbfgs, on each set.",
            lambda numbers: all(cd_is_faster(numbers, name, order) for name in PENALTY for order in (2, 3)),
        ),
        Rule(
            "for m = 4, lbfgs is within 1% of the lowest objective in fewer CPU seconds than cd, on each set.",
            lambda numbers: all(not cd_is_faster(numbers, name, 4) for name in PENALTY),
        ),
    ],
    run=run,
    tables=tables,
    figures=figures,
)
