"""The slow models and penalty, tested by values computed by hand and by identities.

All other tests rely on the slow definitions, so these must not depend on the code under test. The same holds for the
tests of the slow losses, prox and solvers.
"""

import numpy as np
import pytest

from reference.kinds import KINDS, SIMPLEX, splitmix64
from reference.problems import FEATURES, RANK, random_params, random_samples, samples_of
from reference.slow_models import Penalty, gather, gradient, penalty_value, rows, score, strengths, touched

EXACT = {"rtol": 1e-12, "atol": 1e-13}


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
    assert score("anova", p, x, {"order": 3}) == [1 * 2 * 3 + 1 * 2 * 10 + 1 * 3 * 10 + 2 * 3 * 10]


def test_polynomial_networks_and_lifted_models_by_hand():
    x = {0: 2.0, 2: 3.0}
    p = {"P": np.array([[[1.0], [9.0], [-2.0]]]), "gamma": np.array([[0.5]]), "beta": np.array([[10.0]])}
    assert score("pn", p, x, {"order": 3}) == [10 * (0.5 + 2 - 6) ** 3]
    us = {"U1": p["P"], "U2": np.array([[[3.0], [9.0], [5.0]]])}
    assert score("lifted-anova", us, x) == [(2 * 15 + -6 * 6) / 2]
    assert score("lifted-pn", us, x) == [(2 - 6) * (6 + 15)]
    assert score("lifted-pn", {**us, "gamma": np.array([[[0.5], [-1.0]]])}, x) == [(0.5 - 4) * (-1 + 21)]
    constant = {**us, "gamma": np.array([[[[7.0], [-1.0]]]])}
    assert score("lifted-anova", constant, {0: 2.0}) == [(7 * 6 + -1 * 2) / 2]
    us["U3"] = np.array([[[1.0], [4.0], [1.0]]])
    assert score("lifted-anova", us, x) == [0]
    x[1] = 1.0
    by_hand = 2 * (9 * 3 + 15 * 4) + 9 * (6 * 3 + 15 * 2) + -6 * (6 * 4 + 9 * 2)
    assert score("lifted-anova", us, x)[0] == pytest.approx(by_hand / 6, rel=1e-14)


def test_second_order_kernel_in_closed_form(rng):
    p = random_params("fm", rng)
    for x in random_samples(rng, 10):
        a = np.array([p["V"][0, j] * v for j, v in x.items()]).reshape(-1, RANK)
        want = np.sum(a.sum(axis=0) ** 2 - (a**2).sum(axis=0)) / 2
        np.testing.assert_allclose(score("fm", {"V": p["V"]}, x), want, **EXACT)


# The arrays that test_models.py does not compare with central differences of compiled scores.
@pytest.mark.parametrize("kind", [kind for kind, of in KINDS.items() if {"anchors", *SIMPLEX} & of.arrays.keys()])
@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_against_central_differences_in_every_parameter(kind, outputs, rng):
    p = random_params(kind, rng, outputs)
    o = KINDS[kind].options
    step = 1e-5
    for x in samples_of(kind, rng, 3):
        for c in range(outputs):
            found = gradient(kind, p, x, c, o)
            for name, array in p.items():
                for at in np.ndindex(array.shape):
                    moved = {sign: {**p, name: array.copy()} for sign in (-1, 1)}
                    for sign, params in moved.items():
                        params[name][at] += sign * step
                    difference = (score(kind, moved[1], x, o)[c] - score(kind, moved[-1], x, o)[c]) / (2 * step)
                    assert found[name][at] == pytest.approx(difference, rel=1e-8, abs=1e-8)


def test_gradient_of_third_order(rng):
    p = random_params("anova", rng)
    x = {0: 0.5, 1: -2.0, 3: 1.5, 6: 0.25}
    a = p["V"][0, :, 0]
    without_0 = a[1] * -2.0 * a[3] * 1.5 + a[1] * -2.0 * a[6] * 0.25 + a[3] * 1.5 * a[6] * 0.25
    found = gradient("anova", p, x, 0, {"order": 3})["V"][0, 0, 0]
    assert found == pytest.approx(p["beta"][0, 0] * 0.5 * without_0, rel=1e-14)


def test_poly2_by_hand():
    p = {"w": np.array([[0.0, 0.0, 0.0]]), "W": np.array([[2.0, 30.0, 500.0]])}
    assert score("poly2", p, {0: 1.0, 1: 1.0, 2: 10.0}) == [2 + 300 + 5000]
    assert score("poly2", p, {2: 10.0, 0: 1.0}) == [300]
    hashed = {"W": np.arange(4.0)[None]}  # without w, the number of features is unknown
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # the published first output of the generator
    # splitmix64(1) = 0x910A..., whose first two bits are 10.
    assert score("poly2", hashed, {0: 1.0, 1: 1.0}, {"pair_bits": 2}) == [2]
    assert [len(row) for row in rows("poly2", p)] == [1] * 6


def test_ffm_by_hand_and_what_it_touches():
    v = np.zeros((1, 3, 2, 1))
    v[0, 0, 1], v[0, 1, 0], v[0, 1, 1], v[0, 2, 1] = 2, 3, 5, 7
    x = {(0, 0): 1.0, (1, 1): 1.0, (2, 1): 10.0}
    assert score("ffm", {"V": v}, x) == [2 * 3 + 2 * 0 * 10 + 5 * 7 * 10]
    mask = touched("ffm", {"V": v}, x)["V"][0, :, :, 0]
    assert mask.tolist() == [[False, True], [True, True], [True, True]]
    assert not touched("ffm", {"V": v}, {(1, 1): 1.0, (0, 9): 1.0})["V"].any()
    # An index in two fields is two entries, which form a pair.
    assert score("ffm", {"V": v}, {(1, 0): 1.0, (1, 1): 2.0}) == [3 * 5 * 2]
    assert len(rows("ffm", {"V": v, "w": v[0, :, :1, 0].T})) == 3 + 6
    assert len(rows("ffm", {"V": v, "w": v[0, :, :1, 0].T}, {"by_row": True})) == 3


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
    assert penalty_value("fm", fm, penalty) == (3 + 9) + (40 + 2 * 16)
    assert penalty_value("fm", fm, Penalty(group_l1=2.0)) == 2 * 5
    sha2 = {"bias": np.array([99.0]), "V": fm["V"], "v0": np.array([[-1.0]]), "beta": np.array([[3.0]])}
    assert penalty_value("sha2", sha2, penalty) == (40 + 32) + (10 + 2) + 2 * 9
    assert penalty_value("sha2", sha2, Penalty(group_l1=2.0)) == 2 * 4 + 2 * 1
    two_classes = {"w": np.array([[3.0], [-4.0]])}  # each has a group
    assert penalty_value("linear", two_classes, Penalty(group_l1=1.0)) == 7


@pytest.mark.parametrize("kind", KINDS)
def test_rows_hold_every_parameter_once(kind, rng):
    p = random_params(kind, rng, 2)
    numbers = np.concatenate([gather(p, row) for row in rows(kind, p)])
    assert sorted(numbers) == sorted(np.concatenate([array.ravel() for array in p.values()]))


def test_strengths_by_part(rng):
    p = random_params("sha2", rng)
    penalty = Penalty(1.0, 2.0, 3.0, 4.0, 5.0)
    of = {row[0][0]: [np.unique(part).tolist() for part in strengths(p, row, penalty)] for row in rows("sha2", p)}
    assert of == {"V": [[2], [4], [5]], "v0": [[2], [4], [5]], "beta": [[0], [4], [0]], "bias": [[0], [0], [0]]}
