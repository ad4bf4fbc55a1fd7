"""The slow definitions against the identities they must obey: what all other tests lean on has to stand by itself."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from reference.slow_losses import LOSSES, SMOOTHNESS, best_constants, slopes
from reference.slow_models import (
    KINDS,
    Params,
    Penalty,
    Sample,
    gather,
    gradient,
    penalty_value,
    rows,
    score,
    strengths,
    touched,
)
from reference.slow_solvers import UPDATES, Options, prox, run

FEATURES, RANK = 7, 3
EXACT = {"rtol": 1e-12, "atol": 1e-13}


def random_params(kind: str, rng: np.random.Generator, outputs: int = 1) -> Params:
    """Arrays of the shapes that the kind has, nowhere 0."""
    shapes: dict[str, tuple[int, ...]] = {"bias": (outputs,)}
    if kind not in ("shfm", "sha2"):
        shapes["w"] = (outputs, FEATURES)
    if kind != "linear":
        shapes["V"] = (outputs, FEATURES, RANK)
    if kind in ("shfm", "sha2"):
        shapes["v0"] = (outputs, RANK)
    if kind in ("anova", "sha2"):
        shapes["beta"] = (outputs, RANK)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def random_samples(rng: np.random.Generator, count: int, longest: int = 5) -> list[Sample]:
    return [
        {int(j): float(rng.normal()) for j in rng.choice(FEATURES, rng.integers(0, longest + 1), replace=False)}
        for _ in range(count)
    ]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# ---- Models ----


def test_scores_by_hand():
    x = {0: 2.0, 2: 3.0}
    p = {
        "bias": np.array([0.5]),
        "w": np.array([[1.0, 9.0, 10.0]]),
        "V": np.array([[[1.0, 2.0], [9.0, 9.0], [4.0, -1.0]]]),
    }
    assert score("linear", p, x) == [0.5 + 2 + 30]
    assert score("fm", p, x) == [32.5 + (4 - 2) * 6]
    assert score("anova", {**p, "beta": np.array([[10.0, 1.0]])}, x) == [32.5 + 10 * 4 * 6 - 2 * 6]
    main = (1 * 1 + 2 * 2) * 2 + (1 * 4 + 2 * -1) * 3  # <v0, v_0> x_0 + <v0, v_2> x_2
    assert score("shfm", {"V": p["V"], "v0": np.array([[1.0, 2.0]])}, x) == [main + 12]
    assert score("fm", p, {**x, 1: 0.0, 3: 8.0}) == score("fm", p, x)  # a 0 and an unknown feature add nothing
    assert score("fm", {"V": p["V"]}, x) == [12]


def test_third_order_by_hand():
    p = {"V": np.array([[[1.0], [2.0], [3.0], [5.0]]])}
    x = {0: 1.0, 1: 1.0, 2: 1.0, 3: 2.0}
    assert score("anova", p, x, order=3) == [1 * 2 * 3 + 1 * 2 * 10 + 1 * 3 * 10 + 2 * 3 * 10]


def test_fm_is_anova_of_order_2_with_beta_1(rng):
    p = random_params("fm", rng)
    for x in random_samples(rng, 10):
        want = score("fm", p, x)
        np.testing.assert_allclose(score("anova", {**p, "beta": np.ones((1, RANK))}, x), want, **EXACT)
        np.testing.assert_allclose(score("anova", p, x), want, **EXACT)


def test_the_sgl_family_scores_as_fm(rng):
    p = random_params("fm", rng)
    for x in random_samples(rng, 5):
        assert score("sglfm", p, x) == score("glfm", p, x) == score("l1fm", p, x) == score("fm", p, x)


def test_second_order_kernel_in_closed_form(rng):
    p = random_params("fm", rng)
    for x in random_samples(rng, 10):
        a = np.array([p["V"][0, j] * v for j, v in x.items()]).reshape(-1, RANK)
        want = np.sum(a.sum(axis=0) ** 2 - (a**2).sum(axis=0)) / 2
        np.testing.assert_allclose(score("fm", {"V": p["V"]}, x), want, **EXACT)


def test_shfm_is_fm_without_linear_part_on_data_with_a_constant_column(rng):
    p = random_params("shfm", rng)
    with_constant = {"bias": p["bias"], "V": np.concatenate([p["V"], p["v0"][:, None]], axis=1)}
    for x in random_samples(rng, 10):
        np.testing.assert_allclose(score("fm", with_constant, {**x, FEATURES: 1.0}), score("shfm", p, x), **EXACT)


def test_sha2_is_augmented_anova_without_linear_part(rng):
    p = random_params("sha2", rng)
    augmented = {"bias": p["bias"], "V": p["V"], "beta": p["beta"], "gamma": p["v0"][:, None]}
    for x in random_samples(rng, 10):
        np.testing.assert_allclose(score("anova", augmented, x), score("sha2", p, x), **EXACT)


def test_equivalent_weights_of_sha2(rng):
    p = random_params("sha2", rng)
    v, v0, beta = p["V"][0], p["v0"][0], p["beta"][0]
    for x in random_samples(rng, 5):
        main = sum((v0 * beta) @ v[j] * x[j] for j in x)
        pairs = sum((v[i] * beta) @ v[j] * x[i] * x[j] for i in x for j in x if i < j)
        np.testing.assert_allclose(score("sha2", p, x), p["bias"][0] + main + pairs, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_against_central_differences_in_every_parameter(kind, outputs, rng):
    p = random_params(kind, rng, outputs)
    step = 1e-5
    for x in random_samples(rng, 3):
        for c in range(outputs):
            found = gradient(kind, p, x, c)
            for name, array in p.items():
                for at in np.ndindex(array.shape):
                    moved = {sign: {**p, name: array.copy()} for sign in (-1, 1)}
                    for sign, params in moved.items():
                        params[name][at] += sign * step
                    difference = (score(kind, moved[1], x)[c] - score(kind, moved[-1], x)[c]) / (2 * step)
                    assert found[name][at] == pytest.approx(difference, rel=1e-8, abs=1e-8)


def test_gradient_of_third_order(rng):
    p = random_params("anova", rng)
    x = {0: 0.5, 1: -2.0, 3: 1.5, 6: 0.25}
    a = p["V"][0, :, 0]
    without_0 = a[1] * -2.0 * a[3] * 1.5 + a[1] * -2.0 * a[6] * 0.25 + a[3] * 1.5 * a[6] * 0.25
    found = gradient("anova", p, x, 0, order=3)["V"][0, 0, 0]
    assert found == pytest.approx(p["beta"][0, 0] * 0.5 * without_0, rel=1e-14)


def test_touched_is_the_sample_and_all_that_is_global(rng):
    masks = touched("sha2", random_params("sha2", rng, 2), {1: 2.0, 4: -1.0, 5: 0.0, 99: 1.0})
    assert masks["bias"].all()
    assert masks["v0"].all()
    assert masks["beta"].all()
    assert [j for j in range(FEATURES) if masks["V"][:, j].all()] == [1, 4]
    assert masks["V"].sum() == 2 * 2 * RANK


def test_penalty_by_hand():
    penalty = Penalty(l1_w=1.0, l1_v=10.0, l2_w=2.0, l2_v=4.0)
    fm = {"bias": np.array([99.0]), "w": np.array([[3.0, 0.0]]), "V": np.array([[[4.0], [0.0]]])}
    assert penalty_value(fm, penalty) == (3 + 9) + (40 + 2 * 16)
    assert penalty_value(fm, Penalty(group_l1=2.0)) == 2 * 5
    sha2 = {"bias": np.array([99.0]), "V": fm["V"], "v0": np.array([[-1.0]]), "beta": np.array([[3.0]])}
    assert penalty_value(sha2, penalty) == (40 + 32) + (10 + 2) + 2 * 9
    assert penalty_value(sha2, Penalty(group_l1=2.0)) == 2 * 4 + 2 * 1
    assert penalty_value({"w": np.array([[3.0], [-4.0]])}, Penalty(group_l1=1.0)) == 7  # a group a class


@pytest.mark.parametrize("kind", KINDS)
def test_rows_hold_every_parameter_once(kind, rng):
    p = random_params(kind, rng, 2)
    numbers = np.concatenate([gather(p, row) for row in rows(p)])
    assert sorted(numbers) == sorted(np.concatenate([array.ravel() for array in p.values()]))


# ---- Losses ----

LABELS = {
    "logistic": (-1.0, 1.0),
    "hinge": (-1.0, 1.0),
    "squared-hinge": (-1.0, 1.0),
    "softmax": (0, 1, 2),
    "poisson": (0.0, 3.0),
}


def labels_of(name: str) -> tuple[float, ...]:
    return LABELS.get(name, (-2.0, 0.5))


@pytest.mark.parametrize("name", LOSSES)
def test_slope_against_central_differences(name, rng):
    loss, step = LOSSES[name], 1e-6
    for y in labels_of(name):
        for _ in range(10):
            scores = rng.normal(scale=2, size=3 if name == "softmax" else 1)
            for c, slope in enumerate(slopes(loss, y, scores)):
                move = step * np.eye(len(scores))[c]
                assert slope == pytest.approx((loss(y, scores + move) - loss(y, scores - move)) / (2 * step), abs=1e-8)


@pytest.mark.parametrize(
    ("name", "slope"),
    [
        ("squared", lambda y, s: s - y),
        ("logistic", lambda y, s: -y / (1 + np.exp(y * s))),
        ("hinge", lambda y, s: -y if y * s < 1 else 0.0),
        ("squared-hinge", lambda y, s: -2 * y * max(0.0, 1 - y * s)),
        ("huber", lambda y, s: np.clip(s - y, -1, 1)),
        ("poisson", lambda y, s: np.exp(s) - y),
    ],
)
def test_slope_is_the_formula(name, slope):
    for y in labels_of(name):
        for s in (-3.0, -1.0, -0.25, 0.0, 0.5, 1.0, 4.0):
            assert slopes(LOSSES[name], y, np.array([s]))[0] == pytest.approx(slope(y, s), rel=1e-14, abs=1e-300)


def test_slope_of_softmax_is_the_formula():
    scores = np.array([0.5, -1.0, 3.0])
    p = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(slopes(LOSSES["softmax"], 1, scores), p - [0, 1, 0], rtol=1e-14)


def test_huber_takes_its_delta():
    wide = partial(LOSSES["huber"], delta=5.0)
    assert wide(1.0, np.array([4.0])) == 4.5
    assert wide(0.0, np.array([-7.0])) == 5 * (7 - 2.5)
    assert slopes(wide, 0.0, np.array([-7.0])) == [-5]


def test_logistic_does_not_overflow():
    assert LOSSES["logistic"](1.0, np.array([-1000.0])) == 1000
    assert LOSSES["logistic"](1.0, np.array([1000.0])) == 0
    assert LOSSES["logistic"](1.0, np.array([40.0])) == pytest.approx(np.exp(-40))


@pytest.mark.parametrize("name", SMOOTHNESS)
def test_kappa_bounds_the_curvature_and_is_reached(name, rng):
    loss, step, largest = LOSSES[name], 1e-4, 0.0
    at = np.concatenate([[0.0], rng.normal(scale=2, size=200)])
    for y in labels_of(name):
        for s in at:
            # Softmax against two equal classes that count as one: at s = 0 the class has probability 1/2.
            scores = np.array([s, -np.log(2), -np.log(2)]) if name == "softmax" else np.array([s])
            move = step * np.eye(len(scores))[0]
            curvature = (slopes(loss, y, scores + move)[0] - slopes(loss, y, scores - move)[0]) / (2 * step)
            largest = max(largest, curvature)
    assert largest <= SMOOTHNESS[name] + 1e-8
    assert largest >= SMOOTHNESS[name] - 1e-6


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in LOSSES if "hinge" not in name])
def test_best_constants_minimise_the_mean_loss(name, weighted, rng):
    outputs = 3 if name == "softmax" else 1
    y = rng.choice(labels_of(name), size=50)
    s = rng.uniform(0.1, 3, size=50) if weighted else np.ones(50)
    loss = LOSSES[name]

    def objective(b: np.ndarray) -> float:
        return sum(s[i] * loss(y[i], b) for i in range(50)) / s.sum()

    found = best_constants(name, y, s if weighted else None, outputs)
    best = minimize(objective, np.zeros(outputs), method="BFGS", options={"gtol": 1e-9})
    assert objective(found) <= best.fun + 1e-12
    np.testing.assert_allclose(found - found.mean() * (outputs > 1), best.x - best.x.mean() * (outputs > 1), atol=1e-5)


def test_best_constants_of_the_hinges_are_0():
    assert best_constants("hinge", np.array([1.0, 1.0, -1.0])) == [0]


# ---- Prox ----


def prox_objective(v, u, h, l1, l2, group):
    return np.sum(h * (v - u) ** 2 / 2 + l1 * np.abs(v) + l2 / 2 * v**2) + group * np.linalg.norm(v)


@pytest.mark.parametrize("u", [-2.0, -0.3, 0.0, 0.7, 5.0])
@pytest.mark.parametrize(("l1", "l2", "group"), [(0, 0, 0), (1, 0, 0), (0, 2, 0), (1, 2, 0), (0, 0, 1), (0.5, 3, 1)])
def test_prox_of_a_number_against_a_search(u, l1, l2, group):
    h = 1.5
    best = minimize_scalar(
        lambda v: prox_objective(np.array([v]), np.array([u]), h, l1, l2, group),
        bounds=(-6, 6),
        options={"xatol": 1e-12},
    )
    assert prox(np.array([u]), h, l1, l2, group)[0] == pytest.approx(best.x, abs=2e-7)


def test_prox_of_a_row_against_a_search(rng):
    scaled_down = all_zero = 0
    for _ in range(60):
        u, h, l2, group = rng.normal(size=3), rng.uniform(0.5, 3), rng.uniform(0, 2), rng.uniform(0, 3)
        l1 = rng.uniform(0, 1, size=3)  # by part
        found = prox(u, h, l1, l2, group)
        value = prox_objective(found, u, h, l1, l2, group)
        searched = minimize(
            prox_objective,
            u,
            (u, h, l1, l2, group),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000},
        )
        assert value <= searched.fun + 1e-12
        np.testing.assert_allclose(found, searched.x, atol=1e-4)
        scaled_down += found.any()
        all_zero += not found.any()
    assert min(scaled_down, all_zero) > 5  # the draw covered both


def test_prox_of_numbers_with_a_curvature_each():
    u, h, l1, l2 = (
        np.array([1.0, -1.0, 0.2]),
        np.array([1.0, 4.0, 1.0]),
        np.array([0.5, 0.5, 0.5]),
        np.array([0.0, 1.0, 1.0]),
    )
    np.testing.assert_allclose(prox(u, h, l1, l2), [0.5, -3.5 / 5, 0])


# ---- Solvers ----

PLAIN = Options(learning_rate=0.1, alpha=0.2)


def problem(kind: str, rng: np.random.Generator, count: int = 12):
    return random_params(kind, rng), random_samples(rng, count), list(rng.choice([-1.0, 1.0], size=count))


def w_after(solver: str, options: Options, samples: list[Sample], labels: list[float], weights=None, w=(0.5, -0.25)):
    """A linear model without bias under the squared loss, after one pass in order."""
    p = {"w": np.array([w], dtype=float)}
    found, losses = run("linear", "squared", solver, p, samples, labels, [range(len(samples))], options, weights)
    return found["w"][0], losses[0]


def test_sgd_by_hand():
    # score 1, slope -2, gradient -4: 0.5 + 0.1 * 4 = 0.9; then soft threshold 0.1 * 1 and decay 1 / (1 + 0.1 * 5).
    w, loss = w_after("sgd", replace(PLAIN, l1_w=1, l2_w=5), [{0: 2.0}], [3.0])
    np.testing.assert_allclose(w, [(0.9 - 0.1) / 1.5, -0.25])  # the untouched weight stays
    assert loss == 2


def test_fobos_by_hand():
    w, _ = w_after("fobos", replace(PLAIN, l1_w=1, l2_w=5), [{0: 2.0}], [3.0])
    np.testing.assert_allclose(w, [(0.9 - 0.1) / 1.5, -(0.25 - 0.1) / 1.5])


def test_adagrad_by_hand():
    h = np.sqrt(1 + 16) / 0.1
    for solver, options in (("adagrad", PLAIN), ("fobos", replace(PLAIN, adaptive=True))):
        w, _ = w_after(solver, replace(options, l1_w=1, l2_w=5), [{0: 2.0}], [3.0])
        assert w[0] == pytest.approx((h * (0.5 + 4 / h) - 1) / (h + 5))
    assert w[1] == pytest.approx(-(0.25 / 0.1 - 1) / (1 / 0.1 + 5))  # fobos: G of an untouched weight is still 1


def test_ftrl_by_hand():
    def h(n):
        return np.sqrt(1 + n) / 0.2

    # λ1 acts on linear weights at once, though not on the start values.
    w, _ = w_after("ftrl", replace(PLAIN, l1_w=1, l2_w=5), [{0: 2.0}], [3.0])
    z = -0.5 * (h(0) + 5) - 4 - (h(16) - h(0)) * 0.5
    np.testing.assert_allclose(w, [(-1 - z) / (h(16) + 5), -0.25])


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [("constant", [0.1, 0.1, 0.1]), ("invscaling", 0.1 / np.sqrt([1, 2, 3])), ("inverse", [0.1 / 3, 0.1 / 4, 0.1 / 5])],
)
def test_schedules_count_updates_over_epochs(schedule, steps):
    p = {"w": np.array([[1.0]])}
    options = replace(PLAIN, schedule=schedule, t0=2.0)
    found, _ = run("linear", "squared", "sgd", p, [{0: 1.0}], [0.0], [[0], [0], [0]], options)
    assert found["w"][0, 0] == pytest.approx(np.prod(1 - np.array(steps)))


@pytest.mark.parametrize("solver", UPDATES)
@pytest.mark.parametrize("kind", KINDS)
def test_loss_falls_and_arguments_stay(kind, solver, rng):
    p, samples, y = problem(kind, rng)
    before = {name: array.copy() for name, array in p.items()}
    _, losses = run(kind, "logistic", solver, p, samples, y, [range(12)] * 4, PLAIN)
    assert losses[-1] < losses[0]
    assert all((p[name] == before[name]).all() for name in p)


@pytest.mark.parametrize("solver", UPDATES)
def test_a_batch_takes_the_mean_gradient_at_the_old_parameters(solver):
    # One weight: samples x = 1, y = 1 and x = 3, y = 0 at w = 0.5 have gradients -0.5 and 4.5: their mean is that of
    # x = 2, y = 0. The second batch holds the one sample that is left.
    pair = [{0: 1.0}, {0: 3.0}, {0: 1.0}]
    one, _ = w_after(solver, PLAIN, [{0: 2.0}, {0: 1.0}], [0.0, 4.0])
    two, loss = w_after(solver, replace(PLAIN, batch_size=2), pair, [1.0, 0.0, 4.0])
    assert two[0] == pytest.approx(one[0], rel=1e-14)
    first, _ = w_after(solver, PLAIN, [{0: 2.0}], [0.0])
    assert loss == pytest.approx((0.125 + 1.125 + (first[0] - 4) ** 2 / 2) / 3)


def test_batches_do_not_cross_epochs():
    p, seen = {"w": np.array([[1.0]])}, []
    run(
        "linear",
        "squared",
        "sgd",
        p,
        [{0: 1.0}] * 3,
        [0.0] * 3,
        [range(3)] * 2,
        replace(PLAIN, batch_size=2),
        None,
        lambda t, _: seen.append(t),
    )
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("solver", UPDATES)
def test_a_row_of_weight_0_is_left_out(solver, rng):
    p, samples, y = problem("fm", rng, 5)
    s = [1.0, 0.0, 2.0, 0.5, 0.0]
    kept = [0, 2, 3]
    for batch_size in (1, 2):
        options = replace(PLAIN, batch_size=batch_size, l1_v=0.01)
        found, losses = run("fm", "logistic", solver, p, samples, y, [range(5)], options, s)
        want, want_losses = run(
            "fm",
            "logistic",
            solver,
            p,
            [samples[i] for i in kept],
            [y[i] for i in kept],
            [range(3)],
            options,
            [s[i] for i in kept],
        )
        assert losses == want_losses
        assert all((found[name] == want[name]).all() for name in p)


@pytest.mark.parametrize("solver", UPDATES)
def test_only_ftrl_feels_the_scale_of_weights(solver, rng):
    p, samples, y = problem("fm", rng, 5)
    s = np.array([1.0, 3.0, 2.0, 0.5, 1.0])
    found, losses = run("fm", "logistic", solver, p, samples, y, [range(5)], PLAIN, s)
    scaled, scaled_losses = run("fm", "logistic", solver, p, samples, y, [range(5)], PLAIN, 2 * s)
    assert np.allclose(found["V"], scaled["V"], rtol=1e-12) == (solver != "ftrl")
    assert np.allclose(losses, scaled_losses, rtol=1e-12) == (solver != "ftrl")


@pytest.mark.parametrize("solver", ["sgd", "adagrad", "ftrl"])
def test_untouched_rows_stay_to_the_bit(solver, rng):
    p = random_params("fm", rng)
    options = replace(PLAIN, l1_w=0.1, l1_v=0.1, l2_w=0.1, l2_v=0.1, group_l1=0.1)
    found, _ = run("fm", "logistic", solver, p, [{0: 1.0, 2: 1.0}], [1.0], [[0]] * 3, options)
    for j in range(FEATURES):
        assert (found["V"][0, j] == p["V"][0, j]).all() == (j not in (0, 2))


@pytest.mark.parametrize("solver", UPDATES)
def test_the_bias_and_beta_feel_no_l1_and_no_group(solver, rng):
    p, samples, y = problem("sha2", rng)
    heavy = replace(PLAIN, l1_v=1e6, group_l1=1e6, l1_from_epoch=1)
    found, _ = run("sha2", "logistic", solver, p, samples, y, [range(12)], heavy)
    assert not found["v0"].any()
    assert found["beta"].all()
    assert found["bias"].all()
    decayed, _ = run("sha2", "logistic", solver, p, samples, y, [range(12)], replace(PLAIN, l2_v=1e6))
    # FTRL's start state answers λ2 for the start values: there a heavy λ2 holds a parameter where it began.
    np.testing.assert_allclose(decayed["beta"], p["beta"] if solver == "ftrl" else 0, atol=1e-3)
    assert decayed["bias"].all()


@pytest.mark.parametrize("solver", ["adagrad", "ftrl"])
def test_a_group_shares_the_mean_square_of_its_gradient(solver, rng):
    # At V = 0 only w has a gradient, g = slope: the row's square is g² / (1 + k).
    p = {"w": np.zeros((1, 2)), "V": np.zeros((1, 2, RANK))}
    found, _ = run("fm", "squared", solver, p, [{0: 1.0}], [2.0], [[0]], replace(PLAIN, group_l1=1e-300))
    square = 4 / (1 + RANK)
    h = np.sqrt(1 + square) / (0.1 if solver == "adagrad" else 0.2)
    assert found["w"][0, 0] == pytest.approx(2 / h)


def test_ftrl_without_l1_starts_at_the_start_values(rng):
    p = random_params("sha2", rng)
    # An empty sample with slope 0 changes no z and no n: what comes out is what the start state stands for.
    found, _ = run(
        "sha2", "squared", "ftrl", {**p, "bias": np.array([2.0])}, [{1: 0.0}], [2.0], [[0]], replace(PLAIN, l2_v=3.0)
    )
    np.testing.assert_allclose(found["v0"], p["v0"], rtol=1e-14)
    np.testing.assert_allclose(found["beta"], p["beta"], rtol=1e-14)
    np.testing.assert_allclose(found["bias"], [2.0], rtol=1e-14)


def test_ftrl_lets_l1_on_factors_in_at_the_end_of_the_epoch_before(rng):
    p, samples, y = problem("fm", rng)
    p["V"] *= 0.01
    heavy = replace(PLAIN, l1_v=1.0, group_l1=0.1)
    alive = []

    def look(t, params):
        alive.append(np.count_nonzero(params["V"]))

    def factors(options, epochs):
        alive.clear()
        return run("fm", "logistic", "ftrl", p, samples, y, [range(12)] * epochs, options, None, look)[0]["V"]

    assert not factors(heavy, 1).any()  # a run of one epoch is penalised too
    assert min(alive) == p["V"].size  # but not before its end
    assert not factors(replace(heavy, l1_from_epoch=3), 2).any()
    assert factors(replace(heavy, l1_from_epoch=3), 1).any()
    factors(replace(heavy, l1_from_epoch=1), 1)
    assert alive[-1] < p["V"].size


def test_ftrl_lets_l1_on_linear_weights_in_at_once(rng):
    p, samples, y = problem("fm", rng)
    after: list[np.ndarray] = []
    options = replace(PLAIN, l1_w=1e3)
    run(
        "fm",
        "logistic",
        "ftrl",
        p,
        samples,
        y,
        [range(12)],
        options,
        None,
        lambda _, now: after.append(now["w"].copy()),
    )
    assert not after[0][0, list(samples[0])].any()


def test_ftrl_visits_every_touched_row_once_with_the_full_penalties(rng):
    p, samples, y = problem("shfm", rng, 3)
    options = replace(PLAIN, l1_v=0.3, l2_v=0.1)
    states = {}

    def last(t, params):
        states["V"] = params["V"].copy()

    found, _ = run("shfm", "logistic", "ftrl", p, samples, y, [range(3)], options, None, last)
    # With λ1 = 0, φ = -z / (h + λ2): so z = -φ (h + λ2), and the visit moves |φ| by λ1 / (h + λ2) at most.
    moved = np.abs(states["V"]) - np.abs(found["V"])
    used = set().union(*samples)
    assert used != set(range(FEATURES))
    for j in range(FEATURES):
        assert (moved[0, j] > 0).all() == (j in used)
    assert (moved <= 0.3 / (1 / 0.2 + 0.1) + 1e-12).all()


def test_ftrl_takes_alpha_by_part_and_its_power():
    p = {"bias": np.zeros(1), "w": np.zeros((1, 1)), "V": np.full((1, 1, 1), 0.5)}
    options = replace(PLAIN, alpha=0.2, alpha_w=0.3, alpha_v=0.4, ftrl_power=1.0, beta=2.0)
    found, _ = run("fm", "squared", "ftrl", p, [{0: 1.0}], [3.0], [[0]], options)  # n = 9: h = 11 / α
    assert found["bias"][0] == pytest.approx(3 * 0.2 / 11)
    assert found["w"][0, 0] == pytest.approx(3 * 0.3 / 11)
    two = {"V": np.array([[[0.5], [1.0]]])}
    found, _ = run("fm", "squared", "ftrl", two, [{0: 1.0, 1: 1.0}], [2.5], [[0]], options)  # slope -2, g = (-2, -1)
    want = [0.5 + 2 * 0.4 / (2 + 4), 1.0 + 1 * 0.4 / (2 + 1)]  # z = -vH(0) + g - σv: without penalty φ = v - g/h
    np.testing.assert_allclose(found["V"][0, :, 0], want)


@pytest.mark.parametrize("penalty", [{}, {"l2_w": 0.3, "l2_v": 0.3}])
def test_softmax_of_two_classes_moves_both(penalty, rng):
    p = random_params("fm", rng, 2)
    p = {name: np.concatenate([array[:1], -array[:1]]) for name, array in p.items()}
    p["V"] = np.repeat(p["V"][:1], 2, axis=0) * 0  # odd in the class: scores (a, -a)
    samples, y = random_samples(rng, 6), [0, 1, 1, 0, 1, 0]
    found, losses = run("fm", "softmax", "sgd", p, samples, y, [range(6)], replace(PLAIN, **penalty))
    np.testing.assert_allclose(found["w"][0], -found["w"][1], rtol=1e-12)
    # softmax((a, -a)) is the logistic loss at 2a, so its slope in a class's score is that of the logistic loss.
    signs = [1.0 if c == 0 else -1.0 for c in y]
    half = {name: array[:1] for name, array in p.items()}
    doubled = lambda label, scores: LOSSES["logistic"](label, 2 * scores) / 2  # noqa: E731
    want, want_losses = run("fm", doubled, "sgd", half, samples, signs, [range(6)], replace(PLAIN, **penalty))
    np.testing.assert_allclose(found["w"][0], want["w"][0], rtol=1e-12)
    np.testing.assert_allclose(losses, np.multiply(want_losses, 2), rtol=1e-12)


# ---- The lazy form of fobos: what it must equal ----


def caught_up(size, etas, strength, l2):
    """|φ| (or a row's norm) after the steps ``etas`` without gradient, by the running sums L and Q."""
    L = np.concatenate([[0.0], np.cumsum(np.log1p(np.asarray(etas) * l2))])
    Q = np.sum(etas * np.exp(L[:-1]))
    return np.exp(-L[-1]) * np.maximum(size - strength * Q, 0)


@pytest.mark.parametrize(("l1", "group"), [(0.05, 0.0), (0.0, 0.05), (0.0, 0.0)])
@pytest.mark.parametrize("l2", [0.0, 0.7])
@pytest.mark.parametrize("schedule", ["constant", "invscaling", "inverse"])
def test_missed_steps_of_fobos_in_one_formula(schedule, l2, l1, group, rng):
    steps = 25
    options = replace(PLAIN, schedule=schedule, l1_w=l1, l1_v=l1, l2_w=l2, l2_v=l2, group_l1=group)
    etas = {
        "constant": np.full(steps, 0.1),
        "invscaling": 0.1 / np.sqrt(np.arange(1, steps + 1)),
        "inverse": 0.1 / np.arange(2, steps + 2),
    }
    p = random_params("fm", rng)
    p["V"] *= 0.1
    found, _ = run("fm", "logistic", "fobos", p, [{0: 1.0}] * steps, [1.0] * steps, [range(steps)], options)
    killed = 0
    for j in range(1, FEATURES):
        row = np.concatenate([[p["w"][0, j]], p["V"][0, j]])
        after = np.concatenate([[found["w"][0, j]], found["V"][0, j]])
        if group:
            norm = np.linalg.norm(row)
            want = row / norm * caught_up(norm, etas[schedule], group, l2)
        else:
            want = np.sign(row) * caught_up(np.abs(row), etas[schedule], l1, l2)
        np.testing.assert_allclose(after, want, rtol=1e-12, atol=1e-15)
        killed += np.count_nonzero(after == 0)
    assert l1 == 0 or schedule == "inverse" or killed > 0


def test_missed_steps_of_adaptive_fobos_use_the_rows_own_h():
    options = replace(PLAIN, adaptive=True, l1_w=0.05, l2_w=0.5)
    samples = [{0: 1.0, 1: 1.0}] + [{0: 1.0}] * 9
    first, _ = w_after("fobos", options, samples[:1], [4.0])
    last, _ = w_after("fobos", options, samples, [4.0] * 10)
    eta = 0.1 / np.sqrt(1 + (0.25 - 4) ** 2)
    assert last[1] == pytest.approx(np.sign(first[1]) * caught_up(abs(first[1]), np.full(9, eta), 0.05, 0.5), rel=1e-12)


def test_l1_and_group_together_are_lazy_to_first_order(rng):
    steps, eta, l1, group = 20, 0.01, 0.3, 0.2
    options = replace(PLAIN, learning_rate=eta, l1_w=l1, l1_v=l1, group_l1=group)
    p = random_params("fm", rng)
    found, _ = run("fm", "logistic", "fobos", p, [{0: 1.0}] * steps, [1.0] * steps, [range(steps)], options)
    etas = np.full(steps, eta)
    for j in range(1, FEATURES):
        row = np.concatenate([[p["w"][0, j]], p["V"][0, j]])
        after = np.concatenate([[found["w"][0, j]], found["V"][0, j]])
        soft = np.sign(row) * caught_up(np.abs(row), etas, l1, 0)
        want = soft * caught_up(np.linalg.norm(soft), etas, group, 0) / np.linalg.norm(soft)
        bound = np.sqrt(len(row)) * l1 * group * (steps * eta) ** 2 / np.linalg.norm(row)
        assert 0 < np.linalg.norm(after - want) <= bound


def test_strengths_by_part(rng):
    p = random_params("sha2", rng)
    penalty = Penalty(1.0, 2.0, 3.0, 4.0, 5.0)
    of = {row[0][0]: [np.unique(part).tolist() for part in strengths(p, row, penalty)] for row in rows(p)}
    assert of == {"V": [[2], [4], [5]], "v0": [[2], [4], [5]], "beta": [[0], [4], [0]], "bias": [[0], [0], [0]]}
