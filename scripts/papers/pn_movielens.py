"""[PN] Figure 3 and [HO] Figure 5 on MovieLens 100K: second-order models that predict ratings from user and film.

    python scripts/papers/pn_movielens.py TRAIN TEST

TRAIN and TEST are libsvm files of ratings with one-hot user and film. Compares fm; an FM with a constant column instead
of linear weights (shfm); all-subsets; pn and lifted-pn of order 2. 3-fold cross-validation on TRAIN chooses learning
rate, L2 penalty, rank and number of epochs. Prints the RMSE of cross-validation and that on TEST, first those of the
mean rating. The papers use MovieLens 1M, so that only the ranking of the models can be compared: in the papers,
all-subsets performs well, and the ANOVA kernel better than polynomial networks. Models that this build lacks are
skipped.
"""

import argparse

import numpy as np
from tuned import grid, read_pair, tuned

from fmcli.registry.models import MODELS

EPOCHS, PATIENCE = 40, 4
GRID = grid(
    solver=["adagrad"],
    loss=["squared"],
    learning_rate=[0.03, 0.1],
    init_std=[0.01],
    l2=[0.01, 0.03, 0.1],
    rank=[8, 30],
)
COMPARED = ("linear", "fm", "shfm", "all-subsets", "pn", "lifted-pn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    given = parser.parse_args()
    train, test = read_pair(given.train, given.test)
    print("model         cross-validation    test  chosen")
    mean = float(train.label.mean())
    print(f"{'mean':12} {train.label.std():16.4f}  {np.sqrt(np.mean((test.label - mean) ** 2)):.4f}")
    for model in COMPARED:
        if model not in MODELS:
            continue
        applicable = [
            {name: value for name, value in one.items() if name != "rank" or model != "linear"} for one in GRID
        ]
        tried = [one for place, one in enumerate(applicable) if one not in applicable[:place]]
        found = tuned(model, tried, train, test, "rmse", epochs=EPOCHS, patience=PATIENCE)
        shown = [name for name in ("learning_rate", "l2", "rank", "epochs") if name in found.options]
        chosen = ", ".join(f"{name} {found.options[name]:g}" for name in shown)
        print(f"{model:12} {found.validated:16.4f}  {found.tested:.4f}  {chosen}", flush=True)


if __name__ == "__main__":
    main()
