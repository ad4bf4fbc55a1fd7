"""Every registered loss against its slow definition."""

from functools import partial

import numpy as np
import pytest

from fmcli.registry.losses import LOSSES
from fmcli.scoring.scores import mean_loss
from reference import slow_losses

pytestmark = pytest.mark.exact

# No score is at a kink, because derivatives are compared with central differences.
SCORES = (-40.0, -3.1, -0.7, 0.0, 1e-9, 0.5, 2.2, 35.0)
LABELS = {
    "binary": (-1.0, 1.0),
    "real": (-2.0, 0.0, 0.5, 3.0),
    "counts": (0.0, 1.0, 4.0),
    "soft": (0.0, 0.3, 1.0),
    "classes": (0.0, 1.0, 2.0),
    "order": (1.0,),
    "levels": (0.0, 1.0, 2.0, 3.0),
}
# Class scores: moderate, equal, and so far apart that exp would overflow.
CLASS_SCORES = ((0.3, -1.2, 2.0), (0.0, 0.0, 0.0), (-40.0, 35.0, 3.0), (900.0, -900.0, 899.0))
# Scores minus increasing cutpoints.
LEVEL_SCORES = ((2.0, 0.3, -1.2), (0.1, 0.0, -0.1), (35.0, 3.0, -40.0), (50.0, 49.0, 48.5), (-40.0, -41.0, -44.0))
# By their number.
FAR = {1: ((-800.0,), (800.0,)), 3: ((800.0, 0.0, -800.0), (800.0, 799.0, 798.0), (-798.0, -799.0, -800.0))}
CASES = [pytest.param(name, {}, id=name) for name in LOSSES]
CASES += [pytest.param("huber", {"huber_delta": delta}, id=f"huber-{delta}") for delta in (0.3, 2.5)]


def make(name, options):
    """Return the loss and its slow definition."""
    slow = slow_losses.LOSSES[name]
    if "huber_delta" in options:
        slow = partial(slow, delta=options["huber_delta"])
    return LOSSES[name].load()(**options, **({"outputs": 3} if outputs_of(name) == 3 else {})), slow


def outputs_of(name):
    return 3 if LOSSES[name].task in ("classes", "levels") else 1


def samples(name):
    """Labels and scores."""
    several = {"classes": CLASS_SCORES, "levels": LEVEL_SCORES}
    scores = several.get(LOSSES[name].task, [(score,) for score in SCORES])
    return [(y, np.array(score)) for y in LABELS[LOSSES[name].task] for score in scores]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_value_and_slope(name, options):
    loss, slow = make(name, options)
    rtol = {"probit": 1e-13, "ordinal": 1e-12}.get(name, 1e-14)  # far tails multiply the rounding error of the score
    for y, score in samples(name):
        value, slope = loss.evaluate(y, score)
        where = f"label {y}, score {score}"
        np.testing.assert_allclose(value, slow(y, score), rtol=rtol, err_msg=where)
        np.testing.assert_allclose(slope, slow_losses.slopes(slow, y, score), rtol=1e-12, atol=1e-15, err_msg=where)
        assert mean_loss(loss, np.array([y]), score[None]) == value


@pytest.mark.parametrize(("name", "options"), CASES)
def test_no_score_that_is_a_number_makes_one_that_is_none(name, options):
    """As far from 0 as a training run that diverges gets before it ends."""
    loss, _ = make(name, options)
    for y in LABELS[LOSSES[name].task]:
        for score in FAR[outputs_of(name)]:
            value, slope = loss.evaluate(y, np.array(score))
            assert not np.isnan([value, *slope]).any(), (y, score)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_slope_and_smoothness_by_central_differences(name, options):
    loss, _ = make(name, options)
    h = 1e-5
    for y, score in samples(name):
        _, slope = loss.evaluate(y, score)
        for c, step in enumerate(h * np.eye(outputs_of(name))):
            above, below = loss.evaluate(y, score + step), loss.evaluate(y, score - step)
            np.testing.assert_allclose((above[0] - below[0]) / (2 * h), slope[c], rtol=1e-6, atol=1e-8)
            assert (above[1][c] - below[1][c]) / (2 * h) <= loss.smoothness * (1 + 1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_smoothness_is_no_less_than_the_largest_curvature(name):
    loss, _ = make(name, {})
    largest = slow_losses.SMOOTHNESS.get(name, np.inf)
    assert loss.smoothness >= largest
    assert loss.smoothness == largest or outputs_of(name) > 1  # softmax: a bound for changes of several scores


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_best_constant(name, options, weighted):
    rng = np.random.default_rng(0)
    label = rng.choice(LABELS[LOSSES[name].task], size=50)
    weight = rng.uniform(0, 3, size=50) if weighted else None
    loss, slow = make(name, options)
    found = loss.best_constant(label, weight)
    delta = options.get("huber_delta", 1.0)
    slow = slow_losses.best_constants(name, label, weight, outputs_of(name), delta)
    assert found.shape == (outputs_of(name),)
    np.testing.assert_allclose(found, slow, rtol=1e-10, atol=1e-12)
    each, places = np.unique(label, return_inverse=True)
    of_each = loss.best_constant(each, np.bincount(places, weights=weight), 50)
    np.testing.assert_allclose(of_each, found, rtol=1e-10, atol=1e-12)
    if name in slow_losses.FROM_ZERO:
        assert not found.any()
        return
    at_best = mean_loss(loss, label, np.tile(found, (50, 1)), weight)
    for step in (-1e-3, 1e-3):
        for move in step * np.eye(outputs_of(name)):
            assert mean_loss(loss, label, np.tile(found + move, (50, 1)), weight) >= at_best


def test_a_label_without_rows_has_half_of_one():
    expected = np.log([0.5 / 40, 0.75, 0.25])
    found = LOSSES["softmax"].load()(outputs=3).best_constant(np.array([1.0, 2.0]), np.array([30.0, 10.0]), 40)
    np.testing.assert_allclose(found, expected)
    found = LOSSES["logistic"].load()().best_constant(np.array([1.0]), np.array([40.0]), 40)
    np.testing.assert_allclose(found, np.log(39.5 / 0.5))


def test_counts_that_are_all_0_start_from_0():
    assert LOSSES["poisson"].load()().best_constant(np.zeros(3), None) == [0]


def test_the_logistic_loss_far_from_zero():
    loss = LOSSES["logistic"].load()()
    assert loss.evaluate(1.0, np.array([-800.0]))[0] == 800
    assert loss.evaluate(1.0, np.array([800.0]))[0] == 0
    value, slope = loss.evaluate(-1.0, np.array([-40.0]))
    assert value == pytest.approx(np.exp(-40), rel=1e-12)
    assert slope[0] == pytest.approx(np.exp(-40), rel=1e-12)


def test_softmax_of_two_classes_is_the_logistic_loss_of_their_difference():
    softmax, logistic = LOSSES["softmax"].load()(outputs=2), LOSSES["logistic"].load()()
    for score in SCORES:
        value, slope = softmax.evaluate(1.0, np.array([0.0, score]))
        wanted, derivative = logistic.evaluate(1.0, np.array([score]))
        assert value == pytest.approx(wanted, rel=1e-12, abs=1e-14)
        np.testing.assert_allclose(slope, [-derivative[0], derivative[0]], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", LOSSES)
def test_a_score_that_is_not_a_number_is_never_a_small_loss(name):
    loss, _ = make(name, {})
    outputs = outputs_of(name)
    for y in LABELS[LOSSES[name].task]:
        for place in range(outputs):
            score = np.zeros(outputs)
            score[place] = np.nan
            if LOSSES[name].task == "levels":  # a score minus each cutpoint: none of them is a number
                score[:] = np.nan
            value, slope = loss.evaluate(y, score)
            assert np.isnan(value)
            assert np.isnan(slope).any()
            assert np.isnan(mean_loss(loss, np.array([y]), score[None]))
