"""[HO] Table 3, MovieLens 100K, with the paper's protocol: coordinate descent, squared loss, 30 factors.

    python scripts/papers/ho_table3.py TRAIN TEST [--split-index 49] [--jobs 2]

TRAIN and TEST are libsvm files of user and film features; user features have indices below the split index.
ho_movielens.py uses the same data with another solver and loss. As in the paper, only one L2 penalty for both weights
and factors is tuned, by 3-fold cross-validation on TRAIN over powers of ten; the objective is the mean loss plus the
penalty, in the paper and here. Of the paper's thirteen values only LAMBDAS are tried, because larger ones gave lower
AUCs. The standard deviation of initial values is 0.1 (in the paper: N(0, 0.01)). Prints the AUC of cross-validation,
the AUC on TEST, and that of the paper. PASS: hofm, and hofm-shared up to order 4, reach the paper's AUC minus CLOSE.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import NamedTuple

import numpy as np
from ho_movielens import CLOSE, HELD_TO, ORDERS, PAPER, RANK
from sklearn.metrics import roc_auc_score
from tuned import folded, followed, read_pair

from fmcli.registry.models import MODELS

LAMBDAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
EPOCHS, INIT_STD = 30, 0.1


class Line(NamedTuple):
    """One line of the table."""

    l2: float
    validated: float
    tested: float
    seconds: float


def line(model: str, order: int | None, files: tuple[str, str], split_index: int) -> Line:
    """One line of the table. It is computed in a separate process, which reads the files."""
    train, test = read_pair(*files)
    given = {"order": order, "split_index": split_index if "split_index" in MODELS[model].options else None}
    common = {"solver": "cd", "loss": "squared", "rank": RANK, "init_std": INIT_STD, "epochs": EPOCHS}
    common |= {name: value for name, value in given.items() if value}
    parts = folded(train)
    found = {
        l2: np.mean([followed(model, common | {"l2": l2}, *part, roc_auc_score)[0][-1] for part in parts])
        for l2 in LAMBDAS
    }
    best = max(found, key=lambda l2: found[l2])
    tested, seconds = followed(model, common | {"l2": best}, train, test, roc_auc_score)
    return Line(best, float(found[best]), tested[-1], seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--split-index", type=int, default=49, help="the first film feature")
    parser.add_argument("--jobs", type=int, default=2, help="lines of the table at a time")
    given = parser.parse_args()
    lines = [
        (model, order, published)
        for model, column in PAPER.items()
        for order, published in zip(ORDERS if len(column) > 1 else (None,), column, strict=True)
    ]
    models, orders, _ = zip(*lines, strict=True)
    print("model         order  cross-validation   test  paper      l2  seconds")
    verdicts = []
    with ProcessPoolExecutor(given.jobs) as pool:
        tables = pool.map(line, models, orders, repeat((given.train, given.test)), repeat(given.split_index))
        for (model, order, published), found in zip(lines, tables, strict=True):
            verdict = ""
            if order in HELD_TO.get(model, ()):
                verdicts.append(found.tested >= published - CLOSE)
                verdict = "PASS" if verdicts[-1] else "FAIL"
            figures = f"{found.validated:16.4f}  {found.tested:.3f}  {published:.3f}  {found.l2:6g}"
            print(f"{model:13} {order or '':5}  {figures}  {found.seconds:7.1f}  {verdict}", flush=True)
    verdict = "PASS" if all(verdicts) else "FAIL"
    print(f"{sum(verdicts)} of {len(verdicts)} within {CLOSE} of the paper or above: {verdict}")


if __name__ == "__main__":
    main()
