"""Higher-order models: accuracy of the kernels, identities between kinds, weights of degrees and of kernels."""

from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest
from problems import CLOSE, DOUBLE, ROW_SOLVERS, build, dataset, fill, parameters, random_rows, score_all

from fmcli.errors import DivergedError
from fmcli.losses.loss import Softmax, Squared
from fmcli.models.layout import REAL_TYPE
from fmcli.models.polynomial.anova import LARGEST_ORDER, AllSubsets, HigherOrder
from fmcli.models.weighted import Beta
from fmcli.penalties.penalty import Penalty
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.training.job import empty_score, plan, train
from fmcli.training.setup.warm_start import WarmStart
from reference.kinds import elementary
from reference.slow_solvers import nearest_in_simplex

FEATURES = 9
pytestmark = pytest.mark.exact


# ---- Against exact arithmetic. ----


def degrees(terms, order):
    """Return the elementary symmetric polynomials e_0 .. e_m of the terms, as exact fractions."""
    e = [Fraction(1)] + [Fraction(0)] * order
    for a in terms:
        e = [e[0], *(e[t] + a * e[t - 1] for t in range(1, order + 1))]
    return e


def without(e, a):
    """Return e_0 .. e_{m-1} of all terms except ``a``. In exact arithmetic, a term can be removed from the sums."""
    left = [Fraction(1)]
    for t in range(1, len(e) - 1):
        left.append(e[t] - a * left[t - 1])
    return left


def product(terms):
    value = Fraction(1)
    for a in terms:
        value *= a
    return value


def slopes(model, x):
    """Return |d score / d p_j| for factor 0 from AdaGrad's sums of squares, since changes of parameters are rounded."""
    solver = ROW_SOLVERS["adagrad"].load()(learning_rate=1e-3)
    data = dataset([x], model.features, score_all(model, dataset([x], model.features))[0] - 1)
    solver.bind(model, Penalty())
    RowLoop(model, solver, Squared(), data).train_on(np.zeros(1, dtype=np.int32), 0, 1)
    (name,) = model.parameters
    return np.sqrt(model.states[name][0][0, :, 0].astype(float))


def sample(entries, large, rng):
    """Return factors (entries, 5) and a sample. With `large`, one product is a thousand times the others."""
    p = rng.uniform(0.2, 2, size=(entries, 5)) * rng.choice([-1, 1], size=(entries, 5)) / entries**0.5
    p[entries // 3] *= 1000 if large else 1
    value = np.float32(rng.uniform(0.5, 1.5, size=entries)).tolist()
    return p.astype(REAL_TYPE), dict(enumerate(value))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("entries", [7, 30, 200])
@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
def test_kernels_and_gradients_against_exact_arithmetic(order, entries, large):
    """Errors are relative to the sums of the absolute values of the terms."""
    p, x = sample(entries, large, np.random.default_rng([order, entries]))
    model = HigherOrder(entries, 1, [("V", order, 5)], bias=False)
    model.allocate(1)
    model.parameters["V"][0] = p
    scores, scale = Fraction(0), Fraction(0)
    for f in range(5):
        terms = [Fraction(float(p[j, f])) * Fraction(x[j]) for j in x]
        scores += degrees(terms, order)[order]
        scale += degrees(map(abs, terms), order)[order]
    tolerance = 1e-13 if DOUBLE else 1e-5
    assert abs(score_all(model, dataset([x], entries))[0, 0] - float(scores)) < tolerance * float(scale)

    terms = [Fraction(float(p[j, 0])) * Fraction(x[j]) for j in x]
    e, size = degrees(terms, order), degrees(map(abs, terms), order)
    found = slopes(model, x)
    for j, a in enumerate(terms):
        exact = abs(without(e, a)[order - 1]) * Fraction(x[j])
        natural = without(size, abs(a))[order - 1] * Fraction(x[j])
        assert abs(found[j] - float(exact)) < tolerance * float(natural)


@pytest.mark.parametrize("annul", [False, True])
def test_all_subsets_against_exact_arithmetic(annul):
    """Also if 1 + a_j is 0 or nearly 0, so all derivatives except the j-th vanish."""
    rng = np.random.default_rng(0)
    p = (rng.uniform(0.1, 0.5, size=(40, 5)) * rng.choice([-1, 1], size=(40, 5))).astype(REAL_TYPE)
    p[3] = -1 if annul else -1 + 1e-6
    x = dict.fromkeys(range(40), 1.0)
    model = AllSubsets(40, 1, rank=5, bias=False)
    model.allocate(1)
    model.parameters["P"][0] = p
    factors = [[1 + Fraction(float(a)) for a in column] for column in p.T]
    tolerance = 1e-13 if DOUBLE else 1e-5
    scale = sum(abs(float(product(column))) for column in factors)
    score = score_all(model, dataset([x], 40))[0, 0]
    # 1 + a is rounded to the real type, which matters for a result as small as here.
    rounding = 40 * np.finfo(REAL_TYPE).eps
    assert abs(score - float(sum(map(product, factors)))) <= tolerance * scale + rounding
    found = slopes(model, x)
    for j in x:
        exact = abs(float(product(factors[0][:j] + factors[0][j + 1 :])))
        assert abs(found[j] - exact) <= tolerance * exact + rounding
    assert found[3] > 0


# ---- Identities between kinds. ----


def made(name, **options):
    model = build(name, FEATURES, **options)
    model.allocate(0)
    return model


def give(model, params):
    """Set all parameters of a model."""
    assert model.parameters.keys() == params.keys()
    for name, array in model.parameters.items():
        array[...] = params[name]


ROWS = random_rows(np.random.default_rng(8), 12, FEATURES)
DATA = dataset(ROWS, FEATURES)


@pytest.mark.parametrize("augment", [False, True])
def test_of_order_2_the_general_kernel_is_the_fast_one(augment):
    fast = made("anova", rank=6, order=2, augment=augment, linear=False)
    params = fill(fast, np.random.default_rng(0))
    assert params.keys() == {"bias", "V", "beta"} | ({"gamma"} if augment else set())
    general = HigherOrder(FEATURES, 1, [("V", 2, 6)], bias=True, constants=augment, beta=Beta(6, 2))
    assert type(general) is not type(fast)
    general.allocate(0)
    give(general, params)
    np.testing.assert_allclose(score_all(general, DATA), score_all(fast, DATA), **CLOSE)


def test_fm_is_anova_with_beta_1_and_hofm_of_order_2():
    fm = made("fm", rank=6)
    params = fill(fm, np.random.default_rng(0))
    anova, hofm = made("anova", rank=6), made("hofm", rank=6, order=2)
    give(anova, {**params, "beta": 1})
    give(hofm, {"bias": params["bias"], "w": params["w"], "P2": params["V"]})
    np.testing.assert_allclose(score_all(anova, DATA), score_all(fm, DATA), **CLOSE)
    np.testing.assert_allclose(score_all(hofm, DATA), score_all(fm, DATA), **CLOSE)


def test_shfm_is_hofm_shared_of_order_2():
    shfm, shared = made("shfm", rank=6), made("hofm-shared", rank=6, order=2)
    params = fill(shfm, np.random.default_rng(0))
    give(shared, {"bias": params["bias"], "P": params["V"], "gamma": params["v0"][:, None]})
    np.testing.assert_allclose(score_all(shared, DATA), score_all(shfm, DATA), **CLOSE)


def test_sha2_is_augmented_anova_without_linear_weights():
    sha2, anova = made("sha2", rank=6), made("anova", rank=6, augment=True, linear=False)
    params = fill(sha2, np.random.default_rng(0))
    gamma = params.pop("v0")[:, None]
    give(anova, {**params, "gamma": gamma})
    assert score_all(anova, DATA).tobytes() == score_all(sha2, DATA).tobytes()


def test_all_subsets_is_one_and_every_degree():
    subsets, hofm = made("all-subsets", rank=6), made("hofm", rank=6, order=FEATURES)
    params = fill(subsets, np.random.default_rng(0))
    p = params["P"]
    give(hofm, {"bias": params["bias"] + 6, "w": p.sum(axis=2), **{f"P{t}": p for t in range(2, FEATURES + 1)}})
    np.testing.assert_allclose(score_all(subsets, DATA), score_all(hofm, DATA), **CLOSE)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_constant_features_give_lower_degrees_weights(order):
    """With constants gamma, the weight of A^{m-t} is e_t(gamma)."""
    shared = made("hofm-shared", rank=1, order=order)
    params = fill(shared, np.random.default_rng(order))
    want = np.full(len(ROWS), params["bias"][0])
    for i, x in enumerate(ROWS):
        terms = np.array([params["P"][0, j] * x[j] for j in x]).reshape(-1, 1)
        for t in range(order):
            want[i] += (elementary(t, params["gamma"][0]) * elementary(order - t, terms))[0]
    np.testing.assert_allclose(score_all(shared, DATA)[:, 0], want, **CLOSE)


def test_hofm_simplex_with_all_weight_on_one_degree_is_its_kernel():
    simplex, anova = made("hofm-simplex", rank=6, order=3), made("anova", rank=6, order=3, linear=False)
    params = fill(simplex, np.random.default_rng(0))
    give(simplex, {**params, "theta": [0, 0, 1]})
    give(anova, {"bias": params["bias"], "V": params["P"], "beta": 1})
    np.testing.assert_allclose(score_all(simplex, DATA), score_all(anova, DATA), **CLOSE)


# ---- Start values and weights. ----


def started(name, **options):
    model = made(name, **options)
    model.start(np.ones(FEATURES, dtype=np.bool_), 0.1, np.random.default_rng(0))
    return model.parameters


@pytest.mark.parametrize(("name", "options"), [("hofm-shared", {}), ("anova", {"augment": True})])
def test_one_constant_starts_at_random_and_several_from_1(name, options):
    assert 0 < np.abs(started(name, rank=500, order=2, **options)["gamma"]).mean() < 0.2
    assert (started(name, rank=500, order=4, **options)["gamma"] == 1).all()


def test_weights_of_factors_are_fitted_where_the_order_is_even():
    for order, fit, fitted, start in [
        (2, None, True, [1, -1, 1]),
        (3, None, False, [1, 1, 1]),
        (4, None, True, [1, -1, 1]),
        (4, False, False, [1, -1, 1]),
        (3, True, True, [1, 1, 1]),
    ]:
        model = made("anova", rank=3, order=order, fit_beta=fit)
        assert started("anova", rank=3, order=order, fit_beta=fit)["beta"].tolist() == [start]
        assert model.layout[model.n_blocks - 1].penalty == ("l2" if fitted else "none")


@pytest.mark.parametrize("spread", [0.1, 1, 10])
def test_theta_is_projected_to_the_nearest_point_of_the_simplex(spread, rng):
    """The farther theta is, the more of its entries become 0, one after the other."""
    model = made("hofm-simplex", outputs=20, rank=2, order=9)
    theta = rng.normal(scale=spread, size=(20, 9)).astype(REAL_TYPE)
    model.parameters["theta"][...] = theta
    model.project()
    np.testing.assert_allclose(model.parameters["theta"], [*map(nearest_in_simplex, theta)], atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 3, 50])
@pytest.mark.parametrize("solver", ROW_SOLVERS)
def test_theta_stays_on_the_simplex(solver, batch_size):
    rng = np.random.default_rng(1)
    rows = random_rows(rng, 40, FEATURES)
    data = dataset(rows, FEATURES, rng.integers(2, size=40).astype(float))
    steps = {"learning_rate": 0.1 if solver == "adagrad" else 0.02, "alpha": 0.1}
    piece = ROW_SOLVERS[solver]
    trained = piece.load()(**{key: steps.get(key, OPTIONS[key].default) for key in piece.options})
    model = build("hofm-simplex", FEATURES, 2, rank=5, order=4)
    model.allocate(trained.slots)
    model.start(np.ones(FEATURES, dtype=np.bool_), 0.3, rng)
    trained.bind(model, Penalty(l1_v=0.01, l2_v=0.01))
    trained.start()
    trainer = RowLoop(model, trained, Softmax(outputs=2), data, batch_size)
    for _ in range(5):
        for first in range(0, 40, batch_size):
            trainer.train_on(np.arange(40, dtype=np.int32), first, min(first + batch_size, 40))
            theta = parameters(model)["theta"]
            assert (theta >= 0).all()
            np.testing.assert_allclose(theta.sum(axis=1), 1, rtol=4 * np.finfo(REAL_TYPE).eps)
        trained.end_epoch()
    assert np.abs(theta - 0.25).max() > 0.01


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_epoch_ends_on_the_simplex(solver):
    """Also the first epoch of ftrl, after which it updates all rows again."""
    rng = np.random.default_rng(1)
    rows = random_rows(rng, 60, FEATURES)
    data = dataset(rows, FEATURES, [sum(x.values()) ** 2 / 4 for x in rows])
    steps = {"learning_rate": 0.05 if solver == "adagrad" else 0.002, "alpha": 0.5, "epochs": 3}
    options = {name: value for name, value in steps.items() if name in (*SOLVERS[solver].options, "epochs")}
    job = plan(data, make_spec("hofm-simplex", solver, "squared", {"order": 3, "init_std": 0.3, **options}))
    thetas = []
    train(job, on_epoch=lambda _: thetas.append(parameters(job.model)["theta"]))
    assert len(thetas) == 3
    for theta in thetas:
        assert (theta >= 0).all()
        np.testing.assert_allclose(theta.sum(axis=1), 1, rtol=4 * np.finfo(REAL_TYPE).eps)
    assert np.abs(thetas[-1] - 1 / 3).max() > 0.005


def test_inherited_theta_is_projected():
    older, newer = made("hofm-simplex", rank=2, order=3), made("hofm-simplex", rank=2, order=3)
    older.parameters["theta"][...] = [1.25, -0.5, 0.25]
    warm_start = Mock(model=older, copy_known=lambda name, old, new: np.copyto(new, old), spec=WarmStart)
    WarmStart.copy_parameters(warm_start, newer)
    np.testing.assert_allclose(newer.parameters["theta"], [[1, 0, 0]])


def test_theta_that_is_no_longer_finite_ends_training():
    """The projection onto the simplex ends even if theta is infinite, and training reports divergence."""
    rng = np.random.default_rng(1)
    data = dataset(random_rows(rng, 40, FEATURES), FEATURES, rng.normal(size=40))
    spec = make_spec("hofm-simplex", "sgd", "squared", {"order": 4, "learning_rate": 1e3})
    with pytest.raises(DivergedError):
        train(plan(data, spec))


def test_the_option_permits_every_order_that_kernels_can():
    assert OPTIONS["order"].high == LARGEST_ORDER
    model = made("hofm-shared", rank=3, order=LARGEST_ORDER)
    fill(model, np.random.default_rng(0))
    assert np.isfinite(score_all(model, DATA)).all()


def test_an_empty_row_scores_the_rank_of_all_subsets():
    model = made("all-subsets", rank=6)
    model.parameters["bias"][...] = 0.5
    assert empty_score(model) == 6.5
