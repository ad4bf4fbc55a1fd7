"""Updates of a model by cd and lbfgs, night by night: what the file keeps of the loss of earlier rows stands for these
rows (solvers/coordinate/past.py)."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import fmcli
from fmcli.model_file.container import load
from fmcli.model_file.state import SLOPE, past_name
from fmcli.solvers.coordinate.past import turned_slopes

NIGHTS = 10
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


def in_nights(X, y, weight=None, update=None, **first):
    """Return the model of the first of NIGHTS equal parts of rows, updated by each other one."""
    model = None
    for part in np.array_split(np.arange(len(y)), NIGHTS):
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
    """The weights of a linear model after NIGHTS; a night minimises the squared loss of its rows, plus the sum of
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


def planted(rng, users=30, rows=14_000, noise=0.9):
    """Ratings of an FM with interactions: rows and labels."""
    first, second = rng.integers(0, users, (2, rows))
    u, v = rng.normal(size=(2, users, 3)) * np.array([1, 0.23])[:, None, None]
    own = rng.normal(0, 0.4, (2, users))
    y = 3.5 + own[0][first] + own[1][second] + (u[first] * v[second]).sum(axis=1) + noise * rng.normal(size=rows)
    index = np.stack([first, users + second], axis=1).ravel()
    return csr_matrix((np.ones(2 * rows, np.float32), index, 2 * np.arange(rows + 1))), y


def test_interactions_that_no_night_shows_alone_are_learned(rng):
    """The factors of a small first night are 0; they begin anew until the rows are enough."""
    X, y = planted(rng)
    known, held = np.arange(12_000), np.arange(12_000, 14_000)

    def rmse(model):
        return np.sqrt(np.mean((model.predict(X[held]) - y[held]) ** 2))

    first = {"model": "fm", "solver": "cd", "quick_search": False}
    whole, linear = (rmse(fmcli.train((X[known], y[known]), **{**first, "model": kind})) for kind in ("fm", "linear"))
    nights = rmse(in_nights(X[known], y[known], update={}, **first))
    assert nights < whole + 0.01 < linear - 0.03


def test_factors_that_turn_have_the_slopes_of_their_new_direction(rng):
    """Exactly, if few directions tell all about the rows; factors that have grown keep their slopes."""
    features, ranks = 20, 4
    basis = rng.normal(size=(features, ranks))
    residuals = basis @ np.diag([3.0, -2, 2, -1]) @ basis.T
    before = 0.01 * (basis + 0.3 * rng.normal(size=(1, features, ranks)))
    now = 0.01 * rng.normal(size=(1, features, ranks))
    now[..., 3] *= 10
    found = turned_slopes(before, residuals @ before, now, 0.05)
    np.testing.assert_allclose(found[..., :3], (residuals @ now)[..., :3], rtol=1e-6)
    np.testing.assert_array_equal(found[..., 3], (residuals @ before)[..., 3])


def test_the_slopes_of_small_factors_are_about_those_over_all_earlier_rows(rng, tmp_path):
    X, y = planted(rng, users=60, rows=2400)
    in_file = str(tmp_path / "m.fm")
    model = in_nights(X, y, update={}, model="fm", solver="cd", quick_search=False)
    model.save(in_file)
    V, residual = model.parameters["V"][0].astype(float), y - model.predict(X)
    slopes = load(in_file).tensors[past_name(SLOPE, "V")].reshape(V.shape)
    wanted = (X.T @ residual)[:, None] * V - X.T @ (residual[:, None] * (X @ V))
    assert np.sum(slopes * wanted) > 0.84 * np.linalg.norm(slopes) * np.linalg.norm(wanted)
