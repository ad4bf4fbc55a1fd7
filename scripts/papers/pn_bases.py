"""[PN] Figure 4: R² by the number of bases, for learned bases and for bases that are rows of the data.

    python scripts/papers/pn_bases.py TRAIN TEST [TRAIN TEST ...]

TRAIN and TEST are regression data in libsvm text, with columns and labels scaled to mean 0 and variance 1. Rows are
scaled to unit length, as in pn_kernel_bases.py, which explains "random" and "nystrom". They are compared with lifted-pn
and lifted-anova of order 3, with constant features and without linear weights, trained by coordinate descent. A model
with k bases has k vectors of the length of a row, so that its rank is k / 3. λ2 is chosen on a fifth of TRAIN for every
method at the largest k. R² is the mean over SEEDS seeds. PASS: lifted-pn reaches the R² of kernel ridge regression
minus CLOSE with fewer bases than nystrom.
"""

import argparse

import numpy as np
from pn_kernel_bases import CLOSE, LAMBDAS, SEEDS, kernel_ridge, score
from tuned import read_pair

from fmcli.data.dataset import Dataset
from fmcli.registry.specs import make_spec
from fmcli.training import job

ORDER, EPOCHS, INIT_STD = 3, 50, 0.3
BASES = (3, 6, 12, 24, 48)
KERNELS, LEARNED = ("random", "nystrom"), ("lifted-pn", "lifted-anova")
STRENGTHS = dict.fromkeys(KERNELS, LAMBDAS) | dict.fromkeys(LEARNED, (1e-6, 1e-5, 1e-4, 1e-3))


def learned(data: Dataset, model: str, k: int, l2: float, seed: int = 0, test: Dataset | None = None) -> float:
    """R² of a model with k bases on `test`, or on a held-out fifth of the data."""
    options = {"rank": k // ORDER, "order": ORDER, "augment": True, "linear": False, "norm": True, "init_std": INIT_STD}
    spec = make_spec(model, "cd", "squared", options | {"l2": l2, "seed": seed, "epochs": EPOCHS})
    holdout = 0.2 if test is None else 0.0
    plan = job.plan(data, spec, valid=test, holdout=holdout, metrics=("r2",), patience=EPOCHS)
    return job.train(plan).epochs[-1].valid["r2"]


def measure(name: str, data: Dataset, k: int, l2: float, seed: int = 0, test: Dataset | None = None) -> float:
    """R² of one of the methods."""
    if name in KERNELS:
        return score(data, name, k, l2, ORDER, seed, test)
    return learned(data, name, k, l2, seed, test)


def table(path: str, train: Dataset, test: Dataset) -> None:
    strength = {
        name: max(tried, key=lambda l2: measure(name, train, BASES[-1], l2)) for name, tried in STRENGTHS.items()
    }
    ridge = kernel_ridge(train, test, ORDER)
    said = ", ".join(f"{name} {l2:g}" for name, l2 in strength.items())
    print(f"{path}: {train.rows} rows, kernel ridge {ridge:.4f}; λ2: {said}")
    print("   k  " + "".join(f"{name:>14}" for name in strength))
    needed = dict.fromkeys(strength, np.inf)
    for k in BASES:
        print(f"{k:4}  ", end="")
        for name, l2 in strength.items():
            r2 = np.mean([measure(name, train, k, l2, seed, test) for seed in range(SEEDS)])
            print(f"{r2:14.4f}", end="", flush=True)
            if r2 >= ridge - CLOSE:
                needed[name] = min(needed[name], k)
        print()
    verdict = "PASS" if needed["lifted-pn"] < needed["nystrom"] else "FAIL"
    print("bases that reach kernel ridge: " + ", ".join(f"{name} {k}" for name, k in needed.items()) + f": {verdict}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    for train, test in zip(given.files[::2], given.files[1::2], strict=True):
        table(train, *read_pair(train, test))


if __name__ == "__main__":
    main()
