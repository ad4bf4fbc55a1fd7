"""[HO] section 7, why logistic ranks ratings better than bpr: it learns the factors of users from their levels, too."""

from collections.abc import Iterator

import numpy as np
from experiment import Experiment, Numbers, Rule, Table, mean
from fitting import Options, fit
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit
from sets.dense import Pair
from sets.movielens import FOLD_ROWS
from sets.raw import Raw

from experiments import ho_bpr
from fmcli.data.dataset import Dataset
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.rows import score_rows

GAUC, RANK, STD, SEEDS, STARTS = "gauc", 10, 0.1, 4, 2
ADAGRAD: Options = {"solver": "adagrad", "learning_rate": 0.1, "epochs": 22}
FM: Options = ADAGRAD | {"rank": RANK, "init_std": STD}
USERS = 10  # that form one group
LINEAR, FACTORS = ("logistic, weights only", "bpr, weights only"), ("logistic", "bpr")
MERGED = f"bpr, groups of {USERS} users"
# The model, its options, and how many users form a group; l2 is the best of those tried on the same held-out rows.
RUNS: dict[str, tuple[str, Options, int]] = {
    LINEAR[0]: ("linear", ADAGRAD | {"loss": "logistic", "l2": 0.01}, 1),
    LINEAR[1]: ("linear", ADAGRAD | {"loss": "bpr", "l2": 0.01}, 1),
    FACTORS[0]: ("fm", FM | {"loss": "logistic", "l2": 0.07}, 1),
    FACTORS[1]: ("fm", FM | {"loss": "bpr", "l2": 0.11}, 1),
    MERGED: ("fm", FM | {"loss": "bpr", "l2": 0.06}, USERS),
}
PLAIN, CENTRED = "logistic, L-BFGS", "the same without levels"
STRENGTHS, ITERATIONS = {PLAIN: 0.09, CENTRED: 0.1}, 80
CHOSEN, TOP = "bpr, options chosen above", "ndcg@10"
# On films, with the options that are best on the first held-out part, but those that ho_bpr chose on random rows.
FILMS: dict[str, tuple[Options, int]] = {
    FACTORS[0]: (FM | {"loss": "logistic", "l2": 0.03, "epochs": 36}, 1),
    FACTORS[1]: (FM | {"loss": "bpr", "l2": 0.045, "epochs": 34}, 1),
    MERGED: (FM | {"loss": "bpr", "l2": 0.03, "epochs": 30}, USERS),
    CHOSEN: (FM | {"loss": "bpr", "l2": 0.03, "epochs": 18}, 1),
}
SMALL, MOST = 0.001, 0.5


def parts(train: Dataset) -> Iterator[Pair]:
    """The rows to train on and those held out: of the training rows of u1, the test rows of u2 to u5."""
    fold = np.arange(train.rows) // FOLD_ROWS
    for number in range(fold[-1] + 1):
        yield Pair(*(train.take(np.flatnonzero(rows).astype(np.int32)) for rows in (fold != number, fold == number)))


def merged(train: Dataset, users: int) -> Dataset:
    """The rows, where so many random users form a group."""
    order = np.random.default_rng(0).permutation(1 + int(train.group.max()))
    return train.changed(group=(order // users)[train.group].astype(np.int32))


def curves(name: str, pair: Pair) -> list[list[float]]:
    """(seeds, epochs) gauc on the rows that are not trained on."""
    model, options, users = RUNS[name]
    train = merged(pair.train, users)
    runs = [fit(model, options | {"seed": seed}, train, pair.test, (GAUC,)).epochs for seed in range(SEEDS)]
    return [[epoch.valid[GAUC] for epoch in run] for run in runs]


def minimized(name: str, pair: Pair, seed: int) -> float:
    """gauc on held-out rows of fm with logistic loss, by L-BFGS. Without levels, the mean over the rows of a user is
    subtracted from the products of factors."""
    train, l2 = pair.train, STRENGTHS[name]
    user, film, sign = train.index[::2], train.index[1::2], np.where(train.label > 0, 1.0, -1.0)
    one, row = np.ones(train.rows), np.arange(train.rows)
    to_user, to_film = (csr_matrix((one, (index, row)), (train.features, train.rows)) for index in (user, film))
    touched = np.maximum(1, np.bincount(train.index, minlength=train.features))[:, None]

    def levelled(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values - (to_user @ values / touched[:, 0])[user] if name == CENTRED else values

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        phi = flat.reshape(-1, 1 + RANK)
        u, f = phi[user], phi[film]
        margin = sign * (u[:, 0] + f[:, 0] + levelled((u[:, 1:] * f[:, 1:]).sum(axis=1)))
        slope = -sign * expit(-margin)
        of_product = levelled(slope)[:, None]
        gradient = l2 * touched * phi
        gradient += to_user @ np.hstack([slope[:, None], of_product * f[:, 1:]])
        gradient += to_film @ np.hstack([slope[:, None], of_product * u[:, 1:]])
        value = np.logaddexp(0, -margin).sum() + l2 / 2 * (touched * phi**2).sum()
        return value / train.rows, gradient.ravel() / train.rows

    start = np.random.default_rng(seed).normal(0, STD, (train.features, 1 + RANK))
    start[:, 0] = 0
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    u, f = (found.x.reshape(-1, 1 + RANK)[pair.test.index[place::2]] for place in (0, 1))
    score = f[:, :1] + (u[:, 1:] * f[:, 1:]).sum(axis=1, keepdims=True)
    return measure((GAUC,), Outcome("bpr", pair.test.label, score, group=pair.test.group))[GAUC]


def of_films(pairs: list[Pair]) -> Numbers:
    """The metrics of each loss on the held-out parts, as links beside all films without a rating."""
    found: Numbers = {name: {metric: [] for metric in ho_bpr.METRICS} for name in FILMS}
    for seed, (train, test) in enumerate(map(ho_bpr.films, pairs)):
        for name, (options, users) in FILMS.items():
            model = fit("fm", options | {"seed": seed}, merged(train, users)).plan.model
            outcome = Outcome("bpr", test.label, score_rows(model, test), group=test.group)
            for metric, value in measure(ho_bpr.METRICS, outcome).items():
                found[name][metric].append(value)
    return found


def run(raw: Raw) -> Numbers:
    u1 = ho_bpr.ratings(raw)
    pairs = list(parts(u1.train))
    found: Numbers = {}
    for name in RUNS:
        by_epoch = np.array([curves(name, pair) for pair in pairs])
        best = int(by_epoch.mean(axis=(0, 1)).argmax())
        tested = float(np.array(curves(name, u1))[:, best].mean())
        found[name] = {GAUC: by_epoch[:, :, best].mean(axis=1).tolist(), "epochs": best + 1, "test": tested}
    for name in STRENGTHS:
        values = np.array([[minimized(name, pair, seed) for seed in range(STARTS)] for pair in pairs])
        found[name] = {GAUC: values.mean(axis=1).tolist(), "epochs": ITERATIONS}
    return {"ratings": found, "films": of_films(pairs)}


def gap(found: Numbers, name: str, other: str, metric: str = GAUC) -> tuple[float, float]:
    """The mean over the parts of the metric of `name` minus that of `other`, and its standard error."""
    differences = np.subtract(found[name][metric], found[other][metric])
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))


def shown(found: Numbers, name: str, other: str, metric: str = GAUC) -> str:
    return "" if name == other else "{:+.4f} +- {:.4f}".format(*gap(found, name, other, metric))


def behind(numbers: Numbers) -> bool:
    difference, error = gap(numbers["ratings"], *FACTORS[::-1])
    return difference < -2 * error


def closes(numbers: Numbers) -> bool:
    """Whether pairs across users make up for most of the gap."""
    return gap(numbers["ratings"], MERGED, FACTORS[1])[0] > MOST * gap(numbers["ratings"], *FACTORS)[0]


def loses(numbers: Numbers) -> bool:
    """Whether logistic without levels is as far behind as most of the gap."""
    return gap(numbers["ratings"], PLAIN, CENTRED)[0] > MOST * gap(numbers["ratings"], *FACTORS)[0]


def tuned(numbers: Numbers) -> bool:
    """Whether the options of bpr make up for most of its gap at the top."""
    return gap(numbers["films"], FACTORS[1], CHOSEN, TOP)[0] > MOST * gap(numbers["films"], FACTORS[0], CHOSEN, TOP)[0]


def tables(numbers: Numbers) -> list[Table]:
    found, of_films = numbers["ratings"], numbers["films"]
    against = {LINEAR[1]: LINEAR[0], FACTORS[1]: FACTORS[0], MERGED: FACTORS[0], CENTRED: PLAIN}
    l2 = {name: options["l2"] for name, (_, options, _) in RUNS.items()} | STRENGTHS
    return [
        Table(
            f"Ratings: mean gauc of {SEEDS} seeds, {STARTS} of L-BFGS, on four held-out parts, the difference with its"
            " standard error over the parts, and gauc on the test rows with these options",
            ["loss", "l2", "epochs or iterations", "held out", "minus logistic", "test"],
            [
                [
                    name,
                    f"{l2[name]:g}",
                    str(one["epochs"]),
                    f"{mean(one[GAUC]):.4f}",
                    shown(found, name, against.get(name, name)),
                    f"{one['test']:.4f}" if "test" in one else "",
                ]
                for name, one in found.items()
            ],
        ),
        Table(
            "Films: mean of the four held-out parts, and the difference with its standard error over the parts",
            ["loss", "l2", "epochs", *(head for metric in ho_bpr.METRICS for head in (metric, "minus logistic"))],
            [
                [
                    name,
                    *(f"{FILMS[name][0][option]:g}" for option in ("l2", "epochs")),
                    *(
                        cell
                        for metric, values in one.items()
                        for cell in (f"{mean(values):.4f}", shown(of_films, name, FACTORS[0], metric))
                    ),
                ]
                for name, one in of_films.items()
            ],
        ),
    ]


EXPERIMENT = Experiment(
    name="ho_levels",
    source="[HO] section 7",
    title="why logistic ranks ratings better",
    about=f"""
These are the measurements that the reason above quotes; the rules are what it claims. The test rows of u1 to u5 are the
fifths of the file. Those of u2 to u5 are held out of the training rows of u1, one fold after the other, so that they
are drawn like the test rows of u1. The level of a user is the share of the rated films that the user likes. `bpr`
compares rows of one user and does not see it; `logistic` may learn the factors of users from it. Two interventions tell
whether this matters. Random groups of {USERS} users give `bpr` pairs across users, which depend on the levels. And from
the products of factors in `logistic`, their mean over the rows of the user is subtracted, so that only the linear
weight of the user can learn the level; this is not a model of fmcli, and L-BFGS minimizes it, with the penalties of all
rows. On `films`, almost all users have the same share of links in training, so that there are no levels.
""",
    rules=[
        Rule(
            f"ratings: without factors, the mean gauc of bpr differs from that of logistic by less than {SMALL:g}.",
            lambda numbers: abs(gap(numbers["ratings"], *LINEAR)[0]) < SMALL,
        ),
        Rule("ratings: with factors, bpr is behind by more than twice the standard error over the parts.", behind),
        Rule("ratings: groups of several users make up for more than half of that.", closes),
        Rule("ratings: without levels, logistic is worse by more than half of that.", loses),
        Rule(
            f"films: groups of several users change the mean gauc of bpr by less than {SMALL:g}.",
            lambda numbers: abs(gap(numbers["films"], MERGED, FACTORS[1])[0]) < SMALL,
        ),
        Rule(f"films: other options of bpr make up for more than half of its gap in {TOP}.", tuned),
    ],
    run=run,
    tables=tables,
)
