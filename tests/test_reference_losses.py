"""The slow losses, compared with their formulas, central differences and minima."""

from functools import partial

import numpy as np
import pytest

from fmcli.registry import losses as registry
from reference.slow_losses import LOSSES, SMOOTHNESS, slopes

LABELS = {
    "binary": (-1.0, 1.0),
    "soft": (0.0, 0.25, 1.0),
    "real": (-2.0, 0.5),
    "counts": (0.0, 3.0),
    "classes": (0, 1, 2),
    "order": (1.0,),
    "levels": (0, 1, 2),
}


def labels_of(name: str) -> tuple[float, ...]:
    """Return labels for the loss, according to its task in the registry."""
    return LABELS[registry.LOSSES[name].task]


@pytest.mark.parametrize(
    ("name", "slope"),
    [
        ("squared", lambda y, s: s - y),
        ("logistic", lambda y, s: -y / (1 + np.exp(y * s))),
        ("hinge", lambda y, s: -y if y * s < 1 else 0.0),
        ("squared-hinge", lambda y, s: -2 * y * max(0.0, 1 - y * s)),
        ("huber", lambda y, s: np.clip(s - y, -1, 1)),
        ("poisson", lambda y, s: np.exp(s) - y),
        ("bpr", lambda y, s: -1 / (1 + np.exp(s))),
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


@pytest.mark.parametrize("name", SMOOTHNESS)
def test_kappa_bounds_the_curvature_and_is_reached(name, rng):
    loss, step, largest = LOSSES[name], 1e-4, 0.0
    # The curvature of probit approaches its bound as the margin falls.
    far = [-1e4] if name == "probit" else []
    at = np.concatenate([[0.0], labels_of(name), rng.normal(scale=2, size=200), far])
    for y in labels_of(name):
        for s in at:
            # Softmax with two other, equal classes, together like one: at s = 0 the class has probability 1/2.
            scores = np.array([s, -np.log(2), -np.log(2)]) if name == "softmax" else np.array([s])
            move = step * np.eye(len(scores))[0]
            curvature = (slopes(loss, y, scores + move)[0] - slopes(loss, y, scores - move)[0]) / (2 * step)
            largest = max(largest, curvature)
    assert largest <= SMOOTHNESS[name] + 1e-8
    assert largest >= SMOOTHNESS[name] - 1e-6
