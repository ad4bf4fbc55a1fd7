"""The recipes of CONTRIBUTING.md, followed with a toy piece each: its line in the registry and its slow definition are
enough to have it trained, saved, listed, loaded and tested."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import test_every_pair
import test_losses
import test_metrics
import test_models
import test_penalties
import test_solvers
import toys
from problems import ROW_SOLVERS, TRAINED

from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.solvers import SOLVERS
from reference import slow_losses, slow_solvers
from reference.kinds import KINDS

ROOT = Path(__file__).resolve().parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^## How to add a (\w+)\n(.*?)(?=^## )", CONTRIBUTING, re.M | re.S))


@pytest.fixture
def toy_model(monkeypatch):
    monkeypatch.setitem(MODELS, toys.MODEL.name, toys.MODEL)
    monkeypatch.setitem(KINDS, toys.MODEL.name, toys.KIND)
    return toys.MODEL.name


@pytest.fixture
def toy_loss(monkeypatch):
    name, constants = toys.LOSS.name, slow_losses.best_constants
    monkeypatch.setitem(LOSSES, name, toys.LOSS)
    monkeypatch.setitem(slow_losses.LOSSES, name, partial(slow_losses.huber, delta=toys.DELTA))
    monkeypatch.setitem(slow_losses.SMOOTHNESS, name, 1.0)

    def best_constants(asked, labels, weights=None, outputs=1, delta=1.0):
        if asked == name:
            asked, delta = "huber", toys.DELTA
        return constants(asked, labels, weights, outputs, delta)

    monkeypatch.setattr(slow_losses, "best_constants", best_constants)
    return name


@pytest.fixture
def toy_solver(monkeypatch):
    def eager(r, g, t, o):
        faster = replace(r, rate=toys.FASTER * r.rate)
        slow_solvers.sgd(faster, g, t, o)
        r.phi = faster.phi

    for table in (SOLVERS, ROW_SOLVERS):
        monkeypatch.setitem(table, toys.SOLVER.name, toys.SOLVER)
    monkeypatch.setitem(slow_solvers.UPDATES, toys.SOLVER.name, eager)
    return toys.SOLVER.name


# ---- What the registry's tests say to the toys. ----


@pytest.mark.parametrize("rank", [3, 8])
@pytest.mark.parametrize("bias", [True, False])
def test_a_model(toy_model, rank, bias):
    options = {"rank": rank, "bias": bias}
    for outputs in (1, 3):
        test_models.test_scores(toy_model, options, False, outputs)
    test_models.test_gradient_is_that_of_the_definition(toy_model, options)
    test_models.test_gradient_by_central_differences(toy_model, options)
    test_models.test_mapped_parameters_score_the_same_bits(toy_model, options)


def test_a_model_among_all_pieces(toy_model, tmp_path):
    test_models.test_start_values(toy_model)
    for only in (*test_penalties.STRENGTHS, None):
        test_penalties.test_value(toy_model, only)
    for solver in SOLVERS:
        for penalty in test_solvers.PENALTIES if solver in ROW_SOLVERS else ():
            test_solvers.test_steps(toy_model, solver, "logistic", penalty)
        test_every_pair.test_planted_data(toy_model, solver, "squared")
        test_every_pair.test_save_load_predict(toy_model, solver, "softmax", tmp_path)
        test_every_pair.test_cold_features_are_zero_and_no_epochs_give_start_values(toy_model, solver)


def test_a_compiled_model(monkeypatch, tmp_path):
    """The example that the recipe names."""
    monkeypatch.setitem(MODELS, "stub", ModelEntry("stub", "An example.", "fmcli.models.stub:Stub", ("rank",)))
    for solver in SOLVERS:
        if solver in ROW_SOLVERS:
            test_solvers.test_steps("stub", solver, "squared", "by-part")
        test_every_pair.test_save_load_predict("stub", solver, "squared", tmp_path)


def test_a_wrong_definition_of_a_model_is_found(toy_model, monkeypatch):
    monkeypatch.setitem(KINDS, toy_model, KINDS["fm"])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_models.test_scores(toy_model, {"rank": 3}, False, 1)


def test_a_loss(toy_loss, tmp_path):
    test_losses.test_value_and_slope(toy_loss, {})
    test_losses.test_slope_and_smoothness_by_central_differences(toy_loss, {})
    test_losses.test_smoothness_is_no_less_than_the_largest_curvature(toy_loss)
    for weighted in (False, True):
        test_losses.test_the_best_constant(toy_loss, {}, weighted)
    test_metrics.test_defaults_fit(toy_loss)
    for solver in SOLVERS:
        if solver in ROW_SOLVERS:
            test_solvers.test_steps("fm", solver, toy_loss, "both")
        test_every_pair.test_planted_data("fm", solver, toy_loss)
        test_every_pair.test_save_load_predict("fm", solver, toy_loss, tmp_path)


def test_a_wrong_definition_of_a_loss_is_found(toy_loss, monkeypatch):
    monkeypatch.setitem(slow_losses.LOSSES, toy_loss, slow_losses.huber)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_losses.test_value_and_slope(toy_loss, {})


def test_a_solver(toy_solver, tmp_path):
    for model in TRAINED:
        for penalty in test_solvers.PENALTIES:
            test_solvers.test_steps(model, toy_solver, "squared", penalty)
        test_every_pair.test_save_load_predict(model, toy_solver, "squared", tmp_path)
    for batch_size in (1, 4):
        test_solvers.test_the_hard_cases(toy_solver, batch_size)
    test_every_pair.test_planted_data("fm", toy_solver, "logistic")


def test_a_wrong_definition_of_a_solver_is_found(toy_solver, monkeypatch):
    monkeypatch.setitem(slow_solvers.UPDATES, toy_solver, slow_solvers.sgd)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_solvers.test_steps("fm", toy_solver, "squared", "none")


# ---- The command line has them. ----


@pytest.fixture
def fmcli(tmp_path):
    """The command with the toys in its registry."""

    def run(*arguments, **environ):
        start = "import toys; toys.register(); from fmcli.cli import main; main()"
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(ROOT / "tests")])
        return subprocess.run(
            [sys.executable, "-c", start, *arguments],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": path} | environ, capture_output=True, text=True, timeout=60,
            check=True,
        )  # fmt: skip

    return run


def test_the_command_line_has_the_toys(fmcli, tmp_path):
    shutil.copy(ROOT / "sample_data" / "diabetes.train.libsvm", tmp_path / "t")
    names = {"-m": toys.MODEL, "-s": toys.SOLVER, "--loss": toys.LOSS}
    chosen = [word for flag, piece in names.items() for word in (flag, piece.name)]
    log = fmcli("train", *chosen, "-k", "3", "-r", "1e-4", "-v", "t", "--log-json", "log", "-o", "m", "t").stderr
    assert f"\nmodel {toys.MODEL.name}, solver {toys.SOLVER.name}, " in log
    summary = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert summary["train"] == summary["valid"]
    assert list(summary["train"]) == ["rmse", "mae"]
    predicted = np.array(fmcli("predict", "m", "t").stdout.split(), float)
    labels = np.array([float(line.split()[0]) for line in (tmp_path / "t").read_text().splitlines()])
    assert np.sqrt(((predicted - labels) ** 2).mean()) == pytest.approx(summary["train"]["rmse"], rel=1e-5)
    assert toys.MODEL.name in fmcli("inspect", "m").stdout
    helps, listed = fmcli("train", "--help").stdout, fmcli("models").stdout
    for flag, piece in names.items():
        assert re.search(rf"^  {piece.name} +{re.escape(piece.help)}$", helps, re.M)
        assert piece.help in listed
        asked = {"_FMCLI_COMPLETE": "bash_complete", "COMP_WORDS": f"fmcli train {flag} toy", "COMP_CWORD": "3"}
        assert fmcli(**asked).stdout == f"plain,{piece.name}\n"


# ---- The places that the recipes name. ----


@pytest.mark.parametrize("kind", ["model", "loss", "penalty", "solver"])
def test_the_places_are_there(kind):
    """Every name that follows a file in a step is in that file, and each of the piece's own places is named."""
    found = 0
    for step in re.split(r"^\d+\. ", RECIPES[kind], flags=re.M)[1:]:
        place = None
        for word in re.findall(r"`([^`]+)`", step.split("\n\n")[0]):
            if "/" in word and not word.startswith("[["):
                assert (ROOT / word).exists(), word
                place = ROOT / word
            elif place and re.fullmatch(r"(cdef class )?\w+", word) and place.is_file():
                assert re.search(rf"\b{word}\b", place.read_text()), f"{word} in {place}"
                found += 1
    assert found >= 4
