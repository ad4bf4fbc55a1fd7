"""[SGL] with binary labels: quality and sparsity of the sparse FM models compared with fm, shfm and sha2.

    python scripts/papers/sgl_adult.py TRAIN TEST [--rank K] [--epochs N]

Trains the paper's models sglfm, glfm and l1fm (FOBOS, with its penalties 1e-6 to 1e-3), and prints the histogram of its
Figure 5: the number of features by their number of nonzero factors. TRAIN and TEST have labels with two values, for
example the adult data. Every model has the defaults of the command line; the epoch is chosen on 5 % of TRAIN. "kept" is
the number of features that have a nonzero weight or factor; the columns 0 .. K are the numbers of these features with 0
to K nonzero factors.
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
    """(rank + 1) The number of features by their number of nonzero factors, without features that are entirely 0."""
    factors = np.count_nonzero(parameters["V"][0], axis=1)
    kept = factors > 0
    if "w" in parameters:
        kept |= parameters["w"][0] != 0
    return np.bincount(factors[kept], minlength=parameters["V"].shape[2] + 1)


def row(train: Dataset, test: Dataset, model: str, solver: str, options: dict[str, float], penalty: str) -> None:
    """Train a model, evaluate it on `test`, and print a line."""
    trained = job.train(job.plan(train, make_spec(model, solver, "logistic", options), holdout=None))
    plan = trained.plan
    prepared = test.within(plan.data.features).changed(label=plan.preprocessing.labels.encode(test.label))
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
