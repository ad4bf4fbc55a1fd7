"""[PN] A variant of Figure 2: direct and lifted optimization by coordinate descent, objective and R² by rank.

    python scripts/papers/pn_direct_lifted.py TRAIN TEST [TRAIN TEST ...] [--orders 2 3]

TRAIN and TEST are regression data in libsvm text, with columns and labels scaled to mean 0 and variance 1. The models
have constant features and no linear weights; the loss is the squared loss. "direct" is anova or pn with fitted weights
of the factors, "lifted" is lifted-anova or lifted-pn. For order 2, direct has the penalty λ Σ|β_s|‖p_s‖², and lifted
has λ/2 ‖U‖², which is equivalent by Theorem 2 of the paper; the rank of lifted is half that of direct, so that the
numbers of parameters are equal. For higher orders both have λ/2 times the sum of squares, and only R² can be compared.
The result is that of the smallest objective among STARTS initial values. Factors that the lifted model does not need
decrease slowly, hence the large number of epochs.

Prints the objectives and R² on TEST by rank. PASS: for order 2, the two objectives at the largest rank differ by at
most CLOSE, relatively; and no objective increases with the rank by more than that. The latter is not required of direct
pn of orders above 2, whose objective is not convex even in single coordinates.
"""

import argparse
from typing import Any

import numpy as np
from tuned import read_pair, run

from fmcli.data.dataset import Dataset

RANKS, STARTS, EPOCHS, TOL, CLOSE = (2, 4, 8, 16), 3, 1000, 1e-6, 0.01
LAMBDA, INIT_STD = 0.01, 0.1


def fit(model: str, options: dict[str, Any], train: Dataset, test: Dataset) -> tuple[float, float]:
    """The smallest objective of several initial values, and the R² of this model on TEST."""
    common = {"solver": "cd", "loss": "squared", "linear": False, "augment": True, "init_std": INIT_STD}
    found = []
    for seed in range(STARTS):
        last = run(model, common | options | {"seed": seed, "epochs": EPOCHS, "tol": TOL}, train, test, "r2", EPOCHS)
        found.append((last.epochs[-1].objective, last.epochs[-1].valid["r2"]))
    return min(found)


def table(kernel: str, order: int, train: Dataset, test: Dataset) -> bool:
    """Print the objectives and R² of a kernel by rank. Returns whether they PASS."""
    print(f"  {kernel}, order {order}\n   rank  objective direct   lifted      R² direct  lifted")
    objectives = []
    for rank in RANKS:
        penalty = {"nuclear": LAMBDA} if order == 2 else {"l2": LAMBDA}
        direct = fit(kernel, penalty | {"order": order, "rank": rank, "fit_beta": True}, train, test)
        lifted_rank = max(1, rank // order)
        lifted = fit(f"lifted-{kernel}", {"l2": LAMBDA, "order": order, "rank": lifted_rank}, train, test)
        objectives.append((direct[0], lifted[0]))
        print(f"{rank:7}  {direct[0]:16.6f} {lifted[0]:8.6f}  {direct[1]:13.4f}  {lifted[1]:6.4f}", flush=True)
    rises = (np.diff(objectives, axis=0) > CLOSE * np.array(objectives[:-1])).any(axis=0)
    if order == 2:
        return not rises.any() and abs(np.diff(objectives[-1]))[0] <= CLOSE * objectives[-1][0]
    return not (rises[1] or (rises[0] and kernel != "pn"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--orders", type=int, nargs="+", default=[2, 3])
    given = parser.parse_args()
    for train, test in zip(given.files[::2], given.files[1::2], strict=True):
        pair = read_pair(train, test)
        print(f"{train}: {pair[0].rows} rows")
        for order in given.orders:
            for kernel in ("anova", "pn"):
                print(f"  {'PASS' if table(kernel, order, *pair) else 'FAIL'}\n", flush=True)


if __name__ == "__main__":
    main()
