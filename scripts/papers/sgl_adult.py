"""[SGL] on two-valued labels: quality and sparsity of the sparse FM family beside fm, shfm and sha2.

    python scripts/papers/sgl_adult.py TRAIN TEST [--rank K] [--epochs N]

The paper's models sglfm, glfm and l1fm (FOBOS, over its penalties 1e-6 .. 1e-3) and the histogram of its Figure 5: how
many features keep how many of their factors. TRAIN and TEST have labels of two values (the adult data, for one). Every
model has the defaults of the command line; 5 % of TRAIN choose the epoch. "kept" counts features with a weight or
factor that is not 0; the columns 0 .. K say how many of them have so many factors that are not 0.
"""

import argparse

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.validation import Validation

DENSE = ("fm", "shfm", "sha2")  # trained with FTRL
SPARSE = {"sglfm": ("l1", "group_l1"), "glfm": ("group_l1",), "l1fm": ("l1",)}  # trained with FOBOS; their penalties
LAMBDAS = (1e-6, 1e-5, 1e-4, 1e-3)
METRICS = ("logloss", "auc", "sparsity")


def factors_kept(parameters: dict[str, np.ndarray]) -> np.ndarray:
    """(rank + 1) Number of features by the number of factors they keep; features that are 0 throughout do not count."""
    factors = np.count_nonzero(parameters["V"][0], axis=1)
    kept = factors > 0
    if "w" in parameters:
        kept |= parameters["w"][0] != 0
    return np.bincount(factors[kept], minlength=parameters["V"].shape[2] + 1)


def row(train: Dataset, test: Dataset, model: str, solver: str, options: dict[str, float], penalty: str) -> None:
    """Train, measure on `test` and print a line."""
    trained = job.train(job.plan(train, make_spec(model, solver, "logistic", options), holdout=None))
    plan = trained.plan
    prepared = test.within(plan.data.features).changed(label=plan.labels.encode(test.label))
    logloss, auc, sparsity = Validation(prepared, "logistic", METRICS, 0).measure(plan.model).values()
    counts = factors_kept(plan.model.parameters)
    print(
        f"{model:6} {solver:6} {penalty:>7} {trained.best:6} {logloss:8.4f} {auc:7.4f} {sparsity:9.3f} "
        f"{counts.sum():5} |" + "".join(f"{count:5}" for count in counts),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    train, test = read([given.train]).dataset, read([given.test]).dataset
    common = {"rank": given.rank, "epochs": given.epochs}
    print(f"features that occur: {train.seen().sum()} of {train.features} columns")
    print(f"{'':68}   kept features by their factors that are not 0")
    print(
        "model  solver  lambda  epoch  logloss     auc  sparsity  kept |"
        + "".join(f"{n:5}" for n in range(given.rank + 1))
    )
    for model in DENSE:
        row(train, test, model, "ftrl", common, "-")
    for model, penalties in SPARSE.items():
        for strength in LAMBDAS:
            row(train, test, model, "fobos", common | dict.fromkeys(penalties, strength), f"{strength:g}")


if __name__ == "__main__":
    main()
