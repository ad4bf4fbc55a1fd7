"""[PN] section 9.4, kernel methods: R² by the number of bases for random selection, Nyström and kernel ridge.

    python scripts/papers/pn_kernel_bases.py TRAIN TEST [TRAIN TEST ...] [--order M]

TRAIN and TEST are regression data in libsvm text, with columns and labels scaled to mean 0 and variance 1. The kernel
is (1 + <p, x>)^M on rows scaled to unit length, because outliers would dominate its powers. Prints R² on TEST of models
whose bases are k rows of TRAIN, as means over five seeds: "random" penalizes the weights of the bases, "nystrom" the
RKHS norm of the function, as kernel ridge regression does. "dimension" is the dimension of the space of functions of
the kernel, a number of products of columns. With at least as many rows, Nyström is equal to kernel ridge regression;
that line has twice as many. λ2 is chosen from a grid on a fifth of TRAIN, for each method at the largest k. PASS: R²
increases with k, and comes within 0.01 of kernel ridge regression.
"""

import argparse
import math

import numpy as np
from tuned import read_pair

from fmcli.data.dataset import Dataset
from fmcli.registry.specs import make_spec
from fmcli.training import job

SEEDS = 5
LAMBDAS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # the number of bases as a share of the dimension
CLOSE = 0.01


def score(
    data: Dataset, basis: str, k: int, l2: float, order: int, seed: int = 0, test: Dataset | None = None
) -> float:
    """R² on `test`, or on a held-out fifth of the data."""
    options = {"basis": basis, "rank": k, "l2": l2, "order": order, "seed": seed, "norm": True, "linear": False}
    spec = make_spec("kernel-basis", options=options)
    plan = job.plan(data, spec, valid=test, holdout=0.2 if test is None else 0.0, metrics=("r2",))
    return job.train(plan).epochs[0].valid["r2"]


def mean_score(train: Dataset, test: Dataset, basis: str, k: int, l2: float, order: int) -> float:
    """The mean R² over the seeds."""
    return float(np.mean([score(train, basis, k, l2, order, seed, test) for seed in range(SEEDS)]))


def dimension(train: Dataset, order: int) -> int:
    """The dimension of the space of functions of the kernel on these rows."""
    return min(math.comb(int(train.seen().sum()) + order, order), train.rows)


def choose(train: Dataset, basis: str, order: int) -> float:
    """The best λ2 on a held-out fifth of the rows."""
    return max(LAMBDAS, key=lambda l2: score(train, basis, dimension(train, order), l2, order))


def kernel_ridge(train: Dataset, test: Dataset, order: int) -> float:
    """R² on `test` of kernel ridge regression."""
    bases = min(2 * dimension(train, order), train.rows)
    return score(train, "nystrom", bases, choose(train, "nystrom", order), order, test=test)


def table(name: str, train: Dataset, test: Dataset, order: int) -> None:
    most = dimension(train, order)
    strengths = {basis: choose(train, basis, order) for basis in ("random", "nystrom")}
    ridge = kernel_ridge(train, test, order)
    print(f"{name}: {train.rows} rows, {train.seen().sum()} columns, dimension {most}; λ2 {strengths}")
    print("     k   random  nystrom")
    found = []
    for share in SHARES:
        k = max(1, round(share * most))
        found.append([mean_score(train, test, basis, k, strengths[basis], order) for basis in ("random", "nystrom")])
        print(f"{k:6}  {found[-1][0]:7.4f}  {found[-1][1]:7.4f}", flush=True)
    rises = (np.diff(found, axis=0) > -CLOSE).all()
    reached = np.abs(np.array(found[-1]) - ridge).max() < CLOSE
    print(f"kernel ridge {ridge:8.4f}: {'PASS' if rises and reached else 'FAIL'}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--order", type=int, default=3)
    given = parser.parse_args()
    for path, other in zip(given.files[::2], given.files[1::2], strict=True):
        table(path, *read_pair(path, other), given.order)


if __name__ == "__main__":
    main()
