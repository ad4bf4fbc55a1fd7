"""[HO] section 6.1 on MovieLens 100K: predict five-star ratings from features of users and films (Table 3).

    python scripts/papers/ho_movielens.py TRAIN TEST [--split-index 49]

TRAIN and TEST are libsvm files of user and film features; user features have indices below the split index. Every model
has 30 factors and is trained by AdaGrad on batches with the logistic loss (in the paper: coordinate descent, squared
loss). 3-fold cross-validation on TRAIN chooses the L2 penalty, the initial standard deviation and the number of epochs.
Prints the AUC of cross-validation, the AUC on TEST, and that of the paper; hofm, and hofm-shared up to order 4, should
be within CLOSE of the paper. Models that this build lacks are skipped.
"""

import argparse

from tuned import grid, read_pair, tuned

from fmcli.registry.models import MODELS

RANK, EPOCHS, PATIENCE, CLOSE = 30, 150, 40, 0.005
GRID = grid(
    solver=["adagrad"],
    loss=["logistic"],
    learning_rate=[0.5],
    batch_size=[100],
    l2=[3e-4, 1e-3, 3e-3],
    init_std=[0.1, 0.3],
    rank=[RANK],
)
ORDERS = (2, 3, 4, 5)
# Table 3, MovieLens 100K: one number for each order, or a single number.
PAPER = {
    "hofm": (0.778, 0.786, 0.786, 0.786),
    "hofm-shared": (0.778, 0.787, 0.779, 0.621),
    "hofm-simplex": (0.701, 0.709, 0.709, 0.709),
    "all-subsets": (0.714,),
    "pn": (0.761, 0.696, 0.708, 0.501),
    "bilinear": (0.718,),
}
HELD_TO = {"hofm": (2, 3, 4, 5), "hofm-shared": (2, 3, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--split-index", type=int, default=49, help="the first film feature")
    given = parser.parse_args()
    train, test = read_pair(given.train, given.test)
    print("model         order  cross-validation   test  paper  chosen")
    verdicts = []
    for model, published in PAPER.items():
        if model not in MODELS:
            continue
        for order, auc in zip(ORDERS if len(published) > 1 else (None,), published, strict=True):
            extra = {"order": order} if order else {}
            extra |= {"split_index": given.split_index} if "split_index" in MODELS[model].options else {}
            found = tuned(model, [one | extra for one in GRID], train, test, "auc", epochs=EPOCHS, patience=PATIENCE)
            verdict = ""
            if order in HELD_TO.get(model, ()):
                verdicts.append(found.tested >= auc - CLOSE)
                verdict = "PASS" if verdicts[-1] else "FAIL"
            chosen = ", ".join(f"{name} {found.options[name]:g}" for name in ("l2", "init_std", "epochs"))
            figures = f"{found.validated:16.4f}  {found.tested:.3f}  {auc:.3f}"
            print(f"{model:13} {order or '':5}  {figures}  {chosen}  {verdict}", flush=True)
    verdict = "PASS" if all(verdicts) else "FAIL"
    print(f"{sum(verdicts)} of {len(verdicts)} within {CLOSE} of the paper or above: {verdict}")


if __name__ == "__main__":
    main()
