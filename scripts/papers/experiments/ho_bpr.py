"""[HO] section 7: link prediction by the pairwise loss that it names, beside the logistic loss."""

from collections.abc import Callable

import numpy as np
from experiment import Experiment, Numbers, Rule, Table, mean_and_spread
from fitting import Options, best_options, fit, grid, held_out
from numpy.typing import NDArray
from sets.dense import Pair
from sets.movielens import links, one_hot, u_split
from sets.raw import Raw

from fmcli.data.dataset import Dataset
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.rows import score_rows

USER_FEATURES, GOOD, PER_LINK, TWICE, CLOSE = 49, 4, 4, 2, 0.002
METRICS = ("gauc", "ndcg@10", "map")
LOSSES = ("logistic", "bpr")
SEEDS, HELD_OUT, EPOCHS, PATIENCE = 5, 0.1, 60, 4
GRID = grid(
    solver=["adagrad"],
    rank=[10],
    init_std=[0.1],
    learning_rate=[0.03, 0.1],
    l2=[1e-3, 1e-2, 3e-2, 6e-2, 1e-1, 2e-1],
    epochs=[EPOCHS],
)


def ratings(raw: Raw) -> Pair:
    """The rows of u1 in groups by user; ratings of GOOD and above are links."""
    train, test = (
        data.changed(label=np.where(data.label >= GOOD, 1.0, 0.0), group=data.index[::2])
        for data in u_split(one_hot(raw), 1)
    )
    return Pair(train, test)


def films(rated_films: Pair) -> Pair:
    """The links of such rows beside films without a rating, in groups by user."""
    train, test = rated_films
    users = 1 + int(max(data.index[::2].max() for data in (train, test)))
    shape = users, train.features
    rated, liked = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    rated[train.index[::2], train.index[1::2]] = True
    linked = test.label > 0
    liked[test.index[::2][linked], test.index[1::2][linked]] = True
    random = np.random.default_rng(0)
    user, film, label = [], [], []
    for number in np.unique(train.index[::2]):
        found = train.index[1::2][(train.index[::2] == number) & (train.label > 0)]
        others = np.setdiff1d(np.arange(users, train.features), np.flatnonzero(rated[number]))
        drawn = random.choice(others, min(len(others), PER_LINK * len(found)), replace=False)
        user.append(np.full(len(found) + len(drawn), number))
        film += [found, drawn]
        label.append(np.repeat([1.0, 0.0], [len(found), len(drawn)]))
    tested = [(number, np.flatnonzero(~rated[number, users:]) + users) for number in np.flatnonzero(liked.any(axis=1))]
    of_test = np.concatenate([np.full(len(found), number) for number, found in tested])
    films_of_test = np.concatenate([found for _, found in tested])
    return Pair(
        pairs(np.concatenate(user), np.concatenate(film), np.concatenate(label), train.features),
        pairs(of_test, films_of_test, liked[of_test, films_of_test].astype(np.float64), train.features),
    )


def pairs(user: NDArray[np.int64], film: NDArray[np.int64], label: NDArray[np.float64], features: int) -> Dataset:
    """Rows of a user and a film, in groups by user."""
    index = np.stack([user, film], axis=1).astype(np.int32).ravel()
    return Dataset(2 * np.arange(len(user) + 1), index, None, label, features, group=user.astype(np.int32))


def of_features(raw: Raw) -> Pair:
    """The links of [HO], in groups by the features of the user."""
    train, test = (data.changed(group=same_users(data)) for data in links(raw, 0))
    return Pair(train, test)


def same_users(data: Dataset) -> NDArray[np.int32]:
    """(rows) The same number for rows with the same features of the user."""
    rows, of_user = np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index < USER_FEATURES
    users = np.zeros((data.rows, USER_FEATURES), dtype=np.bool_)
    users[rows[of_user], data.index[of_user]] = True
    return np.unique(users, axis=0, return_inverse=True)[1].ravel().astype(np.int32)


SETS: dict[str, Callable[[Raw], Pair]] = {
    "ratings": ratings,
    "films": lambda raw: films(ratings(raw)),
    "features": of_features,
}


def repeated(options: Options, pair: Pair) -> dict[str, list[float]]:
    """The metrics on the test rows, for each seed."""
    found: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for seed in range(SEEDS):
        model = fit("fm", {**options, "seed": seed}, pair.train).plan.model
        outcome = Outcome("bpr", pair.test.label, score_rows(model, pair.test), group=pair.test.group)
        for metric, value in measure(METRICS, outcome).items():
            found[metric].append(value)
    return found


def run(raw: Raw) -> Numbers:
    numbers: Numbers = {}
    for name, build in SETS.items():
        pair = build(raw)
        parts = [held_out(pair.train.rows, HELD_OUT)]
        numbers[name] = {}
        for loss in LOSSES:
            tried = [{**options, "loss": loss} for options in GRID]
            options, _ = best_options("fm", tried, pair.train, METRICS[0], parts, PATIENCE)
            chosen = {key: options[key] for key in ("learning_rate", "l2", "epochs")}
            numbers[name][loss] = {**repeated(options, pair), "chosen": chosen}
    return numbers


def gains(numbers: Numbers, name: str) -> NDArray[np.float64]:
    """(seeds) The metric of bpr minus that of logistic."""
    return np.subtract(numbers[name]["bpr"][METRICS[0]], numbers[name]["logistic"][METRICS[0]])


def better(name: str) -> Callable[[Numbers], bool]:
    return lambda numbers: bool(gains(numbers, name).mean() > TWICE * gains(numbers, name).std(ddof=1) / np.sqrt(SEEDS))


def tables(numbers: Numbers) -> list[Table]:
    rows = [
        [
            name,
            loss,
            *(mean_and_spread(one[metric], 4) for metric in METRICS),
            " ".join(f"{option} {value:g}" for option, value in one["chosen"].items()),
        ]
        for name, by_loss in numbers.items()
        for loss, one in by_loss.items()
    ]
    return [
        Table(
            f"On test rows (mean and standard deviation of {SEEDS} seeds)", ["set", "loss", *METRICS, "options"], rows
        )
    ]


REASONS = {
    "ratings": (
        "For the most part, this is because bpr compares rows of one user only, while logistic also learns the"
        " factors of users from their levels, the shares of the rated films that they like (next section). On held-out"
        " rows that are drawn like the test rows, bpr is 0.0037 behind; pairs across users make up for 0.0027 of that,"
        " and for 0.0055 of 0.0067 on the test rows. Without levels, logistic itself is 0.0041 worse. The options of"
        " the table, which were chosen on random rows, add about 0.001. On the test rows, bpr is behind by 0.0039 even"
        " without factors, which no held-out part shows, and which is not explained; the standard error over the 459"
        " test users is about 0.002. An earlier version of this page named the split, but on random held-out rows bpr"
        " is 0.0020 behind, too (eight draws, standard error 0.0011)."
    ),
    "films": (
        "In training, almost all users have the same share of links, so that there are no levels to learn from. Both"
        " losses rank about equally well by gauc, also on held-out rows that are drawn like the test rows: bpr is"
        " 0.0007 behind, and pairs across users change that by 0.0001 (next section). That logistic is better at the"
        " top is because of the options of bpr, which were chosen by gauc on random rows: by ndcg@10 on the held-out"
        " rows, bpr is 0.012 behind with these, and 0.001 with 34 epochs and l2 0.045, which the grid lacks."
    ),
}

EXPERIMENT = Experiment(
    name="ho_bpr",
    source="[HO] section 7",
    title="link prediction by pairs of rows",
    about=f"""
The paper proposes to maximize the AUC directly, by random pairs of a link and another pair of nodes, and shows no
figures. Here `bpr` is compared with `logistic` for `fm` with 10 factors. `ratings` are the rows of u1, where ratings of
{GOOD} and above are links; `films` are these links beside films that the user has not rated: in training {PER_LINK}
random ones for each link, in the test all films that the user has not rated in training; `features` are the links of
Table 3. Groups are users, or users with the same features. l2, step size and the number of epochs are chosen by `gauc`
on {HELD_OUT:.0%} of the training rows.
""",
    rules=[
        *(
            Rule(f"{name}: the mean gauc of bpr minus that of logistic is more than twice its standard error.",
                 better(name), REASONS.get(name, ""))
            for name in SETS
        ),
        Rule(
            f"on each set, the mean gauc of bpr is at most {CLOSE:g} below that of logistic.",
            lambda numbers: all(gains(numbers, name).mean() >= -CLOSE for name in numbers),
            "On ratings, it is not, for the reason above.",
        ),
    ],
    run=run,
    tables=tables,
    notes="""
The first rule is from an earlier run, in which it failed on all sets: only rows with a larger label got a partner then,
and l2 ended at 0.1. On held-out ratings (10% of the training rows), rows of both kinds raise the gauc of bpr from 0.728
to 0.737, where logistic has 0.736; on those of `features` from 0.758 to 0.767, where logistic has 0.765. That pairs are
drawn costs nothing: the loss of all pairs with the weights of the drawn ones, minimized by L-BFGS, has 0.734 and 0.721.
""",
)  # fmt: skip
