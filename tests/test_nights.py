"""Updates of a model by cd and lbfgs, night by night: what the file keeps of the loss of earlier rows stands for these
rows (solvers/coordinate/past.py)."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

import fmcli
from fmcli.model_file.container import load
from fmcli.model_file.state import PAIR_BASIS, PAIR_VALUES
from fmcli.solvers.coordinate.interactions import Interactions

NIGHTS = 5
# The first night chooses the unit of labels, so it is not the unit of all rows.
CONVERGED = {"scale_labels": False, "epochs": 100, "tol": 0.0, "holdout": 0, "quick_search": False, "threads": 1}
# Given and default strengths, of parts, and such that make weights 0.
STRENGTHS = [
    {},
    {"l2": 0.1},
    {"l2_w": 0.02},
    {"l2_v": 3.0},
    {"l1": 0.05},
    {"l1_w": 0.02, "l2_w": 0.1},
    {"group_l1": 0.04},
]
PAIRS = [*(("cd", options) for options in STRENGTHS), ("lbfgs", {}), ("lbfgs", {"l2_w": 0.02})]


def in_nights(X, y, weight=None, update=None, nights=NIGHTS, **first):
    """Return the model of the first of equal parts of rows, updated by each other one."""
    model = None
    for part in np.array_split(np.arange(len(y)), nights):
        rows = fmcli.Data(X[part], y[part], weight=None if weight is None else weight[part])
        again = {"threads": 1, **(first if update is None else update)}
        model = fmcli.train(rows, **first) if model is None else fmcli.train(rows, init_model=model, **again)
    return model


def one_feature_rows(rng, rows=400, features=6):
    """Rows that have one feature each; some features first come in later nights; labels, and weights."""
    X = np.zeros((rows, features), dtype=np.float32)
    last = np.linspace(2, features, rows).astype(int)
    X[np.arange(rows), rng.integers(0, last)] = rng.choice([0.5, 1, 2], rows)
    return (
        X,
        X @ np.array([1.5, -0.3, 0.05, 0.8, -1, 0.02])[:features] + rng.normal(size=rows),
        rng.integers(1, 4, rows),
    )


@pytest.mark.parametrize(("solver", "options"), PAIRS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_nights_are_training_on_all_rows_if_parameters_never_meet(rng, solver, options, weighted):
    X, y, weight = one_feature_rows(rng)
    weight = weight * 1.0 if weighted else None
    kind = {"model": "fm", "rank": 2} if "group_l1" in options or "l2_v" in options else {"model": "linear"}
    first = {"solver": solver, "loss": "squared", "bias": False, "clip": False, **kind, **options, **CONVERGED}
    found = in_nights(X, y, weight, **first)
    whole = fmcli.train(fmcli.Data(X, y, weight=weight), **first)
    np.testing.assert_allclose(
        found.predict(np.eye(6)), whole.predict(np.eye(6)), atol=1e-6 if solver == "cd" else 1e-5
    )
    assert np.abs(whole.predict(np.eye(6))).max() > 0.3


def naive_nights(X, y, l1, l2):
    """The weights of a linear model after NIGHTS; a night minimizes the squared loss of its rows, plus the sum of
    held / 2 w^2 - pulled w, plus the penalty relative to all rows so far; in double precision."""
    held, pulled, w, rows = np.zeros(X.shape[1]), np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0
    for part in np.array_split(np.arange(len(y)), NIGHTS):
        x, label = X[part].astype(float), y[part]
        rows += len(part)
        squares = (x**2).sum(axis=0) + held
        for _ in range(100):
            for j in range(len(w)):
                target = x[:, j] @ (label - x @ w + x[:, j] * w[j]) + pulled[j]
                w[j] = np.sign(target) * max(abs(target) - rows * l1, 0) / (squares[j] + rows * l2)
        slope = x.T @ (x @ w - label) + held * w - pulled
        held = squares
        pulled = held * w - slope
    return w


@pytest.mark.parametrize(("l1", "l2"), [(0, 0.05), (0.03, 0.05), (0.08, 0)])
def test_nights_of_features_that_meet_are_the_naive_ones(rng, l1, l2):
    X = rng.normal(size=(200, 5)).astype(np.float32)
    y = X @ np.array([1, -0.5, 0.2, 0.02, 0]) + rng.normal(size=200)
    fixed = {"model": "linear", "solver": "cd", "loss": "squared", "bias": False, "clip": False, "l1": l1, "l2": l2}
    found = in_nights(X, y, **fixed, **CONVERGED).predict(np.eye(5))
    np.testing.assert_allclose(found, naive_nights(X, y, l1, l2), atol=2e-6)


def test_a_constant_feature_by_defaults(rng):
    """By the one epoch that an update has, and with every weight: rows of weight 100 count as 100 earlier rows do."""
    y, weight = rng.normal(2, 1, 300), np.repeat([1.0, 100.0], 150)
    X = np.ones((300, 1), dtype=np.float32)
    first = {
        "model": "linear",
        "solver": "cd",
        "loss": "squared",
        "bias": False,
        "holdout": 0,
        "quick_search": False,
        "scale_labels": False,
    }
    found = in_nights(X, y, weight, update={}, **first).predict(X[:1])
    assert found == pytest.approx(weight @ y / (weight.sum() + 1), rel=1e-6)


def test_rare_clicks_forget_less_than_without_what_the_file_keeps(rng):
    """The earlier rows have the curvature at their scores, which is a small share of the largest one."""
    rows, fields, each = 16_000, 3, 30
    ids = rng.integers(0, each, (rows, fields)) + each * np.arange(fields)
    likely = 1 / (1 + np.exp(4.3 - rng.normal(0, 0.5, fields * each)[ids].sum(axis=1)))
    X = csr_matrix((np.ones(rows * fields, np.float32), ids.ravel(), fields * np.arange(rows + 1)))
    y = (rng.random(rows) < likely) * 1.0
    first = {"model": "linear", "solver": "cd", "quick_search": False, "holdout": 0}

    def excess(model):
        p = model.predict(X)
        return np.mean(likely * np.log(likely / p) + (1 - likely) * np.log((1 - likely) / (1 - p)))

    kept, forgotten = (excess(in_nights(X, y, update=update, **first)) for update in ({}, {"init_strength": 0}))
    assert excess(fmcli.train((X, y), **first)) < kept < 0.85 * forgotten


def planted(rng, users, items, noise, rows=14_000):
    """Ratings of an FM with interactions: rows and labels."""
    first, second = rng.integers(0, users, rows), rng.integers(0, items, rows)
    u, v = rng.normal(size=(users, 3)), 0.23 * rng.normal(size=(items, 3))
    own = rng.normal(0, 0.4, users), rng.normal(0, 0.4, items)
    y = 3.5 + own[0][first] + own[1][second] + (u[first] * v[second]).sum(axis=1) + noise * rng.normal(size=rows)
    index = np.stack([first, users + second], axis=1).ravel()
    return csr_matrix((np.ones(2 * rows, np.float32), index, 2 * np.arange(rows + 1))), y


@pytest.mark.parametrize(
    ("kind", "users", "items", "noise"),
    [("fm", 60, 60, 0.7), ("fm", 100, 60, 0.9), ("hofm", 60, 60, 0.9)],
)
def test_interactions_that_no_night_shows_alone_are_learned(kind, users, items, noise):
    """Twenty nights of 600 ratings each end within .01 of all rows at once, in the mean of two draws."""
    known, held = np.arange(12_000), np.arange(12_000, 14_000)
    first = {"model": kind, "solver": "cd", "look": False}
    found = []
    for seed in range(2):
        X, y = planted(np.random.default_rng(seed), users, items, noise)
        nights = in_nights(X[known], y[known], update={}, nights=20, **first)
        whole, linear = (fmcli.train((X[known], y[known]), **{**first, "model": one}) for one in (kind, "linear"))
        found.append([np.sqrt(np.mean((m.predict(X[held]) - y[held]) ** 2)) for m in (nights, whole, linear)])
    nights, whole, linear = np.mean(found, axis=0)
    assert nights < whole + 0.01 < linear - 0.04


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_file_has_the_sums_over_pairs_of_all_rows(rng, loss, tmp_path):
    """Exactly, if there are no more features than eigenvectors: of the slopes at the scores without interactions, by
    the linear weights of each night. The last feature is new in the second night."""
    X = (rng.random((200, 9)) < 0.4) * rng.choice([0.5, 1, 2], (200, 9))
    X[:120, 8] = 0
    y, weight = (rng.random(200) < 0.4) * 1.0, rng.integers(1, 4, 200) * 1.0
    model, wanted, in_file = None, np.zeros((9, 9)), str(tmp_path / "m.fm")
    for night in np.arange(120), np.arange(120, 200):
        rows = fmcli.Data(csr_matrix(X[night].astype(np.float32)), y[night], weight=weight[night])
        first = {"model": "fm", "solver": "cd", "loss": loss, "look": False, "scale_labels": False, "holdout": 0}
        model = fmcli.train(rows, **first) if model is None else fmcli.train(rows, init_model=model)
        p, x = model.parameters, X[night]
        score = x @ p["w"][0] + p["bias"].item()
        slope = score - y[night] if loss == "squared" else 1 / (1 + np.exp(-score)) - y[night]
        wanted -= (x * (weight[night] * slope)[:, None]).T @ x
    np.fill_diagonal(wanted, 0)
    model.save(in_file)
    kept = load(in_file).tensors
    found = (kept[PAIR_BASIS] * kept[PAIR_VALUES][:, None]) @ kept[PAIR_BASIS].mT
    np.testing.assert_allclose(found[0], wanted, atol=1e-4 * np.abs(wanted).max())


def test_factors_minimize_what_interactions_say(rng):
    """The quadratic function of the interactions and the penalty, of as many columns as it has."""
    features, l2, together = 6, 0.7, 0.02
    curvatures = rng.uniform(5, 20, features)
    T = rng.normal(size=(features, features)) * 10
    T += T.T
    values, vectors = np.linalg.eigh(T)
    found = Interactions(vectors[np.newaxis], values[np.newaxis])
    V = found.factors(features, curvatures[np.newaxis], np.array([together]), l2)[0].ravel()

    def loss(V):
        M = V.reshape(features, -1) @ V.reshape(features, -1).T
        return (together / 4 * np.outer(curvatures, curvatures) * M**2 - T * M / 2).sum() + l2 / 2 * (V**2).sum()

    best = minimize(loss, V + 0.05 * rng.normal(size=V.shape))
    assert loss(V) == pytest.approx(best.fun, rel=1e-6)
    assert loss(V) < -1
