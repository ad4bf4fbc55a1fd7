"""Warnings about a model whose factors are all 0, or that is no better than a constant prediction."""

import re

import numpy as np
import pytest
from problems import dataset
from test_every_pair import planted

from fmcli.cli.train.advice import advice, factors_are_zero, why_no_better_than_constant
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.trained import compared


def warnings(data, model="fm", solver="sgd", *, loss=None, plan=None, **options):
    trained = job.train(job.plan(data, make_spec(model, solver, loss, options), **(plan or {})))
    comparison = compared(trained, job.summary(trained))
    last = [why_no_better_than_constant(trained, comparison)] if comparison and comparison.no_better else []
    return [*advice(trained), *last]


@pytest.fixture(scope="module")
def halves():
    return planted("fm", "squared")


def test_rows_of_single_features_leave_nothing_to_learn():
    data = dataset([{j % 3: 1.0} for j in range(30)], 3, [1.0, 2, 4] * 10)
    assert any("no row has two features" in found for found in warnings(data, solver="fobos", l1_v=1.0))


def test_no_warning_for_models_without_factors_or_with_nonzero_ones(halves):
    data, test = halves
    for model in ("linear", "fm", "ffm", "llfm", "poly2", "kernel-basis"):
        with_fields = data.changed(field=data.index % 3) if model == "ffm" else data
        solver = None if model == "kernel-basis" else "adagrad"
        assert warnings(with_fields, model, solver) == []
    assert warnings(data, plan={"valid": test}, epochs=0, init_std=0.0) == []
    trained = job.train(job.plan(data, make_spec("fm")))
    assert not factors_are_zero(trained.plan.model)


@pytest.mark.parametrize(
    ("model", "solver", "options", "flags"),
    [
        ("shfm", "cd", {"l1_w": 0.0, "l2_w": 0.0}, "--l1-w and --l2-w have no effect: the model has no linear weights"),
        ("fm", "ftrl", {"linear": False, "alpha_w": 0.1}, "--alpha-w has no effect: the model has no linear weights"),
        ("linear", "adagrad", {"learning_rate_v": 0.1}, "--learning-rate-v has no effect: the model has no factors"),
        ("fm", "adagrad", {"l2_w": 0.0, "l2_v": 0.0}, None),
        ("poly2", "adagrad", {"l2_w": 0.0, "l2_v": 0.0}, None),
        ("kernel-basis", None, {"l2_w": 0.1, "l2_v": 0.1}, None),
    ],
)
def test_warning_about_options_without_effect(halves, model, solver, options, flags):
    assert warnings(halves[0], model, solver, **options) == ([flags] if flags else [])


def test_landmarks_that_lack_most_features_are_said_for_ids_but_not_for_numbers():
    ids = dataset([{j % 50: 1.0, 50 + j % 7: 1.0} for j in range(100)], 57, [float(j % 5) for j in range(100)])
    (found,) = warnings(ids, "kernel-basis", None, rank=5)
    assert re.match(r"the 5 landmarks have \d+ of the 57 features; the other features, \d\d% of the entries", found)
    assert warnings(ids, "kernel-basis", None, rank=100) == []


def test_warning_about_a_model_no_better_than_a_constant(halves):
    _, test = halves
    noise = test.changed(label=np.random.default_rng(0).permutation(test.label))
    few = noise.take(np.arange(40))
    (found,) = warnings(few, "linear", "cd", plan={"valid": noise, "metrics": ("rmse",)}, l2=0.0)
    assert found.startswith("rmse is ")
    assert "on the validation data, worse than the best constant (" in found
    assert "it overfits; try a stronger penalty (--l2 1)" in found
    small = {"learning_rate": 1e-30, "epochs": 2}
    data, test = (rows.changed(label=np.arange(rows.rows) % 4.0) for rows in halves)  # the mean is exact as a float
    (found,) = warnings(data, "linear", plan={"valid": test, "metrics": ("rmse",)}, **small)
    assert found.endswith("the same holds on the training rows; the steps are too small: try --learning-rate 0.01")


def test_each_metric_is_compared_with_the_constant(halves):
    data, test = halves
    trained = job.train(job.plan(data, make_spec("linear"), valid=test, metrics=("rmse", "sparsity")))
    figures = job.summary(trained)
    assert figures["valid"].keys() == {"rmse", "sparsity"}
    constant = np.sqrt(np.mean((test.label - data.label.mean()) ** 2))
    assert figures["valid_constant"] == pytest.approx({"rmse": constant})
    without = job.train(job.plan(data, make_spec("linear")))
    assert job.summary(without)["valid_constant"] == {}


def test_warning_about_a_model_worse_than_a_constant_on_training_rows():
    data = dataset([{0: 1.0}] * 40, 1, [1.0, 3.0] * 20)
    (found,) = warnings(data, "linear", learning_rate=1.5, bias=False, loss="squared")
    assert found.startswith("rmse is ")
    assert found.endswith(", worse than the best constant (1.000); the steps are too large: try --learning-rate 0.15")
    assert (
        warnings(data, "linear", plan={"stream": True}, learning_rate=1.5, bias=False, epochs=1, loss="squared") == []
    )
    assert warnings(data, "linear", learning_rate=0.01, loss="squared") == []
