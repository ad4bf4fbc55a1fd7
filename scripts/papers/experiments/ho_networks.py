"""[HO] Figures 1 to 3: the objective of three solvers, on drawn networks of the shapes of the paper's data."""

from convergence import curve, ends, figure, lowest, never_rises, seconds_until_near
from experiment import Experiment, Figure, Numbers, Rule, Table
from fitting import Options, auc, fit, grid, in_parts
from sets.network import GROUPS, SHAPES, WITHIN, drawn_network, smaller
from sets.raw import Raw

from fmcli.data.dataset import Dataset

RANK, INIT_STD, HELD_OUT, TRIAL_EPOCHS = 30, 0.01, 1 / 3, 15
ORDERS = (2, 3, 4)
SMALLER = {"NIPS": 8, "Enzyme": 2, "GD": 8}
STRENGTHS = grid(l2=(1e-4, 1e-3, 1e-2, 1e-1))
# The paper's, by the order.
PAPER = {"NIPS": (0.1, 0.1, 0.1), "Enzyme": (0.1, 0.1, 0.01), "GD": (0.01, 0.01, 0.0001)}
RATES = (0.001, 0.01, 0.1)
TOL, EPOCHS, ADAGRAD_EPOCHS, POINTS = 1e-6, 3000, 1000, 32
SOLVERS: dict[str, Options] = {
    "cd": {"solver": "cd", "epochs": EPOCHS, "tol": TOL},
    "lbfgs": {"solver": "lbfgs", "epochs": EPOCHS, "tol": TOL},
    **{
        f"fobos {rate:g}": {
            "solver": "fobos",
            "adaptive": True,
            "learning_rate": rate,
            "epochs": ADAGRAD_EPOCHS,
        }
        for rate in RATES
    },
}
SENSITIVE = 0.1  # of the objective
EARLIER_STD = 0.1


def common(order: int) -> Options:
    return {"loss": "squared", "order": order, "rank": RANK, "init_std": INIT_STD}


def best_l2(data: Dataset, order: int) -> float:
    """The l2 with the highest AUC on held-out rows, after some epochs of cd."""
    parts = in_parts(data, HELD_OUT)
    options = common(order) | {"solver": "cd", "epochs": TRIAL_EPOCHS}
    found = {one["l2"]: auc(fit("hofm-shared", options | one, parts.train), parts.test) for one in STRENGTHS}
    return float(max(found, key=lambda l2: found[l2]))


def run(raw: Raw) -> Numbers:
    numbers: Numbers = {"l2": {}, "curves": {}, "start": {}}
    for name, factor in SMALLER.items():
        data = drawn_network(raw, name, smaller(SHAPES[name], factor))
        for order in ORDERS:
            here, l2 = title(name, order), best_l2(data, order)
            options = common(order) | {"l2": l2}
            numbers["l2"][here] = l2
            numbers["curves"][here] = {way: curve(data, options | one, POINTS) for way, one in SOLVERS.items()}
            one_epoch = SOLVERS["lbfgs"] | {"epochs": 1}
            numbers["start"][here] = [
                curve(data, options | one_epoch | {"init_std": std})["objective"][0] for std in (INIT_STD, EARLIER_STD)
            ]
    return numbers


def title(name: str, order: int) -> str:
    return f"{name}, m = {order}"


def cd_is_faster(numbers: Numbers, name: str, order: int) -> bool:
    """Whether cd comes close to the lowest objective in fewer CPU seconds than lbfgs."""
    found = numbers["curves"][title(name, order)]
    cd, lbfgs = (seconds_until_near(found[solver], lowest(found)) for solver in ("cd", "lbfgs"))
    return cd < lbfgs


def sensitive(by_solver: Numbers) -> bool:
    """Whether AdaGrad diverges with a step size, or its ends are far apart."""
    found = [by_solver[f"fobos {rate:g}"] for rate in RATES]
    last = [one["objective"][-1] for one in found if one["objective"]]
    return any(one.get("diverged") for one in found) or max(last) > (1 + SENSITIVE) * min(last)


def tables(numbers: Numbers) -> list[Table]:
    rows = [
        [
            title(name, order),
            f"{PAPER[name][i]:g}",
            f"{numbers['l2'][title(name, order)]:g}",
            *(f"{value:.3f}" for value in numbers["start"][title(name, order)]),
        ]
        for name in SMALLER
        for i, order in enumerate(ORDERS)
    ]
    stds = [f"objective after one epoch of lbfgs, deviation {std:g}" for std in (INIT_STD, EARLIER_STD)]
    return [
        Table(
            "l2, and the objective by the deviation of the initial factors",
            ["problem", "paper's l2", "l2", *stds],
            rows,
        ),
        ends("Objective at the end", numbers["curves"]),
    ]


def figures(numbers: Numbers) -> dict[str, Figure]:
    return {
        name.lower(): figure(
            f"Distance to the lowest objective by epoch, drawn network of the shape of {name}",
            {title(name, order): numbers["curves"][title(name, order)] for order in ORDERS},
        )
        for name in SMALLER
    }


CHEAP_EPOCHS = (
    "It holds for NIPS, m = 3, only, where lbfgs ends in a minimum that is 10% higher. An epoch of lbfgs takes a third"
    " to two thirds of the CPU seconds of one of cd, and it needs fewer of them: for GD, m = 2, 228 until the end,"
    " where cd needs 1,194. An earlier version of this page had cut cd at 200 epochs, and had counted the CPU seconds"
    " of threads of a library that waited, which made lbfgs seem up to ten times as slow."
)
OTHER_MINIMUM = (
    "It does not hold for NIPS, where the two end in different minima, although they begin at the same factors: that of"
    " cd, 0.0657, is 20% lower. On the two other sets, lbfgs is ten times as fast or more."
)

EXPERIMENT = Experiment(
    name="ho_networks",
    source="[HO] Figures 1 to 3",
    title="convergence of three solvers on stand-ins for NIPS, Enzyme and GD",
    about=f"""
The paper's data could not be had. These are stand-ins, drawn at random, with the proportions of its Table 2 and an
eighth (NIPS, GD) or half (Enzyme) of its nodes, features and links. Each node has {SHAPES["NIPS"].ones} features, most
of which ({WITHIN:.0%}) follow Zipf's law within one of {GROUPS} groups of nodes; links are between nodes of a group. So
only the work and the ranking of the solvers can be compared, not objectives. hofm-shared, squared loss, {RANK} factors;
the same initial factors for all solvers, of deviation {INIT_STD:g} as in the paper. l2 is chosen by the AUC on a third
of the rows: with the paper's 0.1, all factors become 0 for m above 2, because the rows here are ones and not counts of
words. cd and lbfgs stop when an epoch lowers the objective by less than a millionth of it, or after {EPOCHS:,} epochs.
By the paper's text, on NIPS cd performs very well for m up to 3, and from m = 4 on lbfgs is better; AdaGrad is
sensitive to its step size.
""",
    rules=[
        Rule(
            "the objective of cd never rises.",
            lambda numbers: never_rises([by_solver["cd"] for by_solver in numbers["curves"].values()]),
        ),
        Rule(
            "for m = 2 and 3, cd is within 1% of the lowest objective in fewer CPU seconds than lbfgs, on each set.",
            lambda numbers: all(cd_is_faster(numbers, name, order) for name in SMALLER for order in (2, 3)),
            CHEAP_EPOCHS,
        ),
        Rule(
            "for m = 4, lbfgs is within 1% of the lowest objective in fewer CPU seconds than cd, on each set.",
            lambda numbers: all(not cd_is_faster(numbers, name, 4) for name in SMALLER),
            OTHER_MINIMUM,
        ),
        Rule(
            f"AdaGrad diverges with one of the step sizes, or their objectives differ by more than {SENSITIVE:.0%}, for"
            " each problem.",
            lambda numbers: all(map(sensitive, numbers["curves"].values())),
        ),
    ],
    run=run,
    tables=tables,
    figures=figures,
    notes="""
In earlier trials with initial factors of deviation 0.1, the solvers diverged or had not left the start after all their
epochs. The table shows why: thousands of parameters of this size make the penalty and the scores of the start large.
""",
)
