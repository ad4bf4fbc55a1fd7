"""Calibration: maps of scores beside scikit-learn's, the table of observed shares, and models that keep a map."""

import numpy as np
import pytest
from scipy.special import expit

import fmcli
from fmcli.errors import BadInputError
from fmcli.model_file.container import ModelFile
from fmcli.scoring.calibration import fitted, reliability
from fmcli.scoring.metrics import Outcome
from fmcli.scoring.scorer import scorer_of


def scored(rows=300, seed=0):
    random = np.random.default_rng(seed)
    score = np.round(random.normal(size=rows), 1)  # with equal ones
    return score, random.random(rows) < expit(2 * score - 1), random.integers(1, 4, rows).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_is_that_of_scikit_learn(weighted):
    isotonic = pytest.importorskip("sklearn.isotonic")
    score, positive, weight = scored()
    weight = weight if weighted else None
    least = 1 / (len(score) + 2)
    expected = isotonic.IsotonicRegression(y_min=least, y_max=1 - least, out_of_bounds="clip")
    expected.fit(score, positive.astype(float), sample_weight=weight)
    at = np.linspace(-5, 5, 77)
    found = fitted("isotonic", positive, score, weight)
    assert found.probability(at) == pytest.approx(expected.predict(at), abs=1e-12)
    assert found.numbers.shape[1] < len(np.unique(score))


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e-4])
def test_platt_is_the_minimum_that_scikit_learn_finds(scale):
    calibration = pytest.importorskip("sklearn.calibration")
    score, positive, weight = scored()
    expected = calibration._SigmoidCalibration().fit(score, positive.astype(float), sample_weight=weight)
    found = fitted("platt", positive, scale * score, weight)
    assert found.probability(scale * score) == pytest.approx(expected.predict(score), abs=1e-5)
    separable = fitted("platt", score > 0, score)
    assert np.isfinite(separable.numbers).all()
    assert separable.probability(score).max() < 1


def test_the_error_is_the_mean_difference_of_predicted_and_observed_shares():
    probability = np.array([0.1, 0.1, 0.1, 0.2, 0.7, 0.8])
    label = np.array([-1.0, 1, -1, -1, 1, 1])
    found = reliability(Outcome("logistic", label, probability[:, None], predicted=True), bins=3)
    assert [(one["rows"], one["lowest"], one["highest"]) for one in found.bins] == [
        (3, 0.1, 0.1),
        (1, 0.2, 0.2),
        (2, 0.7, 0.8),
    ]
    assert [one["observed"] for one in found.bins] == pytest.approx([1 / 3, 0, 1])
    assert found.error == pytest.approx((3 * abs(1 / 3 - 0.1) + 0.2 + 2 * 0.25) / 6)
    weighted = reliability(
        Outcome("logistic", label, probability[:, None], np.array([2.0, 0, 1, 1, 1, 1]), predicted=True), 1
    )
    assert weighted.bins[0]["predicted"] == pytest.approx((0.3 + 0.2 + 1.5) / 6)
    assert weighted.bins[0]["observed"] == pytest.approx(2 / 6)
    three = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
    found = reliability(Outcome("softmax", np.array([1.0, 1]), three, predicted=True), bins=2)
    assert [(one["predicted"], one["observed"]) for one in found.bins] == [(0.5, 0), (0.8, 1)]


def planted(rows, seed=1):
    random = np.random.default_rng(seed)
    x = random.integers(0, 2, (rows, 8)).astype(np.float32)
    return x, (random.random(rows) < expit(x @ random.normal(size=8) - 2)).astype(int)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_a_calibrated_model_predicts_shares_although_its_labels_were_weighted(method, tmp_path):
    x, y = planted(2600, seed=3)
    x, test, y, label = x[:600], x[600:], y[:600], y[600:]
    options = {"epochs": 5, "class_weight": "balanced", "quick_search": False, "seed": 3}
    plain, model = fmcli.train((x, y), **options), fmcli.train((x, y), calibrate=method, **options)
    before, after = (
        reliability(Outcome("logistic", 2.0 * label - 1, one.predict(test)[:, None], predicted=True)).error
        for one in (plain, model)
    )
    assert 2 * after < before > 0.08
    assert model.predict(test, "raw").tolist() == plain.predict(test, "raw").tolist()
    assert (model.predict(test, "label") == (model.predict(test) > 0.5)).all()
    measured = model.evaluate((test, label), ["brier", "logloss"])
    assert measured["brier"] == pytest.approx(((model.predict(test) - label) ** 2).mean())
    model.save(tmp_path / "m.fm")
    assert fmcli.load(tmp_path / "m.fm").predict(test).tolist() == model.predict(test).tolist()


def test_the_map_is_fitted_to_rows_that_a_model_has_not_seen():
    """A model that remembers its rows is certain of their labels, and right about half of others."""
    random = np.random.default_rng(0)
    x, y = np.eye(200, dtype=np.float32), random.integers(0, 2, 200)
    x = np.hstack([x, random.integers(0, 2, (200, 30)).astype(np.float32)])
    options = {"model": "linear", "solver": "lbfgs", "epochs": 50, "l2": 1e-4, "holdout": 0, "quick_search": False}
    certain, unsure = (fmcli.train((x, y), calibrate=one, **options).predict(x) for one in (None, "platt"))
    assert np.abs(certain - 0.5).mean() > 0.4
    assert np.abs(unsure - 0.5).mean() < 0.2


def test_files_with_a_map_that_is_not_one_are_refused():
    x, y = planted(200)
    file = fmcli.train((x, y), calibrate="isotonic", epochs=1, quick_search=False)._file
    good = file.tensors["calibration"]
    assert scorer_of("m", ModelFile(dict(file.meta), dict(file.tensors))).calibration.method == "isotonic"
    falls, repeated, beyond = good.copy(), good.copy(), good.copy()
    falls[1] = falls[1][::-1]
    repeated[0, 1] = repeated[0, 0]
    beyond[1, -1] = 1.5
    for numbers in (falls, repeated, beyond, good[:1], good * np.nan, good.astype("f4"), good[:, :0]):
        with pytest.raises(BadInputError, match="calibration"):
            scorer_of("m", ModelFile(dict(file.meta), {**file.tensors, "calibration": np.ascontiguousarray(numbers)}))
    with pytest.raises(BadInputError, match="calibration"):
        scorer_of("m", ModelFile({**file.meta, "calibration": "other"}, dict(file.tensors)))
    with pytest.raises(BadInputError, match="calibration"):
        scorer_of("m", ModelFile({**file.meta, "calibration": None}, dict(file.tensors)))
