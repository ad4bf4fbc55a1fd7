"""[LL] Table 2 and Figure 1: FM and the three variants of LLFM on Banana and IJCNN.

    python scripts/papers/ll_banana_ijcnn.py BANANA... IJCNN... [--plot FILE.png]

BANANA and IJCNN are the rows of the two data sets in libsvm text, each in one or several files: files with 2 columns
belong to Banana, all others to IJCNN. As in the paper, two thirds of the rows, drawn at random five times, are the
training rows, and every column is scaled to mean 0 and variance 1. Step sizes and coding parameters are chosen from a
small grid on a tenth of the training rows of the first split. All models are trained by AdaGrad, for the best number of
epochs found there.

"train" is the log loss of each row before its own update, averaged over all epochs, as in the paper; "test" and the
accuracy are computed on the remaining rows. PASS: the accuracy is at most one point below that in the paper, or LLFM-JO
has a similar gain over FM as in the paper. The row "linear" is for comparison: in the paper, FM on IJCNN is only as
good as a linear model, while an FM with well-trained factors is several points better.
"""

import argparse
from itertools import product

import numpy as np
from figures import draw

from fmcli.data.dataset import Dataset
from fmcli.data.reader import read
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.validation import Validation

SPLITS, MOST_EPOCHS = 5, 12
PAPER = {
    "Banana": {"linear": None, "fm": 53.34, "do": 88.39, "apl": 89.42, "jo": 89.51},
    "IJCNN": {"linear": None, "fm": 91.51, "do": 92.88, "apl": 94.31, "jo": 95.41},
}
# The required gain of LLFM-JO over FM, in points of accuracy.
GAIN = {"Banana": 30.0, "IJCNN": 2.5}
STEPS = {"learning_rate": (0.05, 0.2)}
SOFT, ANCHORS = {"coding_c": (0.1, 1.0, 10.0)}, {"anchors": (20,)}
GRIDS = {
    "linear": STEPS,
    "fm": STEPS,
    "do": STEPS | ANCHORS | SOFT,
    "apl": STEPS | ANCHORS | SOFT | {"anchor_rate": (0.001, 0.01)},
    "jo": STEPS | ANCHORS | {"lc": (0.02, 0.1, 0.4, 1.0), "anchor_rate": (0.001, 0.01)},
}


def dense(paths: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """A dense array (rows, columns that occur) of several files, and the labels."""
    data = read(paths).dataset
    x = np.zeros((data.rows, data.features))
    x[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index] = 1 if data.value is None else data.value
    return x[:, x.any(axis=0)], data.label


def sparse(x: np.ndarray, label: np.ndarray) -> Dataset:
    """A dense array as a Dataset."""
    value = x.astype(np.float32)
    row, column = np.nonzero(value)
    indptr = np.searchsorted(row, np.arange(len(x) + 1)).astype(np.int64)
    return Dataset(indptr, column.astype(np.int32), value[row, column], label, x.shape[1])


def split(x: np.ndarray, label: np.ndarray, seed: int) -> tuple[Dataset, Dataset]:
    """Two thirds of the rows for training and the others for testing, scaled by mean and deviation of the former."""
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [2 * len(x) // 3])
    scaled = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    return sparse(scaled[train], label[train]), sparse(scaled[test], label[test])


def fit(name: str, data: Dataset, options: dict[str, float], holdout: float = 0.0) -> job.Trained:
    variant = {} if name in ("linear", "fm") else {"llfm_variant": name}
    spec = make_spec("llfm" if variant else name, "adagrad", "logistic", {**options, **variant})
    return job.train(job.plan(data, spec, holdout=holdout, metrics=("logloss",)))


def choose(name: str, data: Dataset) -> dict[str, float]:
    """The options in the grid and the number of epochs that are best on a held-out tenth of the rows."""
    grid = GRIDS[name]
    best = (np.inf, {})
    for values in product(*grid.values()):
        options = dict(zip(grid, values, strict=True))
        trained = fit(name, data, options | {"epochs": MOST_EPOCHS}, holdout=0.1)
        loss = trained.epochs[trained.best - 1].valid["logloss"]
        best = min(best, (loss, options | {"epochs": trained.best}), key=lambda found: found[0])
    return best[1]


def table(title: str, x: np.ndarray, label: np.ndarray) -> dict[str, list[float]]:
    """Print the half of Table 2 for a data set. Returns the cumulative log loss by epoch of each model on the first
    split."""
    splits = [split(x, label, seed) for seed in range(SPLITS)]
    print(f"{title}: {splits[0][0].rows} rows to train on, {splits[0][1].rows} to test on")
    print("model    train loss      test loss       accuracy      paper         options")
    accuracy, curves = {}, {}
    for name, paper in PAPER[title].items():
        options = choose(name, splits[0][0])
        found = []
        for seed, (train, test) in enumerate(splits):
            trained = fit(name, train, options | {"seed": seed})
            losses = np.array([epoch.loss for epoch in trained.epochs])
            test = test.changed(label=trained.plan.preprocessing.labels.encode(test.label))
            measured = Validation(test, "logistic", ("logloss", "accuracy"), 0).measure(trained.plan.model)
            found.append((losses.mean(), measured["logloss"], 100 * measured["accuracy"]))
            if seed == 0:
                curves[name] = (np.cumsum(losses) / np.arange(1, len(losses) + 1)).tolist()
        mean, deviation = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
        accuracy[name] = (mean[2], deviation[2])
        numbers = "  ".join(f"{m:.4f} ± {d:.4f}" for m, d in zip(mean[:2], deviation[:2], strict=True))
        beside = "" if paper is None else f"{paper:.2f} {'PASS' if mean[2] >= paper - 1 else 'FAIL'}"
        chosen = " ".join(f"{key}={value:g}" for key, value in options.items())
        print(f"{name:7}  {numbers}  {mean[2]:.2f} ± {deviation[2]:.2f}  {beside:11}  {chosen}", flush=True)
    points, gain = GAIN[title], accuracy["jo"][0] - accuracy["fm"][0]
    kept = accuracy["jo"][0] >= accuracy["do"][0] - max(accuracy["jo"][1], accuracy["do"][1])
    print(
        f"jo gains {gain:.2f} points over fm, {points:g} are wanted: {'PASS' if gain >= points else 'FAIL'}; "
        f"{accuracy['jo'][0] - accuracy['linear'][0]:.2f} over linear; not below do: {'PASS' if kept else 'FAIL'}\n"
    )
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--plot")
    given = parser.parse_args()
    files: dict[str, list[str]] = {}
    for path in given.files:
        files.setdefault("Banana" if dense([path])[0].shape[1] == 2 else "IJCNN", []).append(path)
    curves = {title: table(title, *dense(paths)) for title, paths in sorted(files.items())}
    for title, by_model in curves.items():
        for name, losses in by_model.items():
            print(f"{title} {name}: cumulative log loss by epoch:", " ".join(f"{loss:.4f}" for loss in losses))
    if given.plot:
        panels = {
            title: {name: (range(1, len(losses) + 1), losses) for name, losses in by_model.items()}
            for title, by_model in curves.items()
        }
        draw(given.plot, panels, xlabel="epoch", ylabel="cumulative log loss")


if __name__ == "__main__":
    main()
