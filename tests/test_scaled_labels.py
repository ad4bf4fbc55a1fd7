"""The unit of labels that are numbers: the same rows in another unit give the same predictions in that unit."""

from itertools import cycle

import numpy as np
import pandas as pd
import pytest
from inprocess import run_here

import fmcli
from fmcli.base.label_unit import LabelUnit, Moments
from fmcli.errors import UsageError
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.sklearn import FMRegressor

ROWS, USERS, FILMS = 48, 6, 5
SOME = np.random.default_rng(3)
USER, FILM = SOME.integers(USERS, size=ROWS), SOME.integers(FILMS, size=ROWS)
LABEL = np.round(3 + SOME.normal(size=USERS)[USER] + SOME.normal(size=FILMS)[FILM] + SOME.normal(size=ROWS) / 4, 3)
FRAME = pd.DataFrame({"user": [f"u{n}" for n in USER], "film": [f"f{n}" for n in FILM]})
# A factor and an addend of labels; of a power of two, all bits stay.
POWER, UNITS = 2.0**-20, [(1e3, 0.0), (1.0, 1e6)]
PRECISION = 1e-4  # of the labels' standard deviation
ROW_SOLVERS = [name for name, entry in SOLVERS.items() if entry.by_rows]


class Commands:
    """Commands in a folder, which must end well."""

    def __init__(self, folder):
        self.folder = folder

    def ok(self, *words):
        done = run_here(words, self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()


def trained(label, model="fm", **options):
    return fmcli.train(FRAME.assign(y=label), label="y", model=model, threads=1, **options)


def predicted(label, model="fm", **options):
    return np.asarray(trained(label, model, **options).predict(FRAME)).ravel()


def assert_same_in_other_units(predict, units=UNITS):
    usual = predict(LABEL)
    assert np.std(usual) > 0.3 * LABEL.std()
    np.testing.assert_array_equal(predict(POWER * LABEL), POWER * usual)
    for factor, addend in units:
        found = (predict(factor * LABEL + addend) - addend) / factor
        assert np.abs(found - usual).max() < PRECISION * LABEL.std()


@pytest.mark.parametrize(("model", "solver"), list(zip(MODELS, cycle(ROW_SOLVERS), strict=False)))
def test_the_unit_of_labels_does_not_matter_to_any_kind(model, solver):
    options = {} if MODELS[model].closed_form else {"quick_search": False, "epochs": 30, "solver": solver}
    assert_same_in_other_units(lambda label: predicted(label, model, **options))


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_unit_of_labels_does_not_matter_to_any_solver(solver):
    options = {"quick_search": False, "epochs": 20, "solver": solver}
    units = [(1e-6, 0.0), (1e6, 0.0), (1e-3, 1e3)]
    assert_same_in_other_units(lambda label: predicted(label, **options), units)


def test_the_unit_of_labels_does_not_matter_to_huber():
    """Whose delta is in units of the standard deviation."""
    wild = np.where(np.arange(ROWS) % 9 == 0, 40.0, 0.0)
    options = {"loss": "huber", "huber_delta": 0.25, "solver": "cd"}
    usual = predicted(LABEL + wild, **options)
    assert np.abs(predicted(1e5 * (LABEL + wild) - 7, **options) / 1e5 - usual).max() < 1e-3 * LABEL.std()
    assert np.abs(np.median(usual - LABEL)) < 1 < np.abs(np.mean(predicted(LABEL + wild, solver="cd") - LABEL))


def test_weights_count_for_the_unit():
    weight = 1.0 + np.arange(ROWS) % 3
    both = FRAME.assign(y=LABEL, w=weight)
    model = fmcli.train(both, label="y", weight_column="w", epochs=1)
    assert model._scorer.labels.unit.center == pytest.approx(np.average(LABEL, weights=weight))
    repeated = np.repeat(np.arange(ROWS), weight.astype(int))
    assert model._scorer.labels.unit.scale == pytest.approx(LABEL[repeated].std())


def test_scaled_labels_are_labels_that_are_standardized_by_hand():
    center, scale = LABEL.mean(), LABEL.std()
    options = {"clip": False, "quick_search": False}
    by_hand = predicted((LABEL - center) / scale, scale_labels=False, **options)
    assert np.abs(predicted(LABEL, **options) - (center + scale * by_hand)).max() < PRECISION
    assert np.abs(predicted(LABEL, scale_labels=False, **options) - predicted(LABEL, **options)).max() > PRECISION


def test_commands_and_estimators_have_the_unit_of_the_user(tmp_path):
    label = 1e6 + 250 * LABEL
    FRAME.assign(y=label).to_csv(tmp_path / "t.csv", index=False)
    run = Commands(tmp_path)
    run.ok("train", "-s", "cd", "--label", "y", "-o", "m.fm", "t.csv")
    shown = np.array(run.ok("predict", "m.fm", "t.csv").split(), dtype=float)
    exact = np.asarray(fmcli.load(tmp_path / "m.fm").predict(FRAME)).ravel()
    assert np.abs(shown - exact).max() < 1e-6 * label.std()
    error = float(run.ok("evaluate", "-x", "rmse", "m.fm", "t.csv").split()[1])
    assert error == pytest.approx(np.sqrt(np.mean((exact - label) ** 2)), rel=1e-3)
    estimator = FMRegressor(solver="cd").fit(FRAME, label)
    assert np.abs(estimator.predict(FRAME) - exact).max() < 0.1 * label.std()
    low, high = trained(label, solver="mcmc", epochs=20).predict(FRAME, interval=0.9)[1].T
    assert np.mean((low < label) & (label < high)) > 0.6
    assert 0.1 * label.std() < np.median(high - low) < 4 * label.std()


def test_explanations_and_inspections_have_the_unit_of_the_user(tmp_path):
    FRAME.assign(y=1e3 * LABEL).to_csv(tmp_path / "t.csv", index=False)
    run = Commands(tmp_path)
    run.ok("train", "-s", "cd", "--label", "y", "-o", "m.fm", "t.csv")
    model = fmcli.load(tmp_path / "m.fm")
    exact = np.asarray(model.predict(FRAME, "raw")).ravel()
    explained = run.ok("predict", "--explain=2", "m.fm", "t.csv").splitlines()[1:]
    first = [line.split("\t") for line in explained if line.startswith("1\t")]
    parts = {cells[-3]: 0.0 for cells in first}
    for cells in first:
        parts[cells[-3]] += float(cells[-1])
    assert parts["score"] == pytest.approx(exact[0], rel=1e-5)
    assert parts["base"] + parts["feature"] == pytest.approx(parts["score"], rel=1e-4)
    assert float(model.parameters["bias"][0]) == pytest.approx(parts["base"], rel=1e-5)


def test_an_update_keeps_the_unit_of_its_model(tmp_path):
    first = trained(1e4 + LABEL, epochs=5)
    again = fmcli.train(FRAME.assign(y=1e4 + 5 + LABEL), init_model=first, epochs=0)
    assert again._scorer.labels.unit == first._scorer.labels.unit != LabelUnit()
    np.testing.assert_array_equal(again.predict(FRAME, "raw"), first.predict(FRAME, "raw"))
    later = np.asarray(fmcli.train(FRAME.assign(y=1e4 + 5 + LABEL), init_model=first, epochs=60).predict(FRAME))
    assert np.mean(later) == pytest.approx(np.mean(1e4 + 5 + LABEL), abs=1)
    with pytest.raises(UsageError, match="the parameters of"):
        fmcli.train(FRAME.assign(y=LABEL), init_model=first, scale_labels=False)
    as_they_are = trained(LABEL, scale_labels=False, epochs=5)
    assert fmcli.train(FRAME.assign(y=LABEL), init_model=as_they_are)._scorer.labels.unit == LabelUnit()


def test_a_cache_and_a_stream_have_a_unit(tmp_path):
    many = pd.DataFrame({"user": np.arange(6000) % 7, "y": 1e5 + np.arange(6000) % 4999}).astype({"user": str})
    many.to_csv(tmp_path / "t.csv", index=False)
    run = Commands(tmp_path)
    units = []
    for options in ([], ["--disk", "--cache", "c"], ["--online"]):
        run.ok(
            "train", "-m", "linear", "-e", "1", "--label", "y", "--categorical", "user", "-o", "m", *options, "t.csv"
        )
        units.append(fmcli.load(tmp_path / "m")._scorer.labels.unit)
    assert units[0].center == pytest.approx(many.y.mean())
    assert units[0].scale == pytest.approx(many.y.std(ddof=0))
    for other in units[1:]:
        assert (other.center, other.scale) == pytest.approx((units[0].center, units[0].scale), rel=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_other_labels_are_not_scaled(loss):
    label = (LABEL > 3).astype(float)
    assert trained(label, loss=loss, epochs=1)._scorer.labels.unit == LabelUnit()
    with pytest.raises(UsageError, match=f"scale.labels applies only to .*squared.*huber, not to {loss}"):
        trained(label, loss=loss, scale_labels=True)


def test_without_a_bias_labels_are_not_centered():
    model = trained(LABEL, bias=False, epochs=3, clip=False)
    assert model._scorer.labels.unit.center == 0
    nothing = pd.DataFrame({"user": ["new"], "film": ["new"]})
    assert np.asarray(model.predict(nothing)).ravel().tolist() == [0]


def test_moments_of_parts_are_those_of_all():
    label, weight = 1e9 + SOME.normal(size=(4, 50)), SOME.random((4, 50))
    whole = Moments.of(label.ravel(), weight.ravel())
    parts = Moments()
    for one, other in zip(label, weight, strict=True):
        parts = parts.combined(Moments.of(one, other))
    assert (parts.weight, parts.mean) == pytest.approx((whole.weight, whole.mean), rel=1e-14)
    assert parts.deviation == pytest.approx(whole.deviation, rel=1e-6)
    left, rest = whole.without(Moments.of(label[0], weight[0])), Moments.of(label[1:].ravel(), weight[1:].ravel())
    assert (left.weight, left.mean) == pytest.approx((rest.weight, rest.mean), rel=1e-14)
    assert left.deviation == pytest.approx(rest.deviation, rel=1e-6)
    assert Moments.of(np.full(3, 0.1), None).unit(centered=True) == LabelUnit(0.1, 1.0)
    huge = Moments.of(np.array([1e300, -1e300]), None)
    assert huge.unit(centered=True) == LabelUnit(0.0, 1e300)


def test_labels_of_all_sizes_train(tmp_path):
    for factor in (1e-200, 1e-6, 1e200):
        model = trained(factor * LABEL, epochs=50)
        error = np.asarray(model.predict(FRAME)).ravel() / factor - LABEL
        assert np.std(error) < 0.5 * LABEL.std(), "without a word of divergence"
