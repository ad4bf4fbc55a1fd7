"""Every registered loss against its slow definition."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fmcli._core.loop import mean_loss
from fmcli.registry import LOSSES
from reference import slow_losses

SCORES = np.array([-40.0, -3.0, -0.7, 0.0, 1e-9, 0.5, 2.0, 35.0])


def labels_of(name):
    return [-1.0, 1.0] if name == "logistic" else [-2.0, 0.0, 0.5, 3.0]


def cases(name):
    return [(y, np.array([score])) for y in labels_of(name) for score in SCORES]


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_slope(name):
    loss, slow = LOSSES[name].load()(), slow_losses.LOSSES[name]
    for y, score in cases(name):
        value, slope = loss.evaluate(y, score)
        np.testing.assert_allclose(value, slow(y, score), rtol=1e-14)
        np.testing.assert_allclose(slope, slow_losses.slopes(slow, y, score), rtol=1e-12)
        assert mean_loss(loss, np.array([y]), score[None]) == value


@pytest.mark.parametrize("name", LOSSES)
def test_slope_by_central_differences_and_its_bound(name):
    loss = LOSSES[name].load()()
    h = 1e-5
    for y, score in cases(name):
        above, below = loss.evaluate(y, score + h), loss.evaluate(y, score - h)
        _, slope = loss.evaluate(y, score)
        np.testing.assert_allclose((above[0] - below[0]) / (2 * h), slope[0], rtol=1e-6, atol=1e-9)
        assert (above[1][0] - below[1][0]) / (2 * h) <= loss.smoothness * (1 + 1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_constant(name, weighted):
    rng = np.random.default_rng(0)
    label = rng.choice(labels_of(name), size=50, p=[0.8, 0.2] if name == "logistic" else None)
    weight = rng.uniform(0, 3, size=50) if weighted else None
    loss = LOSSES[name].load()()
    best = minimize_scalar(lambda s: mean_loss(loss, label, np.full((50, 1), s), weight))
    assert abs(loss.best_constant(label, weight) - best.x) < 1e-6


def test_the_logistic_loss_far_from_zero():
    loss = LOSSES["logistic"].load()()
    assert loss.evaluate(1.0, np.array([-800.0]))[0] == 800
    assert loss.evaluate(1.0, np.array([800.0]))[0] == 0
    value, slope = loss.evaluate(-1.0, np.array([-40.0]))
    assert value == pytest.approx(np.exp(-40), rel=1e-12)
    assert slope[0] == pytest.approx(np.exp(-40), rel=1e-12)
