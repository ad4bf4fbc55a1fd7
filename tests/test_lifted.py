"""Polynomial networks and lifted models: identities between them, start values, and numerical accuracy."""

import numpy as np
import pytest
from problems import CLOSE, build, dataset, fill, gradient, random_rows, score_all

from fmcli.errors import UsageError
from fmcli.losses.loss import Squared
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_model
from fmcli.registry.models import MODELS
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic.sgd import SGD
from fmcli.training import job
from reference import slow_models

FEATURES, RANK = 8, 5
pytestmark = pytest.mark.exact


def make(name, **options):
    model = build(name, FEATURES, rank=RANK, **options)
    model.allocate(0)
    return model


def started(name, rng, **options):
    """A model with the start values of a run."""
    rows = random_rows(rng, 20, FEATURES)
    data = dataset(rows, FEATURES, rng.normal(3, 1, size=20))
    return job.train(job.plan(data, make_spec(name, options={"epochs": 0, "rank": RANK, **options}))).plan


@pytest.mark.parametrize("order", [2, 3, 5])
def test_lifted_pn_of_equal_vectors_is_pn(order, rng):
    pn, lifted = make("pn", order=order, beta_start="ones"), make("lifted-pn", order=order)
    fill(pn, rng, 0.2)
    pn.parameters["beta"][...] = 1
    for name in ("bias", "w"):
        lifted.parameters[name][...] = pn.parameters[name]
    for t in range(order):
        lifted.parameters[f"U{t + 1}"][...] = pn.parameters["P"]
        lifted.parameters["gamma"][:, t] = pn.parameters["gamma"]
    data = dataset(random_rows(rng, 20, FEATURES), FEATURES)
    np.testing.assert_allclose(score_all(lifted, data), score_all(pn, data), **CLOSE)


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("order", [2, 3, 4, 5, 6, 7, 8])
def test_lifted_anova_of_equal_vectors_is_anova(order, augment, rng):
    """For all orders up to the largest. anova computes the same kernel by another recursion."""
    anova, lifted = make("anova", order=order, augment=augment), make("lifted-anova", order=order, augment=augment)
    fill(anova, rng, 0.7)
    anova.parameters["beta"][...] = 1
    for name in ("bias", "w"):
        lifted.parameters[name][...] = anova.parameters[name]
    for t in range(order):
        lifted.parameters[f"U{t + 1}"][...] = anova.parameters["V"]
        if augment:
            lifted.parameters["gamma"][:, :, t] = anova.parameters["gamma"]
    data = dataset(random_rows(rng, 20, FEATURES), FEATURES)
    scores = score_all(anova, data)
    np.testing.assert_allclose(score_all(lifted, data), scores, rtol=CLOSE["rtol"], atol=CLOSE["atol"] * np.ptp(scores))


def test_pn_of_order_2_is_never_below_the_bias_unless_beta_is(rng):
    """The kernels are squares."""
    pn = make("pn", linear=False)
    fill(pn, rng)
    beta, bias = pn.parameters["beta"], pn.parameters["bias"][0]
    data = dataset(random_rows(rng, 50, FEATURES), FEATURES)
    beta[...] = 1
    assert score_all(pn, data).min() >= bias
    beta[:, 1::2] = -1
    assert score_all(pn, data).min() < bias


@pytest.mark.parametrize("order", [3, 5])
def test_odd_orders_take_beta_into_the_factors(order, rng):
    """[PN] Lemma 4."""
    pn, absorbed = make("pn", order=order), make("pn", order=order)
    fill(pn, rng, 0.3)
    data = dataset(random_rows(rng, 20, FEATURES), FEATURES)
    beta = pn.parameters["beta"]
    root = np.sign(beta) * np.abs(beta) ** (1 / order)
    for name, array in pn.parameters.items():
        absorbed.parameters[name][...] = array * (root if name in ("P", "gamma") else 1)
    absorbed.parameters["beta"][...] = 1
    np.testing.assert_allclose(score_all(absorbed, data), score_all(pn, data), **CLOSE)


@pytest.mark.parametrize("large", [0, 3])
@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ["lifted-anova", "lifted-pn", "pn"])
def test_one_entry_a_thousand_times_the_others_costs_no_digits(name, order, large, rng):
    """Errors are relative to the sum of the absolute values of the terms in the definition, for each number."""
    options = {"order": order}
    model = make(name, order=order, augment=False, bias=False, fit_beta=True)
    x = {j: float(np.float32(rng.choice([-1, 1]) * rng.uniform(0.5, 1))) for j in range(6)}
    x[large] *= 1000
    for _ in range(5):
        params = fill(model, rng)
        sizes = {key: np.abs(array) for key, array in params.items()}
        x_sizes = {j: abs(value) for j, value in x.items()}
        score = score_all(model, dataset([x], FEATURES))[0, 0]
        error = abs(score - slow_models.score(name, params, x, options)[0])
        assert error <= 1e-5 * slow_models.score(name, sizes, x_sizes, options)[0]
        solver = SGD(learning_rate=1)
        solver.bind(model, Penalty())
        ours = gradient(model, x, solver, Squared(), score - 1)
        slow = slow_models.gradient(name, params, x, 0, options)
        scale = slow_models.gradient(name, sizes, x_sizes, 0, options)
        for key in slow:
            # The step itself is rounded, too, relative to the parameter.
            assert (np.abs(ours[key] - slow[key]) <= 1e-5 * scale[key] + 1e-6 * sizes[key]).all(), key


def test_polynomial_networks_start_with_both_signs(rng):
    signs = [1, -1, 1, -1, 1]
    for order, gamma, beta in ((2, [1] * RANK, signs), (3, signs, [1] * RANK)):
        params = started("pn", rng, order=order).model.parameters
        assert params["gamma"].tolist() == [gamma]
        assert params["beta"].tolist() == [beta]
    params = started("lifted-pn", rng, order=3).model.parameters
    assert params["gamma"].tolist() == [[signs, [1] * RANK, [1] * RANK]]
    assert (started("lifted-pn", rng, order=4).model.parameters["gamma"] == 1).all()


def test_constants_of_lifted_anova_start_at_random_or_at_1(rng):
    gamma = started("lifted-anova", rng, augment=True, init_std=0.1).model.parameters["gamma"]
    assert gamma.shape == (1, 1, 2, RANK)
    assert len(np.unique(gamma)) == gamma.size
    assert np.abs(gamma).max() < 0.5
    gamma = started("lifted-anova", rng, augment=True, order=4).model.parameters["gamma"]
    assert gamma.shape == (1, 3, 4, RANK)
    assert (gamma == 1).all()


@pytest.mark.parametrize(("name", "order"), [("pn", 2), ("pn", 3), ("lifted-pn", 2), ("lifted-anova", 3)])
def test_an_empty_row_starts_at_the_mean(name, order, rng):
    plan = started(name, rng, order=order, augment=True)
    mean = plan.data.label.mean()
    assert job.empty_score(plan.model) == pytest.approx(mean, rel=1e-6)
    away = {"pn": 1, "lifted-pn": RANK}.get(name, 0)  # sum_s beta_s gamma_s^m
    assert plan.model.parameters["bias"][0] == pytest.approx(mean - away, rel=1e-6)


@pytest.mark.parametrize(("order", "fitted"), [(2, True), (3, False)])
def test_beta_is_fitted_where_the_order_is_even(order, fitted, rng):
    data = dataset(random_rows(rng, 50, FEATURES), FEATURES, rng.normal(size=50))
    for choice, moves in ((None, fitted), (True, True), (False, False)):
        options = {"epochs": 1, "rank": RANK, "order": order, "fit_beta": choice, "init_std": 0.1, "l2": 0.1}
        params = job.train(job.plan(data, make_spec("pn", "adagrad", options=options))).plan.model.parameters
        assert (np.abs(params["beta"]) != 1).any() == moves


def test_orders_that_would_take_too_long_are_refused():
    most = MODELS["lifted-anova"].limits["order"]
    make_spec("lifted-anova", options={"order": most})
    with pytest.raises(UsageError, match="order is 9; with lifted-anova it can be at most 8"):
        make_spec("lifted-anova", options={"order": most + 1})
    for name, order in (("lifted-anova", most + 1), ("lifted-anova", 1), ("pn", 1), ("lifted-pn", 0)):
        with pytest.raises(ValueError, match=f"order is {order}; it must be 2"):
            build_model(MODELS[name], FEATURES, 1, {"rank": 2, "order": order})


@pytest.mark.parametrize(("name", "order"), [("pn", 3), ("lifted-pn", 3), ("lifted-anova", 3)])
def test_without_constants_there_is_no_array(name, order):
    assert "gamma" in build(name, FEATURES, rank=2, order=order, augment=True).shapes()
    assert "gamma" not in build(name, FEATURES, rank=2, order=order, augment=False).shapes()
