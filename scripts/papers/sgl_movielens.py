"""[SGL] section 3 on MovieLens 100K: RMSE and sparsity by the number k of factors, and RMSE by epoch (Figures 2, 6).

    python scripts/papers/sgl_movielens.py U_DATA [--seed N] [--epochs N]

U_DATA is the file u.data of GroupLens: user, item, rating, time. A random 70 % of the ratings are the training rows,
with one-hot user and item; the others are the test rows. All models are trained by adaptive FOBOS. For every model and
k, 3-fold cross-validation on the training rows chooses the epoch and one of OPTIONS. The paper's loss is twice that of
fmcli, so that its lambda 1e-5 corresponds to 5e-6; instead of its powers of ten, fewer and finer values are tried, at
which models are neither dense nor all 0. "sparser" is the sglfm with the most zeros among those whose cross-validated
RMSE is within CLOSE of that of fm. "zeros" includes features that occur in no training row. The last lines print
whether "sparser", and l1fm, are within CLOSE of the test RMSE of fm with at least 20 % zeros, as sglfm is in the
paper's Figure 2.
"""

import argparse
from typing import NamedTuple

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.registry.specs import make_spec
from fmcli.training import job

RANKS = (10, 20, 50, 100)
CURVES_RANK = 50
FOLDS, TRAIN_SHARE, PATIENCE = 3, 0.7, 8
CLOSE, ENOUGH_ZEROS = 0.005, 0.2
LEARNING_RATE = 0.1
# With a large l1, small initial factors become 0 at once, so that a larger l1 has a larger initial deviation.
OPTIONS = {
    "linear": [{"l1": l1, "l2": 0.0} for l1 in (1e-6, 1e-5, 3e-5, 1e-4)],
    "fm": [{"l2": l2, "init_std": std} for l2, std in ((1e-4, 0.01), (2e-4, 0.01))],
    "l1fm": [{"l1": l1, "init_std": std} for l1, std in ((2e-6, 0.01), (5e-6, 0.02), (1e-5, 0.05))],
    "glfm": [{"group_l1": group, "init_std": std} for group, std in ((2e-5, 0.01), (5e-5, 0.03))],
    "sglfm": [
        {"l1": l1, "group_l1": group, "init_std": std}
        for l1, group, std in (
            (5e-7, 2e-5, 0.01),
            (1e-6, 2e-5, 0.02),
            (3e-6, 1e-5, 0.02),
            (5e-6, 1e-5, 0.03),
            (1e-5, 1e-5, 0.05),
        )
    ],
}


class Tried(NamedTuple):
    """Options, their best number of epochs, and the RMSE of cross-validation there."""

    options: dict[str, float]
    epochs: int
    rmse: float
    zeros: float


def ratings(path: str) -> Dataset:
    """The ratings as rows with one-hot user and item."""
    table = np.loadtxt(path, dtype=np.int64)
    user, item = (np.unique(table[:, column], return_inverse=True)[1] for column in (0, 1))
    index = np.stack([user, user.max() + 1 + item], axis=1).astype(np.int32)
    indptr = np.arange(0, index.size + 1, 2, dtype=np.int64)
    return Dataset(indptr, index.reshape(-1), None, table[:, 2].astype(np.float64), int(index.max()) + 1)


def curve(
    model: str, options: dict[str, float], epochs: int, train: Dataset, test: Dataset, patience: int
) -> np.ndarray:
    """(epochs, 3) by epoch: RMSE on `test`, share of zeros, RMSE of the rows of `train` before their updates."""
    run = {"adaptive": True, "learning_rate": LEARNING_RATE, "epochs": epochs}
    spec = make_spec(model, "fobos", "squared", options | run)
    plan = job.plan(train, spec, valid=test, metrics=("rmse", "sparsity"), patience=patience)
    done = job.train(plan).epochs
    return np.array([(e.valid["rmse"], e.valid["sparsity"], np.sqrt(2 * e.loss)) for e in done])


def cross_validate(model: str, options: dict[str, float], epochs: int, train: Dataset, fold: np.ndarray) -> Tried:
    """The mean over the folds at the epoch with the lowest mean RMSE."""
    curves = []
    for i in range(FOLDS):
        others, tested = (train.take(np.flatnonzero(part)) for part in (fold != i, fold == i))
        curves.append(curve(model, options, epochs, others, tested, PATIENCE))
    mean = np.mean([one[: min(map(len, curves))] for one in curves], axis=0)
    best = int(mean[:, 0].argmin())
    return Tried(options, best + 1, mean[best, 0], mean[best, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("u_data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=25)
    given = parser.parse_args()
    data, generator = ratings(given.u_data), np.random.default_rng(given.seed)
    order = generator.permutation(data.rows)
    train, test = (data.take(np.sort(part)) for part in np.split(order, [round(TRAIN_SHARE * data.rows)]))
    fold = generator.permutation(train.rows) % FOLDS
    curves, reached, fm = {}, {"sglfm": [], "sparser": [], "l1fm": []}, {}
    print("   k  model    CV RMSE  epoch  test RMSE  zeros  options")
    for model, k in [("linear", None)] + [(model, k) for k in RANKS for model in OPTIONS if model != "linear"]:
        rank = {"rank": k} if k else {}
        tried = [cross_validate(model, options | rank, given.epochs, train, fold) for options in OPTIONS[model]]
        chosen = {model: min(tried, key=lambda one: one.rmse)}
        if model == "sglfm":
            near = [one for one in tried if one.rmse <= fm[k][0] + CLOSE]
            chosen |= {"sparser": max(near, key=lambda one: one.zeros)} if near else {}
        for name, one in chosen.items():
            epochs = given.epochs if k in (None, CURVES_RANK) else one.epochs
            path = curve(model, one.options, epochs, train, test, patience=epochs)
            rmse, zeros, _ = path[one.epochs - 1]
            said = " ".join(f"{option} {value:g}" for option, value in one.options.items() if option != "rank")
            figures = f"{one.rmse:8.4f} {one.epochs:6} {rmse:10.4f} {zeros:6.3f}"
            print(f"{k or '':>4}  {name:7} {figures}  {said}", flush=True)
            if k in (None, CURVES_RANK):
                curves[name] = path
            if name == "fm":
                fm[k] = one.rmse, rmse
            if name in reached and rmse <= fm[k][1] + CLOSE and zeros >= ENOUGH_ZEROS:
                reached[name].append(str(k))
    print(f"\nRMSE by epoch, on training rows before their update / on test rows, k = {CURVES_RANK}")
    print("epoch  " + "  ".join(f"{name:^15}" for name in curves))
    for epoch in range(given.epochs):
        figures = "  ".join(f"{path[epoch, 2]:.4f} / {path[epoch, 0]:.4f}" for path in curves.values())
        print(f"{epoch + 1:5}  {figures}")
    for name, ranks in reached.items():
        found = f"pass (k = {', '.join(ranks)})" if ranks else "FAIL"
        print(f"{name}: RMSE within {CLOSE:g} of fm's with {ENOUGH_ZEROS:.0%} zeros or more: {found}")


if __name__ == "__main__":
    main()
