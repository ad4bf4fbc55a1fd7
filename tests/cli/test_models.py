"""fmcli models: the registry as a table, and the supported combinations."""

import json
import re

import pytest
from forks import at_the_end

from fmcli.cli import models
from fmcli.registry import catalog
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS


def test_json_is_the_registry(run):
    done = run("models", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)
    for kind, table in (("models", MODELS), ("solvers", SOLVERS), ("losses", LOSSES)):
        assert [piece["name"] for piece in listed[kind]] == list(table)
        for piece in listed[kind]:
            assert set(table[piece["name"]].options) <= set(piece["options"])
    for model in listed["models"]:
        assert model["solver"] == MODELS[model["name"]].solver
        assert (model["solver"] in model["solvers"]) != MODELS[model["name"]].closed_form
    sparse = next(model for model in listed["models"] if model["name"] == "glfm")
    assert sparse["options"]["group_l1"] == 1e-4
    assert "group_l1" in sparse["penalties"]
    assert "l1" not in sparse["penalties"]
    assert "l1_from_epoch" in sparse["penalties"]
    assert not any("it must be" in reason for reason in listed["refused"])  # no combination fails because of a range
    assert any("glfm has only the group penalty" in reason for reason in listed["refused"])
    assert [penalty["flag"] for penalty in listed["penalties"]] == [
        option.flag for name, option in OPTIONS.items() if name in catalog.PENALTIES
    ]


def test_text_has_all_names_in_lines_of_100_columns(run):
    done = run.ok("models")
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 100
    begins = [line.split()[0] for line in lines if line.startswith("  ") and line.split()]
    for name in (*MODELS, *SOLVERS, *LOSSES, *(OPTIONS[name].flag for name in catalog.PENALTIES)):
        assert name in begins


def test_what_is_refused_is_marked(monkeypatch):
    make_spec = catalog.make_spec

    def strict(model, solver=None, loss=None, options=None):
        if (model, solver) == ("fm", "ftrl") or (solver, loss) == ("sgd", "hinge"):
            raise catalog.UsageError(f"{solver} cannot")
        return make_spec(model, solver, loss, options)

    monkeypatch.setattr(catalog, "make_spec", strict)
    listed = catalog.catalog()
    model = next(model for model in listed["models"] if model["name"] == "fm")
    assert model["solvers"] == [name for name in SOLVERS if name != "ftrl"]
    solver = next(solver for solver in listed["solvers"] if solver["name"] == "sgd")
    assert solver["losses"] == [name for name in LOSSES if name not in ("hinge", "ordinal")]
    assert {"ftrl cannot", "sgd cannot"} < set(catalog.refusals(str))
    (row,) = [line for line in models.lines(listed, []) if line.startswith("  fm ")][:1]
    assert row.split()[1 + list(SOLVERS).index("ftrl")] == "-"


def test_a_model_is_described_with_its_defaults_by_solver(run):
    text = run("models", "shfm").stdout.decode()
    assert text.startswith("shfm: Strongly hierarchical FM")
    assert "cd (default)" in text
    assert "--l2-v 15/rows: " in text
    assert "--batch-size" not in text.partition("With ")[0]  # cd has none
    ftrl = " ".join(text.split("With ftrl: ")[1].split("\n\n")[0].split())
    assert {"--init-std 0.05", "--alpha 0.1", "--l1 min(1"} <= set(ftrl.split(", "))
    assert "--rank" not in ftrl  # as with cd
    piece = json.loads(run("models", "--json", "shfm").stdout)
    assert list(piece["defaults"]) == ["cd", *(name for name in SOLVERS if name != "cd")]
    assert piece["defaults"]["cd"]["tol"] == 1e-5
    assert "learning_rate_w" not in piece["defaults"]["sgd"]  # it is --learning-rate
    for name in ("kernel-basis", "ftrl", "huber"):
        assert run("models", name).stdout.decode().startswith(f"{name}: ")
    assert re.search(r"Labels +integers\n", run("models", "ordinal").stdout.decode())
    done = run("models", "ffn")
    assert (done.returncode, "did you mean" in done.stderr) == (2, True)


def test_without_refusals_everything_combines():
    assert list(models.lines(catalog.catalog(), []))[-1].endswith("combine.")


@pytest.mark.parametrize("arguments", [["models"], ["models", "--json"], ["evaluate", "--help"], ["inspect", "--help"]])
def test_commands_without_numerics_do_not_import_numpy(run, arguments):
    assert run(*arguments, before=at_the_end("'numpy' in sys.modules")).stderr.endswith("False\n")
