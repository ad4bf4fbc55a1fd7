"""[HO] section 7 on MovieLens 100K: link prediction by the pairwise loss that it names, beside the logistic loss.

    python scripts/papers/ho_bpr.py FOLDER

FOLDER has u1.{train,test}.ffm (field 0: the user, field 1: the film, label: the rating) and hofm.{train,test}.libsvm
(features of users below SPLIT, features of films from there on, label: whether there is a link). There are three sets:

- ratings: the rows of u1; ratings of GOOD and above are links, and the groups are the users.
- films: the links of u1 beside films that the user has not rated: in training PER_LINK random ones for each link, in
  the test all films that the user has not rated in training, for each user who has a link there.
- features: the rows of the hofm files, in groups of users with the same features.

For each set and loss, held-out rows of the training data choose the options and the number of epochs by `gauc`. The
models of all seeds are then trained on all training rows, and evaluated once on the test rows. The paper shows no
figures for this loss.

The rule for each set: the mean of `gauc` by bpr minus by logistic, over the seeds on the test rows, is more than TWICE
times its standard error.

It failed on all three: `gauc` by bpr was lower by 0.0085, 0.0020 and 0.0012, the last of which is about the standard
error. The reason is not that a row has one partner in an epoch: on the test rows of the ratings, a linear model that
minimizes the loss over all pairs has 0.710, one with drawn pairs 0.709, and one of the logistic loss 0.710.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fitting import Options, best_options, fit, grid, held_out

from fmcli.data.dataset import Dataset
from fmcli.data.formats import Grouping
from fmcli.data.reader import read
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.rows import score_rows

SPLIT, GOOD, PER_LINK, TWICE = 49, 4, 4, 2
METRICS = ("gauc", "ndcg@10", "map")
LOSSES = ("logistic", "bpr")
SEEDS, HELD_OUT, EPOCHS, PATIENCE = 5, 0.1, 200, 10
GRID = grid(
    solver=["adagrad"],
    rank=[10],
    init_std=[0.1],
    learning_rate=[0.03, 0.1, 0.3],
    l2=[1e-3, 1e-2, 3e-2, 1e-1],
    epochs=[EPOCHS],
)


def ratings(folder: Path) -> tuple[Dataset, Dataset]:
    """The rows of u1, in groups by user."""
    pair = [read([str(folder / f"u1.{part}.ffm")], grouping=Grouping(0)).dataset for part in ("train", "test")]
    features = max(data.features for data in pair)
    train, test = (
        data.changed(label=np.where(data.label >= GOOD, 1.0, 0.0), features=features, group=data.index[::2])
        for data in pair
    )
    return train, test


def films(folder: Path) -> tuple[Dataset, Dataset]:
    """The links of u1 beside films without a rating, in groups by user."""
    train, test = ratings(folder)
    users = 1 + int(max(data.index[::2].max() for data in (train, test)))
    rated, liked = np.zeros((users, train.features), dtype=np.bool_), np.zeros((users, train.features), dtype=np.bool_)
    rated[train.index[::2], train.index[1::2]] = True
    linked = test.label > 0
    liked[test.index[::2][linked], test.index[1::2][linked]] = True
    random = np.random.default_rng(0)
    user, film, label = [], [], []
    for number in np.unique(train.index[::2]):
        links = train.index[1::2][(train.index[::2] == number) & (train.label > 0)]
        others = np.setdiff1d(np.arange(users, train.features), np.flatnonzero(rated[number]))
        drawn = random.choice(others, min(len(others), PER_LINK * len(links)), replace=False)
        user.append(np.full(len(links) + len(drawn), number))
        film += [links, drawn]
        label.append(np.repeat([1.0, 0.0], [len(links), len(drawn)]))
    tested = [(number, np.flatnonzero(~rated[number, users:]) + users) for number in np.flatnonzero(liked.any(axis=1))]
    of_test = np.concatenate([np.full(len(found), number) for number, found in tested])
    films_of_test = np.concatenate([found for _, found in tested])
    return (
        pairs(np.concatenate(user), np.concatenate(film), np.concatenate(label), train.features),
        pairs(of_test, films_of_test, liked[of_test, films_of_test].astype(np.float64), train.features),
    )


def pairs(user: np.ndarray, film: np.ndarray, label: np.ndarray, features: int) -> Dataset:
    """Rows of a user and a film, in groups by user."""
    index = np.stack([user, film], axis=1).astype(np.int32).ravel()
    return Dataset(2 * np.arange(len(user) + 1), index, None, label, features, group=user.astype(np.int32))


def of_features(folder: Path) -> tuple[Dataset, Dataset]:
    """The rows of the hofm files, in groups by the features of the user."""
    pair = [read([str(folder / f"hofm.{part}.libsvm")]).dataset for part in ("train", "test")]
    features = max(data.features for data in pair)
    train, test = (data.changed(features=features, group=same_users(data)) for data in pair)
    return train, test


def same_users(data: Dataset) -> np.ndarray:
    """(rows) The same number for rows with the same features below SPLIT."""
    rows, of_user = np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index < SPLIT
    users = np.zeros((data.rows, SPLIT), dtype=np.bool_)
    users[rows[of_user], data.index[of_user]] = True
    return np.unique(users, axis=0, return_inverse=True)[1].ravel().astype(np.int32)


SETS: dict[str, Callable[[Path], tuple[Dataset, Dataset]]] = {
    "ratings": ratings,
    "films": films,
    "features": of_features,
}


def chosen(loss: str, train: Dataset) -> Options:
    """The options and the number of epochs that are best on held-out rows of the training data."""
    tried = [{**options, "loss": loss} for options in GRID]
    return best_options("fm", tried, train, METRICS[0], [held_out(train.rows, HELD_OUT)], PATIENCE)[0]


def tested(options: Options, train: Dataset, test: Dataset) -> np.ndarray:
    """(seeds, metrics) The metrics on the test rows, for each seed."""
    figures = []
    for seed in range(SEEDS):
        model = fit("fm", {**options, "seed": seed}, train).plan.model
        outcome = Outcome("bpr", test.label, score_rows(model, test), group=test.group)
        figures.append(list(measure(METRICS, outcome).values()))
    return np.array(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print(f"set       loss      {''.join(f'{name:18}' for name in METRICS)} chosen")
    for name, rows in SETS.items():
        train, test = rows(folder)
        found = {}
        for loss in LOSSES:
            options = chosen(loss, train)
            found[loss] = tested(options, train, test)
            means = zip(found[loss].mean(axis=0), found[loss].std(axis=0, ddof=1), strict=True)
            told = "  ".join(f"{mean:.4f} +- {spread:.4f}" for mean, spread in means)
            said = ", ".join(f"{key} {options[key]:g}" for key in ("learning_rate", "l2", "epochs"))
            print(f"{name:8}  {loss:8}  {told}  {said}", flush=True)
        gain = found["bpr"][:, 0] - found["logistic"][:, 0]
        error = gain.std(ddof=1) / np.sqrt(SEEDS)
        verdict = "PASS" if gain.mean() > TWICE * error else "FAIL"
        print(f"{name}: {METRICS[0]} of bpr minus logistic: {gain.mean():.4f}, standard error {error:.4f}: {verdict}")


if __name__ == "__main__":
    main()
