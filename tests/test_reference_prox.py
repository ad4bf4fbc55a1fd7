"""The slow prox, compared with a numerical search, and sequences of prox steps, compared with their closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from reference.problems import FEATURES, PLAIN, random_params, w_after
from reference.slow_penalties import GROUPS
from reference.slow_solvers import prox, run


def prox_objective(v, u, h, l1, l2, group, rest=(), kind="group_l1"):
    proximity = np.sum(h * (v - u) ** 2 / 2 + l1 * np.abs(v) + l2 / 2 * v**2)
    return proximity + group * GROUPS[kind].value(np.append(v, rest))


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


@pytest.mark.parametrize("kind", GROUPS)
def test_prox_of_a_row_against_a_search(kind, rng):
    scaled_down = all_zero = 0
    for _ in range(30):
        u, h, l2, group = rng.normal(size=3), rng.uniform(0.2, 5, 3), rng.uniform(0, 2, 3), rng.uniform(0, 3)
        l1 = rng.uniform(0, 1, size=3)  # one strength for each parameter, as for rows of linear weights and factors
        rest = np.sqrt([rng.choice([0, 0, 0.5])])
        found = prox(u, h, l1, l2, group, rest, kind)
        value = prox_objective(found, u, h, l1, l2, group, rest, kind)
        for begin in (u, found):  # a search may stop at a kink of the objective, but none may find a lower value
            searched = minimize(
                prox_objective,
                begin,
                (u, h, l1, l2, group, rest, kind),
                method="Nelder-Mead",
                options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000},
            )
            assert value <= searched.fun + 1e-12
        scaled_down += found.any()
        all_zero += not found.any()
    assert min(scaled_down, all_zero) > 3  # both cases occurred


def test_prox_of_numbers_with_a_curvature_each():
    u, h, l1, l2 = np.array([[1.0, -1.0, 0.2], [1.0, 4.0, 1.0], [0.5, 0.5, 0.5], [0.0, 1.0, 1.0]])
    np.testing.assert_allclose(prox(u, h, l1, l2), [0.5, -3.5 / 5, 0])


def caught_up(size, etas, strength, l2):
    """Return |φ| (or the norm of a row) after the steps ``etas`` without gradient, from the running sums L and Q."""
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
