"""Weights of rows: from a file, and by label."""

import numpy as np
import pytest
from problems import dataset

from fmcli.data.shards.weights import Weighting, read_weights, weigh
from fmcli.errors import BadInputError
from fmcli.registry.specs import make_spec
from fmcli.training import job

LABELS = np.array([1.0, 3.0, 3.0, 3.0, 5.0, 3.0])


def rows(label, rng, features=4):
    return dataset([{j: float(rng.normal()) for j in range(features)} for _ in label], features, label)


@pytest.mark.parametrize(("solver", "loss"), [("lbfgs", "logistic"), ("cd", "logistic"), ("cd", "squared")])
def test_weight_2_is_the_same_row_twice(rng, solver, loss):
    label = rng.integers(0, 2, 40).astype(float) if loss == "logistic" else rng.normal(size=40)
    data = rows(label, rng)
    twice = rng.permutation(40)[:15].astype(np.int32)
    weight = np.ones(40)
    weight[twice] = 2
    spec = make_spec("fm", solver, loss, {"rank": 2, "l2": 0.01, "epochs": 8, "tol": 0.0})
    weighted, repeated = (
        job.train(job.plan(some, spec))
        for some in (data.changed(weight=weight), data.take(np.append(np.arange(40), twice).astype(np.int32)))
    )
    assert weighted.epochs[-1].objective == pytest.approx(repeated.epochs[-1].objective, rel=1e-5)
    plain = job.train(job.plan(data, spec))
    assert abs(weighted.epochs[-1].objective - plain.epochs[-1].objective) > 1e-3
    for name, array in weighted.plan.model.parameters.items():
        np.testing.assert_allclose(array, repeated.plan.model.parameters[name], atol=2e-3, err_msg=name)


def test_weights_by_label(rng):
    data = rows(LABELS, rng)
    own = np.array([1, 2, 1, 1, 4, 0.0])
    data, of_labels = weigh(data, Weighting(by_label={3: 0.5, 5: 2}))
    assert (data.weight.tolist(), of_labels) == ([1, 0.5, 0.5, 0.5, 2, 0.5], {3: 0.5, 5: 2})
    balanced = Weighting(balanced=True).of_labels(LABELS, own)
    totals = {label: balanced[label] * own[label == LABELS].sum() for label in (1, 3, 5)}
    assert list(totals.values()) == pytest.approx([3, 3, 3])
    assert Weighting(positive=3.0).of_labels(LABELS[:4], own[:4]) == {3: 3}
    assert weigh(data.changed(weight=None), Weighting(by_label={3: 1.0}))[0].weight is None


@pytest.mark.parametrize(
    ("weighting", "message"),
    [
        (Weighting(by_label={2: 1.0}), "no row has the label 2, which has a weight, only 1, 3, 5"),
        (Weighting(positive=2.0), "labels with two values, but these are 1, 3, 5"),
        (Weighting(by_label={1: 1e308, 3: 1e308, 5: 1e308}), "must be positive and finite"),
    ],
)
def test_weights_that_do_not_fit_the_labels(rng, weighting, message):
    with pytest.raises(BadInputError, match=message):
        weigh(rows(LABELS, rng), weighting)


def test_numbers_are_not_balanced(rng, monkeypatch):
    monkeypatch.setattr("fmcli.data.shards.weights.MOST_CLASSES", 2)
    with pytest.raises(BadInputError, match="labels with 3 values are not classes"):
        Weighting(balanced=True).of_labels(LABELS, np.ones(6))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1\n2\n", "has 2 lines, but there are 3 training rows"),
        (b"1\n\n2\n", ":2: found '', expected a weight"),
        (b"1\n-2\n3\n", ":2: found '-2', expected a weight: a finite number that is not negative"),
        (b"1\n2\ninf\n", ":3: found 'inf'"),
        (b"1\n2 1\n3\n", ":2: found '2 1'"),
        (b"", "has 0 lines"),
        (b"0\n0\n0\n", "sum of the weights"),
    ],
)
def test_files_of_weights(rng, tmp_path, text, message):
    path = tmp_path / "weights"
    path.write_bytes(b"0.5\n 2e0\r\n+3")
    assert read_weights(str(path), 3).tolist() == [0.5, 2, 3]
    path.write_bytes(text)
    with pytest.raises(BadInputError, match=message):
        weigh(rows(LABELS[:3], rng), Weighting(str(path)))
