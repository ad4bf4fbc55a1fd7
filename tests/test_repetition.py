"""A weight of n stands for n equal rows, and rows of weight 0 do not exist, by all defaults."""

from itertools import product

import numpy as np
import pytest

import fmcli
from fmcli.registry.models import MODELS
from fmcli.sklearn import FMRegressor

ROWS, FEATURES = 50, 6
FIELDS = np.arange(FEATURES) // 3
BY_SUMS = ("cd", "lbfgs")
KINDS = [
    (kind, solver)
    for kind, entry in MODELS.items()
    for solver in ([None] if entry.closed_form else BY_SUMS)
    if solver != "lbfgs" or kind not in ("sglfm", "glfm", "l1fm")  # their penalties are not smooth
]


def problem(seed=0):
    """Return rows with an interaction, their labels, weights from 0 to 4, and the numbers of the repeated rows."""
    rng = np.random.default_rng(seed)
    X = (rng.random((ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.7)).astype(np.float32)
    y = X[:, 0] - X[:, 1] + 3 * X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=ROWS)
    weight = rng.integers(0, 5, ROWS)
    return X, y, weight, np.repeat(np.arange(ROWS), weight)


def trained(X, y, weight=None, **options):
    return fmcli.train(fmcli.Data(X, y, weight=weight, fields=FIELDS), seed=1, **options)


def scores(model, X):
    return model.predict(fmcli.Data(X, fields=FIELDS))


@pytest.mark.parametrize(("kind", "solver"), KINDS)
def test_a_weight_is_so_many_equal_rows(kind, solver):
    X, y, weight, repeated = problem(1)
    options = {"model": kind, "holdout": 0, **({} if solver is None else {"solver": solver, "epochs": 15})}
    weighted, rows = trained(X, y, weight, **options), trained(X[repeated], y[repeated], **options)
    assert {**weighted.options} == {**rows.options}
    found, wanted = scores(weighted, X), scores(rows, X)
    assert np.abs(found - wanted).max() < 0.02 * y.std()  # rounding errors grow until a factor has left its start
    assert np.abs(found - wanted).mean() < 0.1 * np.abs(scores(trained(X, y, **options), X) - wanted).mean()


@pytest.mark.parametrize(("scale", "min_count"), [*product(["standard", "zscore"], [1, 80])])
def test_scales_and_rare_features_count_weights(scale, min_count):
    X, y, weight, repeated = problem()
    X[:30, 4] = 0  # in few rows
    options = {"model": "linear", "solver": "cd", "holdout": 0, "scale": scale, "min_count": min_count, "epochs": 200}
    weighted, rows = trained(X, y, weight, **options), trained(X[repeated], y[repeated], **options)
    np.testing.assert_allclose(weighted.predict(X), rows.predict(X), atol=1e-3 * y.std())


def test_the_noise_of_a_sampler_counts_weights():
    X, y, weight, repeated = problem()
    options = {"model": "linear", "solver": "mcmc", "epochs": 400}
    weighted, rows = trained(X, y, weight, **options), trained(X[repeated], y[repeated], **options)
    widths = [np.diff(np.column_stack(model.predict(X, interval=0.9)[1:])).mean() for model in (weighted, rows)]
    assert widths[0] == pytest.approx(widths[1], rel=0.03)


def test_an_estimator_without_rows_of_weight_0():
    X, y, weight, _ = problem()
    kept = weight > 0
    options = {"solver": "cd", "holdout": 0, "quick_search": False, "random_state": 0}
    some = FMRegressor(**options).fit(X, y, sample_weight=kept.astype(float))
    np.testing.assert_array_equal(some.predict(X), FMRegressor(**options).fit(X[kept], y[kept]).predict(X))
    with pytest.raises(ValueError, match=r"it must be positive"):
        fmcli.train((X, (y > 1) * 1), class_weight={1: 0})
