"""Coordinate descent on MovieLens 100K: the RMSE of an FM without a learning rate to choose.

    python scripts/papers/cd_movielens.py TRAIN TEST

TRAIN and TEST are libsvm files of ratings with user and film one-hot (the split u1). 10-fold cross-validation on TRAIN
chooses the L2 penalties of weights and of factors, the size of the start values and the number of epochs of an FM with
8 factors. Prints the RMSE found there, that on TEST, what was chosen, and the seconds of the last training. libFM, with
the same algorithm (als), reaches .9230 to .9432, as its penalty is; by sampling (mcmc) .9225. A PASS: at most ENOUGH.
"""

import argparse

from tuned import grid, read_pair, tuned

FOLDS, EPOCHS, PATIENCE, ENOUGH = 10, 50, 5, 0.923
GRID = grid(
    solver=["cd"],
    loss=["squared"],
    rank=[8],
    init_std=[0.03, 0.1],
    l2_w=[3e-5, 1e-4],
    l2_v=[1e-4, 1.5e-4, 2e-4, 3e-4],
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    given = parser.parse_args()
    train, test = read_pair(given.train, given.test)
    found = tuned("fm", GRID, train, test, "rmse", epochs=EPOCHS, patience=PATIENCE, folds=FOLDS)
    chosen = ", ".join(f"{name} {found.options[name]:g}" for name in ("l2_w", "l2_v", "init_std", "epochs"))
    print(f"cross-validation {found.validated:.4f}; {chosen}; {found.seconds:.2f} s")
    print(f"test {found.tested:.4f}: {'PASS' if found.tested <= ENOUGH else 'FAIL'}")


if __name__ == "__main__":
    main()
