"""Soft labels: --loss logistic with labels from 0 to 1."""

import json

import numpy as np
import pytest


@pytest.fixture
def files(tmp_path):
    """Clicks of 40 rows for each of 5 features, as single rows (hard) and as their mean (soft), which has weight 40."""
    clicks = [3, 10, 20, 33, 39]
    hard = [f"{int(row < count)} {j}:1" for j, count in enumerate(clicks) for row in range(40)]
    (tmp_path / "hard").write_text("\n".join(hard))
    (tmp_path / "soft").write_text("".join(f"{count / 40} {j}:1\n" for j, count in enumerate(clicks)))
    return tmp_path


def trained(run, tmp_path, name, *options):
    done = run.ok("train", "--loss", "logistic", "-e", "60", "--log-json", "log", "-o", "m", *options, name)
    return json.loads((tmp_path / "log").read_text().splitlines()[-1]), done.stderr


@pytest.mark.parametrize("solver", ["lbfgs", "cd"])
def test_shares_are_learned_like_the_rows_that_they_stand_for(run, files, solver):
    options = ["-m", "linear", "-s", solver, "--l2", "0.001", "--holdout", "0"]
    hard, _ = trained(run, files, "hard", *options)
    probabilities = np.array(run("predict", "m", "soft").stdout.split(), float)
    soft, log = trained(run, files, "soft", *options)
    assert "; loss soft-logistic: from --loss\n" in log
    found = np.array(run("predict", "m", "soft").stdout.split(), float)
    np.testing.assert_allclose(found, probabilities, atol=0.02)
    assert soft["train"]["logloss"] == pytest.approx(hard["train"]["logloss"], abs=2e-3)
    assert list(soft["train"]) == ["logloss", "rmse"]
    assert np.ptp(found) > 0.7
    evaluated = json.loads(run("evaluate", "--json", "m", "soft").stdout)["metrics"]
    assert evaluated["logloss"] == pytest.approx(soft["train"]["logloss"])


def test_models_of_soft_labels(run, files):
    trained(run, files, "soft")
    run.ok("train", "-e", "2", "-i", "m", "-o", "n", "soft")
    run.ok("train", "--loss", "logistic", "-e", "2", "-i", "m", "-o", "n", "soft")
    assert run("predict", "--sign", "m", "soft").stdout == run("predict", "m", "soft").stdout
    (files / "p").write_bytes(run("predict", "m", "soft").stdout)
    done = run("evaluate", "--json", "--predictions", "p", "--loss", "soft-logistic", "soft")
    figures = json.loads(run("evaluate", "--json", "m", "soft").stdout)["metrics"]
    assert json.loads(done.stdout)["metrics"] == pytest.approx(
        {name: figures[name] for name in ("logloss", "rmse", "mae", "r2")}
    )


@pytest.mark.parametrize(
    ("options", "rows", "status", "message"),
    [
        (
            ["-x", "auc", "--loss", "soft-logistic"],
            "0.5 1:1\n0.2 2:1\n1 3:1\n",
            2,
            "auc does not fit loss soft-logistic",
        ),
        (["-x", "auc", "--loss", "logistic"], "0.5 1:1\n0.2 2:1\n1 3:1\n", 2, "auc does not fit loss soft-logistic"),
        (["--loss", "logistic"], "0.5 1:1\n0.2 2:1\n1.5 3:1\n", 65, "needs labels with two values"),
        (["--loss", "soft-logistic"], "0.5 1:1\n-0.2 2:1\n1 3:1\n", 65, "takes labels from 0 to 1, but a label is"),
        ([], "0.5 1:1\n0.2 2:1\n1 3:1\n", 0, "loss squared: "),
        (["--loss", "logistic"], "0.5 1:1\n0.2 2:1\n", 0, "loss logistic: from --loss"),
    ],
)
def test_labels(run, tmp_path, options, rows, status, message):
    (tmp_path / "t").write_text(rows)
    done = run("train", "-e", "1", "-o", "m", *options, "t")
    assert done.returncode == status, done.stderr
    assert message in done.stderr
