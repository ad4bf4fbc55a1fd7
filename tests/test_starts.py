"""Start values: no kind is stuck where it starts, by default."""

import numpy as np
import pytest
from problems import dataset

from fmcli import training
from fmcli.specs import make_spec


@pytest.fixture(scope="module")
def diabetes():
    """scikit-learn's diabetes data with columns and labels of variance 1."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    rows = [dict(enumerate(map(float, row))) for row in x / x.std(axis=0)]
    return dataset(rows, x.shape[1], (y - y.mean()) / y.std())


def train(data, model, solver=None, loss=None, **options):
    return training.train(training.plan(data, make_spec(model, solver, loss, options)))


# Half the mean square of labels of variance 1: what a constant reaches.
CONSTANT = 0.5


@pytest.mark.parametrize(
    ("model", "options"), [("anova", {}), ("anova", {"nuclear": 0.01, "augment": True, "linear": False}), ("sha2", {})]
)
def test_the_start_of_the_weights_of_kernels_does_not_matter_to_coordinate_descent(diabetes, model, options):
    """[PN] 9.1: as they are visited before the factors."""
    one, other = (
        train(diabetes, model, "cd", rank=4, beta_start=start, **options).epochs[-1].objective
        for start in ("ones", "alternate")
    )
    assert one == pytest.approx(other, rel=0.01)
    assert one < 0.6 * CONSTANT


def test_kinds_with_fitted_weights_of_kernels_learn_interactions(diabetes):
    """Beyond what a linear model reaches: neither factors nor their weights shrink to 0 from where they start."""
    linear = train(diabetes, "linear", "cd").epochs[-1].loss
    found = train(diabetes, "anova", "cd")
    assert found.epochs[-1].loss < 0.95 * linear
    assert np.abs(found.plan.model.parameters["beta"]).max() > 0.1
