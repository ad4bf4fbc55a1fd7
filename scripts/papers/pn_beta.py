"""[PN] Figure 1: the gain in the objective if the weights β of the factors are fitted.

    python scripts/papers/pn_beta.py DATA [--ranks 2 4 8 16]

DATA is regression data in libsvm text, with columns and labels scaled to mean 0 and variance 1 (in the paper:
diabetes). anova and pn of even orders, with constant features and without linear weights, are trained by coordinate
descent: with fitted β, for each of three initial values; with β fixed at 1; with β fixed at alternating 1 and -1. For
order 2 the objective is the mean loss plus λ Σ|β_s|‖p_s‖², for order 4 plus λ/2 (‖P‖² + ‖β‖²). Prints the objectives
relative to the worst one at each rank; each is the smallest of SEEDS initial values of P. Because coordinate descent
updates β before P, the initial β has little effect. PASS: at every rank, the best objective with fitted β does not
exceed the best one with fixed β by more than ROUNDING; and for pn, which with β = 1 never predicts less than its bias,
the objective with fitted β is below that with β = 1 at the largest rank by at least GAIN.
"""

import argparse
from typing import Any

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.training import job

LAMBDA, INIT_STD, SEEDS, EPOCHS, TOL = 0.01, 0.1, 3, 300, 1e-6
ORDERS, SECOND = (2, 4), 2
ROUNDING, GAIN = 0.001, 0.1
# Whether β is fitted, and its initial value.
WAYS = {
    "fitted from 1, -1": (True, "alternate"),
    "fitted from 1": (True, "ones"),
    "fitted from random": (True, "random"),
    "fixed at 1": (False, "ones"),
    "fixed at 1, -1": (False, "alternate"),
}


def objective(data: Dataset, model: str, order: int, rank: int, fitted: bool, start: str, seed: int) -> float:
    """The final objective. With fixed β it includes the same penalty as with fitted β."""
    options: dict[str, Any] = {"order": order, "rank": rank, "augment": True, "linear": False, "seed": seed}
    options |= {"fit_beta": fitted, "beta_start": start, "init_std": INIT_STD, "epochs": EPOCHS, "tol": TOL}
    if order > SECOND:
        penalty, of_fixed = {"l2": LAMBDA}, LAMBDA / 2 * rank
    else:
        penalty, of_fixed = {"nuclear": LAMBDA} if fitted else {"l2": 2 * LAMBDA}, 0.0
    spec = make_spec(model, "cd", "squared", options | penalty)
    return job.train(job.plan(data, spec)).epochs[-1].objective + (0.0 if fitted else of_fixed)


def table(data: Dataset, model: str, order: int, ranks: list[int]) -> bool:
    """Print the objectives by rank. Returns whether they PASS."""
    found = np.array(
        [
            [min(objective(data, model, order, rank, *way, seed) for seed in range(SEEDS)) for way in WAYS.values()]
            for rank in ranks
        ]
    )
    found /= found.max(axis=1, keepdims=True)
    print(f"{model}, order {order}" + "".join(f"{name:>20}" for name in WAYS))
    for rank, line in zip(ranks, found, strict=True):
        print(f"  rank {rank:4}  " + "".join(f"{value:20.4f}" for value in line))
    fits = np.array([fitted for fitted, _ in WAYS.values()])
    below = (found[:, fits].min(axis=1) <= found[:, ~fits].min(axis=1) + ROUNDING).all()
    gain = found[-1, list(WAYS).index("fixed at 1")] - found[-1, fits].min()
    return bool(below and (gain >= GAIN or model != "pn"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16])
    given = parser.parse_args()
    data = read([given.data]).dataset
    for order in ORDERS:
        for model in ("anova", "pn"):
            print("PASS\n" if table(data, model, order, given.ranks) else "FAIL\n", flush=True)


if __name__ == "__main__":
    main()
