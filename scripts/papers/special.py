"""What single experiments need beside the metrics of models: measures, start values, choices, rows that no model of
fmcli gives, and functions of their rules."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from measures import Measure, Options, Results, Row, Tried, lowest, mean, spec_of, squared_loss
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit
from sets import Pair, Sets

from fmcli.data.dataset import Dataset
from fmcli.export.kernel_form import write_kernel_form
from fmcli.scoring.metrics import METRICS, Outcome, measure
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import load_model
from fmcli.training import job
from fmcli.training.saving import load_warm_start, save_model
from fmcli.training.setup.warm_start import WarmStart

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.float32]]


def never_rises(values: Sequence[float], tolerance: float) -> bool:
    return all(b <= a * (1 + tolerance) for a, b in pairwise(values))


def exponent(r: Results, *parts: str) -> float:
    """Return the exponent of a power law fitted to the least seconds by the numbers at the end of the names."""
    x, y = (
        [of(row) for row in r.named(*parts)]
        for of in (lambda row: float(row.split()[-1]), lambda row: min(r[row]["seconds"]))
    )
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def growth(r: Results, kind: str) -> list[float]:
    """Return the least times relative to the fewest features' times."""
    least = [min(times) for times in r.lists(kind)]
    return [one / least[0] for one in least]


def ratios(r: Results, row: str, other: str) -> list[float]:
    """Return the first metric of a row relative to another row's, by split."""
    return [a / b for a, b in zip(r[row][r.first(row)], r[other][r.first(other)], strict=True)]


class Gap(NamedTuple):
    mean: float
    error: float


def gap(r: Results, row: str, other: str, metric: str = "gauc") -> Gap:
    """Return the mean difference of a metric of two rows, and its standard error."""
    differences = np.subtract(r[row][metric], r[other][metric])
    return Gap(float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences))))


# [PN] Figure 1.


def objective_of_beta(plan: job.Plan, pair: Pair) -> Row:
    """Return the final objective; with a fixed beta, it includes the penalty of a fitted one."""
    values, found = plan.spec.values, job.train(plan).epochs[-1].objective
    return {"objective": found + (0 if values["fit_beta"] else values["l2"] / 2 * values["rank"])}


def _lowest(r: Results, row: str, way: str) -> float:
    return min(r[row.replace("fitted", way)]["objective"])


def no_excess(r: Results, row: str) -> bool:
    """Return whether the lowest objective with beta fitted is at most 0.1 % above the lowest one of all ways."""
    return min(r[row]["objective"]) <= 1.001 * min(_lowest(r, row, way) for way in ("fixed at 1", "fixed at 1, -1"))


def gained(r: Results, problem: str) -> float:
    row = f"{problem}, fitted, k = 32"
    return min(r[row]["objective"]) / _lowest(r, row, "fixed at 1")


# [PN] Theorem 2.


def convex(sets: Sets) -> dict[str, Row]:
    """Return the minimum of the mean loss plus lambda times the nuclear norm of the matrix of weights of pairs, and a
    bias, by accelerated proximal gradient steps, independently of fmcli."""
    pairs = sets["diabetes, two thirds"]
    return {
        f"{kind}, convex": {"objective": [convex_minimum(one.train, kind) for one in pairs]} for kind in ("anova", "pn")
    }


def convex_minimum(data: Dataset, kind: str, strength: float = 0.01) -> float:
    x = np.ones((data.rows, data.features + 1))
    x[:, 1:] = 0
    x[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index + 1] = data.value
    pairs = np.einsum("ni,nj->nij", x, x)
    if kind == "anova":
        pairs = (pairs - np.einsum("nii,ij->nij", pairs, np.eye(x.shape[1]))) / 2
    features = np.hstack([pairs.reshape(data.rows, -1), np.ones((data.rows, 1))])
    step, shape = data.rows / np.linalg.norm(features, 2) ** 2, (x.shape[1], x.shape[1])

    def prox(v: Floats) -> tuple[Floats, float]:
        u, s, w = np.linalg.svd(v[:-1].reshape(shape))
        s = np.maximum(s - step * strength, 0)
        return np.append((u * s @ w).ravel(), v[-1]), strength * s.sum()

    now = ahead = np.zeros(features.shape[1])
    momentum, norm = 1.0, 0.0
    for _ in range(3000):
        slope = features.T @ (features @ ahead - data.label) / data.rows
        (new, norm), old = prox(ahead - step * slope), momentum
        momentum = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        now, ahead = new, new + (old - 1) / momentum * (new - now)
    return float(np.mean((features @ now - data.label) ** 2) / 2 + norm)


# [PN] Figure 2.


def saved_start(options: Options, data: Dataset, path: str) -> WarmStart:
    """Write a model with its start values, and return them."""
    trained = job.train(job.plan(data, spec_of(options | {"epochs": 0})))
    save_model(path, trained, job.summary(trained), "libsvm")
    return load_warm_start(path)


def common_start(options: Options, data: Dataset) -> dict[str, WarmStart]:
    """Return a start for each form, with the same scores.

    For m = 2, the lifted form is drawn, and the direct one is its kernel form, with the absolute values of beta moved
    into the factors, so beta is 1 or -1. For m = 3, which has no kernel form, the direct form is drawn, and the
    lifted one has its factors three times.
    """
    drawn = {name: options[name] for name in ("loss", "linear", "augment", "init_std", "order", "seed")}
    drawn |= {"solver": "cd", "rank": 5}
    with TemporaryDirectory() as folder:
        lifted, direct = (str(Path(folder) / f"{form}.fm") for form in ("lifted", "direct"))
        found = {"lifted": saved_start(drawn | {"kind": "lifted-pn"}, data, lifted)}
        if options["order"] == 2:
            write_kernel_form(lifted, load_model(lifted), direct)
            found["direct"] = load_warm_start(direct)
        else:
            found["direct"] = saved_start(drawn | {"kind": "pn"}, data, direct)
    arrays = {name: np.array(array) for name, array in found["direct"].model.parameters.items()}
    if options["order"] == 2:
        size = np.sqrt(np.abs(arrays["beta"]))
        new = {"P": arrays["P"] * size[:, None], "gamma": arrays["gamma"] * size, "beta": np.sign(arrays["beta"])}
        found["direct"].model.attach(arrays | new)
    else:
        copies = {f"U{t + 1}": arrays["P"] for t in range(options["order"])}
        gamma = np.repeat(arrays["gamma"][:, None], options["order"], axis=1)
        found["lifted"].model.attach(dict(found["lifted"].model.parameters) | copies | {"gamma": gamma})
    return found


def form_start(options: Options, data: Dataset) -> WarmStart:
    """Return the common start of a form, whose rank it sets in the options."""
    start = common_start(options, data)["lifted" if options["kind"] == "lifted-pn" else "direct"]
    options["rank"] = start.run.options["rank"]
    return start


def compared_starts(plan: job.Plan, pair: Pair) -> Row:
    """Return the objectives of both starts, and the largest difference of their scores."""
    options = dict(plan.spec.values) | {"loss": plan.spec.loss}
    starts = common_start(options, pair.train)
    scores = [score_rows(start.model, pair.train) for start in starts.values()]
    found: Row = {}
    for form, start in starts.items():
        strength = 1e-3 if options["order"] == 2 and form == "direct" else 5e-4
        arrays = (array for name, array in start.model.parameters.items() if name not in ("bias", "beta"))
        squares = sum(np.sum(np.square(array, dtype=np.float64)) for array in arrays)
        found[form] = squared_loss(start.model, pair.train) + float(strength * squares)
    return found | {"gap": float(np.abs(scores[0] - scores[1]).max())}


def from_start(r: Results, row: str) -> list[list[float]]:
    """Return the objectives relative to the start's, for each start."""
    problem, way = row.split(", ")
    begins = r[f"{problem}, start"][way.split()[0]]
    return [[one / begin for one in path] for path, begin in zip(r[row]["objective"], begins, strict=True)]


def until_close(r: Results, row: str) -> float:
    """Return the median of the seconds until the relative objective is at most 0.02 above the lowest one of all ways
    with this start; infinite if most starts do not reach it."""
    every = {one: from_start(r, one) for one in r.named(row.split(", ")[0]) if "objective" in r[one]}
    found = []
    for start, seconds in enumerate(r[row]["seconds"]):
        least = min(min(one[start]) for one in every.values())
        pairs = zip(seconds, every[row][start], strict=True)
        found.append(min((at for at, value in pairs if value <= least + 0.02), default=math.inf))
    return median(found)


# [PN] Figure 4.


def needed(r: Results, name: str, method: str) -> float:
    """Return the least number of bases with which a method is about as good as kernel ridge regression."""
    enough = r(f"{name}, kernel ridge") - 0.01
    return next((k for k in (3, 6, 12, 24, 48) if r(f"{name}, {method}, k = {k}") >= enough), math.inf)


# [HO] Figures 1 to 4.


def until_near(r: Results, row: str) -> float:
    """Return the CPU seconds until the objective is within 1 % of the lowest one of the problem, infinite if never."""
    same = r.named(*row.split(", ")[: row.count(", ")])
    least = min(min(r[one]["objective"][0], default=math.inf) for one in same if "objective" in r[one])
    pairs = zip(r[row]["seconds"][0], r[row]["objective"][0], strict=True)
    return next((seconds for seconds, value in pairs if value <= 1.01 * least), math.inf)


def sensitive(rows: Sequence[Row]) -> bool:
    """Return whether a run diverges, or the objectives at the ends differ by more than 10 %."""
    ends = [row["objective"][0][-1] for row in rows if row["objective"][0]]
    return any(row.get("diverged") for row in rows) or max(ends) > 1.1 * min(ends)


# [HO] section 7: logistic loss by L-BFGS, with and without the levels of users.


def levels(sets: Sets) -> dict[str, Row]:
    """Return gauc on held-out rows. Without levels, the mean over the rows of a user is subtracted from the products of
    factors, so only the weight of the user can learn the level."""
    return {
        f"ratings, logistic {how}": {
            "gauc": [mean(minimized(pair, l2, how, seed) for seed in range(2)) for pair in sets["ratings, held out"]]
        }
        for how, l2 in (("by L-BFGS", 0.09), ("without levels", 0.1))
    }


def minimized(pair: Pair, l2: float, how: str, seed: int, rank: int = 10) -> float:
    train = pair.train
    user, film, sign = train.index[::2], train.index[1::2], np.where(train.label > 0, 1.0, -1.0)
    one, row = np.ones(train.rows), np.arange(train.rows)
    to_user, to_film = (csr_matrix((one, (index, row)), (train.features, train.rows)) for index in (user, film))
    touched = np.maximum(1, np.bincount(train.index, minlength=train.features))[:, None]

    def levelled(values: Floats) -> Floats:
        return values - (to_user @ values / touched[:, 0])[user] if how == "without levels" else values

    def objective(flat: Floats) -> tuple[float, Floats]:
        phi = flat.reshape(-1, 1 + rank)
        u, f = phi[user], phi[film]
        margin = sign * (u[:, 0] + f[:, 0] + levelled((u[:, 1:] * f[:, 1:]).sum(axis=1)))
        slope = -sign * expit(-margin)
        of_product = levelled(slope)[:, None]
        gradient = l2 * touched * phi
        gradient += to_user @ np.hstack([slope[:, None], of_product * f[:, 1:]])
        gradient += to_film @ np.hstack([slope[:, None], of_product * u[:, 1:]])
        value = np.logaddexp(0, -margin).sum() + l2 / 2 * (touched * phi**2).sum()
        return value / train.rows, gradient.ravel() / train.rows

    start = np.random.default_rng(seed).normal(0, 0.1, (train.features, 1 + rank))
    start[:, 0] = 0
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 80})
    u, f = (found.x.reshape(-1, 1 + rank)[pair.test.index[place::2]] for place in (0, 1))
    score = f[:, :1] + (u[:, 1:] * f[:, 1:]).sum(axis=1, keepdims=True)
    return measure(("gauc",), Outcome("bpr", pair.test.label, score, group=pair.test.group))["gauc"]


# [SH].


def orthogonal(arrays: Arrays, pair: Pair) -> Row:
    """Return the share of the features with factors whose main effect is 0, against Proposition 3.1."""
    if "v0" not in arrays:
        return {}
    factors, context = arrays["V"][0], np.ravel(arrays["v0"])
    weights = np.ravel(arrays["beta"]) if "beta" in arrays else np.ones_like(context)
    some = factors[factors.any(axis=1)]
    return {"orthogonal": float(np.mean(some @ (context * weights) == 0)) if len(some) else 0.0}


def slope(arrays: Arrays, pair: Pair) -> Row:
    """Return how large main effects are, relative to the planted ones."""
    words, planted = pair.planted
    found = np.ravel(arrays["w"])[words] if "w" in arrays else arrays["V"][0][words] @ np.ravel(arrays["v0"])
    return {"slope": float(found.astype(np.float64) @ planted / (planted @ planted))}


def as_good(r: Results) -> str:
    """Return the row of shfm with the largest lambda_1 whose AUC is at most 0.001 below the smallest one's."""
    rows = [row for row in r.named("shfm") if "auc" in r[row]]
    return [row for row in rows if r(row, "auc") >= r(rows[0], "auc") - 0.001][-1]


def context_start(name: str) -> Any:
    """Return how a model starts from changed values: with larger context factors ("v_0 x 3"), or with main effects of 0
    that have the first factor for themselves, which has a "weight" beta in pairs; None: as usual."""
    longer, weight = (re.search(rf"{word} ([\d.]+)", name) for word in ("v_0 x", "weight"))
    if not longer and not weight:
        return None

    def start(options: Options, data: Dataset) -> WarmStart:
        with TemporaryDirectory() as folder:
            found = saved_start(options, data, f"{folder}/model")
        arrays = {name: array.copy() for name, array in found.model.parameters.items()}
        if longer:
            arrays["v0"] *= float(longer[1])
        else:  # the main effect of j is beta v_0 v_j = v_j
            arrays["V"][..., 0], arrays["v0"][...] = 0, 0
            arrays["v0"].flat[0], arrays["beta"].flat[0] = 1 / float(weight[1]), float(weight[1])
        found.model.attach(arrays)
        return found

    return start


# [SGL].


def sparser(found: list[Tried], earlier: Mapping[str, Tried], row: str) -> Tried | None:
    """Return the trial with the most zeros whose options reach an RMSE within 0.005 of fm's."""
    best: dict[str, Tried] = {}
    for one in sorted(found, key=lambda one: one.values["rmse"]):
        best.setdefault(str(one.options | {"epochs": 0}), one)
    most = earlier[row.replace("sparser sglfm", "fm")].values["rmse"] + 0.005
    near = [one for one in best.values() if one.values["rmse"] <= most]
    return max(near, key=lambda one: one.values["sparsity"], default=None)


def with_zeros(found: list[Tried], earlier: Mapping[str, Tried], row: str) -> Tried | None:
    """Return what has the lowest RMSE of the epochs with penalties and with 20 % zeros or more."""
    enough = [
        one for one in found if one.values["sparsity"] >= 0.2 and one.options["epochs"] >= one.options["l1_from_epoch"]
    ]
    return lowest(enough, earlier, row) if enough else None


def factors(arrays: Arrays, pair: Pair) -> Row:
    """Return how many factors the features that occur keep: the share of them that keeps 10 % to 90 %, shares of
    features by tens of factors, and means of the quarters of the features by their ratings."""
    ratings = np.bincount(pair.train.index, minlength=pair.train.features)
    kept, rank = np.count_nonzero(arrays["V"][0], axis=1)[ratings > 0], arrays["V"].shape[-1]
    order = np.argsort(ratings[ratings > 0], kind="stable")
    return {
        "some": float(np.mean((kept >= 0.1 * rank) & (kept <= 0.9 * rank))),
        "shares": (np.histogram(kept, np.arange(0, rank + 11, 10))[0] / len(kept)).tolist(),
        "quarters": [float(np.mean(kept[part])) for part in np.array_split(order, 4)],
    }


def epochs_until(r: Results, kind: str) -> int:
    """Return the first epoch within 0.005 of the lowest RMSE of the first split."""
    path = r[f"by epoch, {kind}"]["rmse"][0]
    return next(epoch for epoch, value in enumerate(path, 1) if value <= min(path) + 0.005)


def common_epochs(r: Results, kind: str) -> list[int]:
    """Return the first epoch, for each split, that reaches the highest of the models' lowest RMSE plus 0.005."""
    bounds = [max(map(min, of_split)) + 0.005 for of_split in zip(*r.lists("by epoch"), strict=True)]
    every = zip(r[f"by epoch, {kind}"]["rmse"], bounds, strict=True)
    return [next(epoch for epoch, value in enumerate(path, 1) if value <= bound) for path, bound in every]


# [LL].


def progressive(plan: job.Plan, pair: Pair) -> Row:
    """Return the mean log loss of training rows before their updates, also by epoch, and the metrics on test rows."""
    epochs = job.train(plan).epochs
    losses = np.array([one.loss for one in epochs])
    return {
        "train": float(losses.mean()),
        "test": epochs[-1].valid["logloss"],
        "accuracy": 100 * epochs[-1].valid["accuracy"],
        "curve": (np.cumsum(losses) / np.arange(1, len(losses) + 1)).tolist(),
    }


def errors(r: Results, group: str, kind: str) -> float:
    """Return the share of misclassified test rows, relative to fm's."""
    return (100 - r(f"{group}, {kind}", "accuracy")) / (100 - r(f"{group}, fm", "accuracy"))


# Other programs.


def reading(sets: Sets) -> dict[str, Row]:
    return {f"{name}, reading": {"seconds": [seconds]} for name, seconds in sets.seconds.items()}


def other(p: Mapping[str, Any], name: str, program: str, at: int = 0) -> float | None:
    """Return a figure of a program on a set, the lowest one of a range; None: it was not measured."""
    for line in p["others"].get(name, ()):
        if line.startswith(program):
            figure = line.partition(": ")[2].split(", ")[0].split(" / ")[at].partition(" ")[0]
            return None if figure == "-" else float(figure)
    return None


def fastest(p: Mapping[str, Any], name: str) -> float:
    return min(float(found[1]) for line in p["others"][name] if (found := re.search(r", ([\d.]+) s$", line)))


def metrics_of(r: Results, row: str) -> list[str]:
    return [name for name in r[row] if name in METRICS]


def better(metric: str, value: float, bound: float) -> bool:
    return value > bound if METRICS[metric].larger_is_better else value < bound


def last_tuned(r: Results, p: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each set, and its last row of a tuned model."""
    for name in p["others"]:
        if rows := [row for row in r.named() if row.startswith(f"{name}, ") and row.endswith(", tuned")]:
            yield name, rows[-1]


MEASURES = {
    "objective of beta": lambda: Measure((), objective_of_beta),
    "common start": lambda: Measure((), compared_starts),
    "progressive": lambda: Measure(("logloss", "accuracy"), progressive),
}
ARRAYS = {"orthogonal": orthogonal, "slope": slope, "factors": factors}  # of the trained arrays
PICKS = {"lowest": lowest, "sparser": sparser, "with zeros": with_zeros}
MORE = {"convex": convex, "levels": levels, "reading": reading}


def start_of(name: str) -> Any:
    return form_start if name == "common" else context_start(name)
