"""[PN] Figure 1: what the objective gains where the factors' weights β are fitted.

    python scripts/papers/pn_beta.py DATA [--ranks 2 4 8 16]

DATA is regression data in libsvm text, columns and labels scaled to mean 0 and variance 1 (the paper: diabetes). anova
and pn of even orders, with constant features and no linear weights, are trained by coordinate descent: with β fitted,
from each of three starts; with β fixed at 1; with β fixed at 1 and -1 in turn. For order 2 the objective is the mean
loss plus λ Σ|β_s|‖p_s‖², for order 4 plus λ/2 (‖P‖² + ‖β‖²). Prints the objectives, each the least of SEEDS starts of
P, relative to the worst at each rank. A descent moves β before P, so that the start of β matters little. A
PASS: at every rank the best of the fitted is not above the best of the fixed, but for ROUNDING; and for pn, which with
β = 1 is never below its bias, it is below β = 1 at the largest rank by GAIN or more.
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
# Whether β is fitted, and where it starts.
WAYS = {
    "fitted from 1, -1": (True, "alternate"),
    "fitted from 1": (True, "ones"),
    "fitted from random": (True, "random"),
    "fixed at 1": (False, "ones"),
    "fixed at 1, -1": (False, "alternate"),
}


def objective(data: Dataset, model: str, order: int, rank: int, fitted: bool, start: str, seed: int) -> float:
    """The objective at the end; where β is fixed it has the same penalty as where it is fitted."""
    options: dict[str, Any] = {"order": order, "rank": rank, "augment": True, "linear": False, "seed": seed}
    options |= {"fit_beta": fitted, "beta_start": start, "init_std": INIT_STD, "epochs": EPOCHS, "tol": TOL}
    if order > SECOND:
        penalty, of_fixed = {"l2": LAMBDA}, LAMBDA / 2 * rank
    else:
        penalty, of_fixed = {"nuclear": LAMBDA} if fitted else {"l2": 2 * LAMBDA}, 0.0
    spec = make_spec(model, "cd", "squared", options | penalty)
    return job.train(job.plan(data, spec)).epochs[-1].objective + (0.0 if fitted else of_fixed)


def table(data: Dataset, model: str, order: int, ranks: list[int]) -> bool:
    """Print the objectives by rank; whether they are as they shall be."""
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
