"""The slow solvers: single steps computed by hand, and properties of each solver."""

from dataclasses import replace

import numpy as np
import pytest

from reference.problems import FEATURES, PLAIN, problem, random_params, random_samples, w_after
from reference.slow_losses import LOSSES
from reference.slow_solvers import UPDATES, run


def test_sgd_by_hand():
    # score 1, slope -2, gradient -4: 0.5 + 0.1 * 4 = 0.9; then soft threshold 0.1 * 1 and decay 1 / (1 + 0.1 * 5).
    w, loss = w_after("sgd", replace(PLAIN, l1_w=1, l2_w=5), [{0: 2.0}], [3.0])
    np.testing.assert_allclose(w, [(0.9 - 0.1) / 1.5, -0.25])  # the untouched weight is unchanged
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

    # λ1 acts on linear weights from the first update, but not on the start values.
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
def test_a_batch_takes_the_mean_gradient_at_the_old_parameters(solver):
    # At w = 0.5, the samples x = 1, y = 1 and x = 3, y = 0 have the gradients -0.5 and 4.5. Their mean is the gradient
    # of x = 2, y = 0. The second batch has only the remaining sample.
    pair = [{0: 1.0}, {0: 3.0}, {0: 1.0}]
    one, _ = w_after(solver, PLAIN, [{0: 2.0}, {0: 1.0}], [0.0, 4.0])
    two, loss = w_after(solver, replace(PLAIN, batch_size=2), pair, [1.0, 0.0, 4.0])
    assert two[0] == pytest.approx(one[0], rel=1e-14)
    first, _ = w_after(solver, PLAIN, [{0: 2.0}], [0.0])
    assert loss == pytest.approx((0.125 + 1.125 + (first[0] - 4) ** 2 / 2) / 3)


def test_batches_do_not_cross_epochs():
    p, seen = {"w": np.array([[1.0]])}, []
    rows, options = [{0: 1.0}] * 3, replace(PLAIN, batch_size=2)
    run("linear", "squared", "sgd", p, rows, [0.0] * 3, [range(3)] * 2, options, None, lambda t, _: seen.append(t))
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("solver", UPDATES)
def test_a_row_of_weight_0_is_left_out(solver, rng):
    p, samples, y = problem("fm", rng, 5)
    s = [1.0, 0.0, 2.0, 0.5, 0.0]
    kept = [0, 2, 3]
    for batch_size in (1, 2):
        options = replace(PLAIN, batch_size=batch_size, l1_v=0.01)
        found, losses = run("fm", "logistic", solver, p, samples, y, [range(5)], options, s)
        some = [[every[i] for i in kept] for every in (samples, y, s)]
        want, want_losses = run("fm", "logistic", solver, p, *some[:2], [range(3)], options, some[2])
        assert losses == want_losses
        assert all((found[name] == want[name]).all() for name in p)


@pytest.mark.parametrize("solver", UPDATES)
def test_only_ftrl_depends_on_the_scale_of_weights(solver, rng):
    p, samples, y = problem("fm", rng, 5)
    s = np.array([1.0, 3.0, 2.0, 0.5, 1.0])
    found, losses = run("fm", "logistic", solver, p, samples, y, [range(5)], PLAIN, s)
    scaled, scaled_losses = run("fm", "logistic", solver, p, samples, y, [range(5)], PLAIN, 2 * s)
    assert np.allclose(found["V"], scaled["V"], rtol=1e-12) == (solver != "ftrl")
    assert np.allclose(losses, scaled_losses, rtol=1e-12) == (solver != "ftrl")


@pytest.mark.parametrize("solver", UPDATES)
def test_l1_and_group_penalties_do_not_act_on_bias_and_beta(solver, rng):
    p, samples, y = problem("sha2", rng)
    heavy = replace(PLAIN, l1_v=1e6, group_l1=1e6, l1_from_epoch=1)
    found, _ = run("sha2", "logistic", solver, p, samples, y, [range(12)], heavy)
    assert not found["v0"].any()
    assert found["beta"].all()
    assert found["bias"].all()
    decayed, _ = run("sha2", "logistic", solver, p, samples, y, [range(12)], replace(PLAIN, l2_v=1e6))
    # FTRL's start state compensates λ2 at the start values, so a strong λ2 keeps a parameter near its start value.
    np.testing.assert_allclose(decayed["beta"], p["beta"] if solver == "ftrl" else 0, atol=1e-3)
    assert decayed["bias"].all()


def test_ftrl_without_l1_starts_at_the_start_values(rng):
    p = random_params("sha2", rng)
    # An empty sample with slope 0 changes neither z nor n, so the result is computed from the start state.
    found, _ = run(
        "sha2", "squared", "ftrl", {**p, "bias": np.array([2.0])}, [{1: 0.0}], [2.0], [[0]], replace(PLAIN, l2_v=3.0)
    )
    np.testing.assert_allclose(found["v0"], p["v0"], rtol=1e-14)
    np.testing.assert_allclose(found["beta"], p["beta"], rtol=1e-14)
    np.testing.assert_allclose(found["bias"], [2.0], rtol=1e-14)


def test_ftrl_applies_l1_to_factors_from_the_end_of_the_epoch_before(rng):
    p, samples, y = problem("fm", rng)
    p["V"] *= 0.01
    heavy = replace(PLAIN, l1_v=1.0, group_l1=0.1)
    alive = []

    def look(t, params):
        alive.append(np.count_nonzero(params["V"]))

    def factors(options, epochs):
        alive.clear()
        return run("fm", "logistic", "ftrl", p, samples, y, [range(12)] * epochs, options, None, look)[0]["V"]

    assert not factors(heavy, 1).any()  # a run of one epoch is penalized, too
    assert min(alive) == p["V"].size  # but only at its end
    assert not factors(replace(heavy, l1_from_epoch=3), 2).any()
    assert factors(replace(heavy, l1_from_epoch=3), 1).any()
    factors(replace(heavy, l1_from_epoch=1), 1)
    assert alive[-1] < p["V"].size


def test_ftrl_applies_l1_to_linear_weights_from_the_first_update(rng):
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
    # With λ1 = 0, φ = -z / (h + λ2), so z = -φ (h + λ2), and the update with λ1 changes |φ| by at most λ1 / (h + λ2).
    moved = np.abs(states["V"]) - np.abs(found["V"])
    used = set().union(*samples)
    assert used != set(range(FEATURES))
    for j in range(FEATURES):
        assert (moved[0, j] > 0).all() == (j in used)
    assert (moved <= 0.3 / (1 / 0.2 + 0.1) + 1e-12).all()


@pytest.mark.parametrize("solver", ["sgd", "adagrad", "fobos"])
def test_the_learning_rate_goes_by_part(solver):
    p = {"bias": np.zeros(1), "w": np.zeros((1, 2)), "V": np.array([[[0.5], [1.0]]])}
    options = replace(PLAIN, learning_rate=0.2, learning_rate_w=0.3, learning_rate_v=0.4)
    # Score 0.5, slope -2: the factors' gradients are -2 and -1.
    found, _ = run("fm", "squared", solver, p, [{0: 1.0, 1: 1.0}], [2.5], [[0]], options)
    root = np.sqrt(5) if solver == "adagrad" else 1
    assert found["bias"][0] == pytest.approx(2 * 0.2 / root)
    np.testing.assert_allclose(found["w"][0], [2 * 0.3 / root] * 2)
    of_one = np.sqrt(2) if solver == "adagrad" else 1
    np.testing.assert_allclose(found["V"][0, :, 0], [0.5 + 2 * 0.4 / root, 1 + 0.4 / of_one])


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
    p["V"] = np.repeat(p["V"][:1], 2, axis=0) * 0  # the classes have opposite parameters: scores (a, -a)
    samples, y = random_samples(rng, 6), [0, 1, 1, 0, 1, 0]
    found, losses = run("fm", "softmax", "sgd", p, samples, y, [range(6)], replace(PLAIN, **penalty))
    np.testing.assert_allclose(found["w"][0], -found["w"][1], rtol=1e-12)
    # softmax((a, -a)) is the logistic loss at 2a, so its slope by the score of a class is the logistic loss's.
    signs = [1.0 if c == 0 else -1.0 for c in y]
    half = {name: array[:1] for name, array in p.items()}
    doubled = lambda label, scores: LOSSES["logistic"](label, 2 * scores) / 2  # noqa: E731
    want, want_losses = run("fm", doubled, "sgd", half, samples, signs, [range(6)], replace(PLAIN, **penalty))
    np.testing.assert_allclose(found["w"][0], want["w"][0], rtol=1e-12)
    np.testing.assert_allclose(losses, np.multiply(want_losses, 2), rtol=1e-12)
