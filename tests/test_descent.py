"""Coordinate descent: it never rises, its fast views are its slow one, and on convex problems it ends where others do."""

import numpy as np
import pytest
from problems import FOLLOWED, assert_close, build, dataset, fill, parameters, random_rows
from test_solvers import PENALTIES, labels_of, make_loss, outputs_of

from fmcli._core.descent import Descent
from fmcli._core.penalty import Penalty
from fmcli.registry import LOSSES, MODELS

FEATURES, RANK, ROWS = 7, 5, 9
SMOOTH = [loss for loss in LOSSES if loss != "hinge"]
ROUNDING = 1e-5


def problem(name, loss, penalty, seed=0, by_gradient=False, **options):
    """A descent on random rows from random parameters."""
    rng = np.random.default_rng([len(name), seed])
    model = build(name, FEATURES, outputs_of(loss), rank=RANK, **options)
    model.allocate(0)
    fill(model, rng, scale=0.4)
    rows = random_rows(rng, ROWS, FEATURES)
    data = dataset(rows, FEATURES, labels_of(loss, rng), rng.uniform(0.5, 2, size=ROWS))
    return model, Descent(model, make_loss(loss), Penalty(**PENALTIES[penalty]), data, by_gradient=by_gradient)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("name", MODELS)
def test_the_objective_never_rises_and_falls(name, loss, penalty):
    for seed in range(5):
        _, descent = problem(name, loss, penalty, seed)
        objectives = [sum(descent.objective())]
        for _ in range(6):
            descent.epoch()
            objectives.append(sum(descent.objective()))
        assert np.diff(objectives).max() <= ROUNDING * max(1, abs(objectives[0]))
        assert objectives[-1] < objectives[0] - 0.01


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "poisson"])
@pytest.mark.parametrize("name", MODELS)
def test_fast_derivatives_are_the_models_own(name, loss, penalty):
    ends = []
    for by_gradient in (False, True):
        model, descent = problem(name, loss, penalty, by_gradient=by_gradient)
        for _ in range(2):
            descent.objective()
            descent.epoch()
        ends.append(parameters(model))
    assert_close(*ends, FOLLOWED)
