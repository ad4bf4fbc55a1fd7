"""The recipes of CONTRIBUTING.md, tested with real components (toys): with its registry entry and its slow definition
alone, a component can be trained, saved, loaded, listed and tested."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import test_losses
import test_models
import test_reference_prox
import test_solvers
import toys
from forks import Forks
from problems import ROW_SOLVERS

from reference import slow_losses, slow_solvers
from reference.kinds import KINDS, linear
from reference.slow_penalties import GROUPS

ROOT = Path(__file__).resolve().parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^## How to add a (\w+)\n(.*?)(?=^## )", CONTRIBUTING, re.M | re.S))
# The test modules that cover all registered models, losses or solvers and need only their definitions.
SHARED = (
    *("models", "penalties", "solvers", "descent", "every_pair", "exported", "interactions", "minima", "losses"),
    *("metrics", "core_arguments", "modelcheck", "inspection", "settings", "divergence", "l1_from_epoch", "defaults"),
    *("reference_models", "reference_solvers", "reference_losses", "explanations", "recommending", "similar"),
)

PATIENCE = 60  # seconds for a command
LEAST_CASES = 80  # minimum number of test cases that toys.plugin selects


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder of the compiled toys."""
    folder = tmp_path_factory.mktemp("toys")
    toys.compile_pieces(folder)
    return folder


@pytest.fixture(scope="module")
def environment(compiled):
    """The environment variables with which a subprocess can import the toys."""
    path = [os.environ["PYTHONPATH"], str(ROOT / "tests"), str(compiled)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


@pytest.fixture(scope="module")
def forks(environment):
    forks = Forks(environment, PATIENCE, before="import toys; toys.register()")
    yield forks
    forks.close()


@pytest.fixture
def fmcli(forks, tmp_path):
    """A function that runs a command with the toys in an empty folder."""

    def ran(*arguments, **variables):
        done = forks.run(arguments, tmp_path, variables=variables)
        assert done.returncode == 0, done.stderr
        done.stdout = done.stdout.decode()
        return done

    return ran


@pytest.fixture
def registered(compiled, monkeypatch):
    monkeypatch.syspath_prepend(compiled)
    for table, name, line in toys.LINES:
        monkeypatch.setitem(table, name, line)


def test_all_shared_tests_take_the_toys(environment):
    """A component that only follows the recipe is covered by every shared test of its kind, and passes them."""
    files = [str(ROOT / "tests" / f"test_{name}.py") for name in SHARED]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "toys.plugin", "-p", "no:cacheprovider", "-n", "0", *files]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= LEAST_CASES


WRONG = {
    "model": lambda: test_models.check_scores(toys.MODEL.name, {"rank": 3}, False, 1),
    "loss": lambda: test_losses.test_value_and_slope(toys.LOSS.name, {}),
    "solver": lambda: test_solvers.test_steps("fm", toys.SOLVER.name, "squared", "none"),
}


@pytest.mark.parametrize("sort", WRONG)
def test_a_wrong_definition_is_found(registered, monkeypatch, sort):
    monkeypatch.setitem(ROW_SOLVERS, toys.SOLVER.name, toys.SOLVER)
    monkeypatch.setitem(KINDS, toys.MODEL.name, replace(toys.KIND, score=linear))
    monkeypatch.setitem(slow_losses.LOSSES, toys.LOSS.name, slow_losses.huber)
    monkeypatch.setitem(slow_solvers.UPDATES, toys.SOLVER.name, slow_solvers.sgd)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        WRONG[sort]()


@pytest.mark.parametrize(("model", "penalty"), [("fm", "group"), ("shfm", "group-only"), ("ffm", "group-only")])
def test_a_group_penalty(registered, monkeypatch, model, penalty):
    """A solver compiled with another list of group penalties agrees with the definition of the last one in the list."""
    monkeypatch.setitem(ROW_SOLVERS, toys.SOLVER.name, toys.BY_LARGEST)
    monkeypatch.setitem(GROUPS, "group_l1", toys.LARGEST)
    test_solvers.test_steps(model, toys.SOLVER.name, "squared", penalty)


def test_the_prox_of_a_group_penalty(monkeypatch, rng):
    monkeypatch.setitem(GROUPS, "toy", toys.LARGEST)
    test_reference_prox.test_prox_of_a_row_against_a_search("toy", rng)


def test_the_command_line_has_the_toys(fmcli, tmp_path):
    lines = (ROOT / "sample_data" / "adult.train.ffm").read_text().splitlines()[:300]
    (tmp_path / "t").write_text("\n".join(lines) + "\n")
    names = {"-m": toys.MODEL, "-s": toys.SOLVER, "--loss": toys.LOSS}
    chosen = [word for flag, piece in names.items() for word in (flag, piece.name)]
    log = fmcli("train", *chosen, "-k", "3", "-r", "1e-3", "-v", "t", "--log-json", "log", "-o", "m", "t").stderr
    assert f"\nmodel {toys.MODEL.name}, solver {toys.SOLVER.name}, " in log
    summary = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert summary["train"] == summary["valid"]
    assert list(summary["train"]) == ["rmse", "mae"]
    predicted = np.array(fmcli("predict", "m", "t").stdout.split(), float)
    labels = np.array([float(line.split()[0]) for line in lines])
    assert np.sqrt(((predicted - labels) ** 2).mean()) == pytest.approx(summary["train"]["rmse"], rel=1e-5)
    assert toys.MODEL.name in fmcli("inspect", "m").stdout
    helps, listed = fmcli("train", "--help-all").stdout, fmcli("models").stdout
    for piece in names.values():
        assert re.search(rf"^  {piece.name} +{re.escape(piece.help)}$", helps, re.M)
        assert piece.help in listed
    asked = {"_FMCLI_COMPLETE": "bash_complete", "COMP_WORDS": "fmcli train -m toy", "COMP_CWORD": "3"}
    assert fmcli(**asked).stdout == f"plain,{toys.MODEL.name}\n"


def test_a_loss_with_a_link_of_its_own(fmcli, tmp_path):
    """Its probabilities, labels, metrics and means over an ensemble follow from the link that it names."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    label = np.where(rng.random(400) < -np.expm1(-np.exp(x.sum(axis=1) - 0.5)), 1, -1)
    rows = [f"{y} " + " ".join(f"{j}:{v:.4f}" for j, v in enumerate(row)) for y, row in zip(label, x, strict=True)]
    (tmp_path / "t").write_text("\n".join(rows) + "\n")
    log = fmcli("train", "--verbose", "--loss", toys.LINKED.name, "-m", "linear", "-e", "50", "-o", "m", "t").stderr
    raw, prob, chosen = (
        np.array(fmcli("predict", "--output-type", output, "m", "t").stdout.split(), float)
        for output in ("raw", "prob", "label")
    )
    assert prob == pytest.approx(1 - np.exp(-np.exp(raw)), rel=1e-5)
    assert (chosen == np.where(prob > 0.5, 1, -1)).all()
    assert ((raw < 0) & (chosen > 0)).any()
    logloss = -np.log(np.where(label > 0, prob, 1 - prob)).mean()
    assert float(re.search(r"train-logloss +(\S+)", log)[1]) == pytest.approx(logloss, rel=1e-3)
    assert logloss < 0.8 * -np.mean([np.log(np.mean(label == y)) for y in label])
    fmcli("train", "--loss", toys.LINKED.name, "--init-std", "1", "--ensemble", "2", "-e", "1", "-o", "two", "t")
    mean = np.array(fmcli("predict", "two", "t").stdout.split(), float)
    each = []
    for seed in "01":
        fmcli("train", "--loss", toys.LINKED.name, "--init-std", "1", "--seed", seed, "-e", "1", "-o", "one", "t")
        each.append(np.array(fmcli("predict", "one", "t").stdout.split(), float))
    assert np.ptp(each, axis=0).max() > 0.01
    assert mean == pytest.approx(np.mean(each, axis=0), abs=1e-5)


@pytest.mark.parametrize("kind", ["model", "loss", "penalty", "solver"])
def test_recipes_name_existing_files_and_identifiers(kind):
    """Every identifier that follows a file in a step occurs in that file. Each recipe names at least four of them."""
    found = 0
    for step in re.split(r"^\d+\. ", RECIPES[kind], flags=re.M)[1:]:
        place = None
        for word in re.findall(r"`([^`]+)`", step.split("\n\n")[0]):
            if "/" in word and not word.startswith(("[[", "build/")):  # that folder is made by the build
                assert (ROOT / word).exists(), word
                place = ROOT / word
            elif place and re.fullmatch(r"(cdef class )?\w+", word) and place.is_file():
                assert re.search(rf"\b{word}\b", place.read_text()), f"{word} in {place}"
                found += 1
    assert found >= 4


def test_the_tutorial_has_the_penalty_of_the_toys():
    text = (ROOT / "tests" / "toys" / "TUTORIAL.md").read_text()
    header, *_ = re.findall(r"^```cpp\n(.*?)^```", text, re.M | re.S)
    assert header in (ROOT / "tests" / "toys" / "group_max.h").read_text()
    toys_source = (ROOT / "tests" / "toys" / "__init__.py").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert next(code for code in blocks if "def largest" in code).split("\n\n\nGROUPS")[0] in toys_source


def test_the_tutorial_imports_what_there_is():
    text = (ROOT / "tests" / "toys" / "TUTORIAL.md").read_text()
    code = "".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    lines = re.findall(r"^(?:from|import) .+$", code, re.M)
    assert any("drawing" in line for line in lines)
    for line in lines:
        exec(line, {})
