"""Start values: with the defaults, no model is stuck at its start values."""

from pathlib import Path

import numpy as np
import pytest
from problems import dataset

from fmcli.data.text.reader import read
from fmcli.errors import UsageError
from fmcli.registry.specs import make_spec, resolve
from fmcli.training import job


@pytest.fixture(scope="module")
def diabetes():
    """scikit-learn's diabetes data, with columns and labels of variance 1."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    rows = [dict(enumerate(map(float, row))) for row in x / x.std(axis=0)]
    return dataset(rows, x.shape[1], (y - y.mean()) / y.std())


@pytest.fixture(scope="module")
def adult():
    """Rows of the adult sample, whose labels are predicted better with interactions than by a linear model."""
    path = Path(__file__).parent.parent / "sample_data" / "adult.train.libsvm"
    return read((str(path),)).dataset


def train(data, model, solver=None, loss=None, **options):
    return job.train(job.plan(data, make_spec(model, solver, loss, options)))


# The loss of the best constant: half the mean square of labels with variance 1.
CONSTANT = 0.5


@pytest.mark.parametrize(
    ("model", "options"),
    [
        *[("anova", {}), ("sha2", {}), ("pn", {}), ("pn", {"nuclear": 0.01, "rank": 8})],
        ("anova", {"nuclear": 0.01, "augment": True, "linear": False}),
    ],
)
def test_the_start_of_the_weights_of_kernels_does_not_matter_to_coordinate_descent(diabetes, model, options):
    """[PN] 9.1: because kernel weights are updated before the factors."""
    one, other = (
        train(diabetes, model, "cd", beta_start=start, **{"rank": 4} | options).epochs[-1].objective
        for start in ("ones", "alternate")
    )
    assert one == pytest.approx(other, rel=0.01)
    assert one < 0.6 * CONSTANT


def test_kinds_with_fitted_weights_of_kernels_learn_interactions(diabetes):
    """They do better than a linear model: neither factors nor kernel weights shrink to 0 from their start values."""
    linear = train(diabetes, "linear", "cd").epochs[-1].loss
    found = train(diabetes, "anova", "cd")
    assert found.epochs[-1].loss < 0.95 * linear
    assert np.abs(found.plan.model.parameters["beta"]).max() > 0.1


@pytest.mark.parametrize(
    ("model", "order"),
    [
        *[("anova", 3), ("anova", 4), ("hofm-shared", 3)],
        *[("all-subsets", None), ("pn", 3), ("lifted-anova", 3), ("lifted-anova", 4), ("lifted-pn", 3)],
    ],
)
def test_kinds_of_higher_order_do_better_than_a_linear_model(adult, model, order):
    options = {} if order is None else {"order": order}
    if model == "lifted-pn":  # with so few rows, the default penalty is stronger
        options["l2_v"] = 0.01
    linear = train(adult, "linear").epochs[-1].loss
    assert train(adult, model, **options).epochs[-1].loss < 0.97 * linear


@pytest.mark.parametrize("order", [3, 4])
def test_factors_of_every_degree_are_learned(adult, order):
    start, end = (train(adult, "hofm", order=order, **epochs).plan.model for epochs in ({"epochs": 0}, {}))
    for degree in range(2, order + 1):
        before, after = (model.parameters[f"P{degree}"] for model in (start, end))
        assert np.linalg.norm(after - before) > 0.5 * np.linalg.norm(before)


def std(model, solver, **options):
    spec = make_spec(model, solver, None, options)
    return resolve(spec, rows=100, nonzeros=300, features=10, validated=False).values["init_std"]


def test_start_values_by_kind_order_and_solver():
    assert std("fm", "cd") == std("fm", "sgd") == std("sha2", "ftrl") == 0.01
    assert [std("anova", "sgd", order=order) for order in (2, 3, 4, 9)] == [0.01, 0.03, 0.1, 0.1]
    assert std("anova", "cd") == std("sha2", "cd") == std("pn", "cd", order=3) == 0.1
    assert std("hofm", "sgd", order=4) == [0.01, 0.1, 0.1]
    assert std("hofm", "sgd", order=2) == [0.01]
    assert std("hofm", "sgd", order=4, init_std=0.3) == 0.3


def test_start_values_by_degree(diabetes):
    start = train(diabetes, "hofm", "sgd", init_std=[0.02, 0.3], rank=50, epochs=0).plan.model.parameters
    assert [start[name].std() for name in ("P2", "P3")] == pytest.approx([0.02, 0.3], rel=0.1)
    with pytest.raises(UsageError, match=r"init_std is 0\.1/0\.2; fm takes one number"):
        make_spec("fm", options={"init_std": [0.1, 0.2]})
    with pytest.raises(UsageError, match=r"init_std is 0\.1/0\.2; with order 4 hofm takes 3"):
        make_spec("hofm", options={"init_std": [0.1, 0.2], "order": 4})


def test_factors_of_a_sampler_start_with_a_share_of_the_variance_of_labels():
    def start(kind="fm", solver="mcmc", options=None, **facts):
        known = {"rows": 9, "nonzeros": 18, "features": 9, "validated": False, **facts}
        return resolve(make_spec(kind, solver, None, options), **known).values["init_std"]

    for rank, products in ((8, 1.0), (4, 91.0), (32, 0.25)):
        found = start(options={"rank": rank}, products=products)
        assert rank * products * found**4 == pytest.approx(0.003)
        assert start("hofm", options={"rank": [rank, 2]}, products=products) >= max(found, 0.1)
        simplex = start("hofm-simplex", options={"rank": rank, "order": 2}, products=products)
        assert simplex == pytest.approx(10**0.25 * found)
        assert start("hofm-simplex", options={"order": 3}, products=products) >= 0.2
    assert start("hofm-simplex", "cd") == 0.1
    assert start(products=0.0) == 0.1
    assert start("ffm", options={"init_std": 0.5}) == 0.5
    assert start("ffm", "adagrad") == 0.03


@pytest.mark.parametrize("scale", [0.1, 30.0])
def test_few_sweeps_find_interactions_whatever_the_scale_of_the_labels(scale):
    rng, users, rank = np.random.default_rng(0), 60, 2
    pairs = rng.integers(users, size=(3000, 2))
    one, other = rng.normal(size=(2, users, rank))
    label = scale * (np.sum(one[pairs[:, 0]] * other[pairs[:, 1]], axis=1) + 0.1 * rng.normal(size=len(pairs)))
    data = dataset([{int(a): 1.0, users + int(b): 1.0} for a, b in pairs], 2 * users, label)
    error = train(data, "fm", "mcmc", epochs=12, burn_in=8, rank=4, scale_labels=True).epochs[-1].loss
    assert error < 0.1 * train(data, "linear", "cd", scale_labels=True).epochs[-1].loss


def test_a_sampler_does_not_take_shared_factors_for_linear_weights():
    """Where most of the variance is linear, and features are not frequent: with smaller factors, theta_2 falls to 0.3,
    and the loss to 0.46 only."""
    rng, users, noise = np.random.default_rng(0), 200, 0.9
    pairs = rng.integers(users, size=(10000, 2))
    linear, factors = 0.4 * rng.normal(size=(2, users)), 0.5 * rng.normal(size=(2, users, 2))
    label = 3.5 + linear[0][pairs[:, 0]] + linear[1][pairs[:, 1]]
    label += (factors[0][pairs[:, 0]] * factors[1][pairs[:, 1]]).sum(axis=1) + noise * rng.normal(size=len(pairs))
    data = dataset([{int(a): 1.0, users + int(b): 1.0} for a, b in pairs], 2 * users, label)
    default, small = (
        train(data, "hofm-simplex", "mcmc", epochs=60, rank=4, scale_labels=True, **options)
        for options in ({}, {"init_std": 0.1})
    )
    least = noise**2 / 2 / label.var()
    assert default.epochs[-1].loss < 1.05 * least < 1.1 * least < small.epochs[-1].loss
    assert default.plan.model.parameters["theta"][0, 1] > 0.4


def test_weights_that_start_at_0_are_not_held_there():
    data = dataset([{j: 1.0} for j in range(2000)], 2000, np.where(np.arange(2000) % 2, 1.0, -1.0))
    trained = train(data, "linear", "mcmc", loss="squared", epochs=8, noise_shape=1e5, noise_rate=1e4)
    weight = trained.plan.model.parameters["w"].astype(np.float64)
    assert np.mean(weight * data.label) > 0.5
