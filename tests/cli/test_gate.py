"""fmcli evaluate --no-worse-than: a model beside the one in use."""

import json
import os
import re
import subprocess

import pytest

from fmcli.text import figure


@pytest.fixture(scope="module")
def models(tmp_path_factory, forks, sample):
    """Two models of the sample: one of all rows, and a worse one of a few rows with noise."""
    folder = tmp_path_factory.mktemp("models")
    rows = (sample / "adult.train.libsvm").read_text().splitlines()
    noisy = [f"{(-1) ** number} {row.split(' ', 1)[1]}" if number % 3 else row for number, row in enumerate(rows)]
    (folder / "few").write_text("\n".join(noisy))
    usual = ["train", "-q", "--no-quick-search"]
    forks.run([*usual, "-o", "good.fm", sample / "adult.train.libsvm"], folder).check_returncode()
    forks.run([*usual, "-o", "poor.fm", "-m", "linear", "-s", "cd", "few"], folder).check_returncode()
    return folder / "good.fm", folder / "poor.fm"


def test_a_worse_model_is_refused_and_a_better_one_is_not(run, sample, models):
    (good, poor), rows = models, sample / "adult.test.libsvm"
    compared = ("evaluate", "-x", "auc", "-x", "logloss", "--no-worse-than", good, poor, rows)
    done = run.fails(1, *compared)
    said = json.loads(run(*compared, "--json").stdout)["compared"]
    figures = dict(line.split() for line in done.stdout.decode().partition("Compared with ")[2].splitlines()[1:])
    assert list(figures) == ["metric", "value", "current", "difference", "standard-error"]
    assert figures["metric"] == "auc"
    value, current, difference, error = (said[name.replace("-", "_")] for name in list(figures)[1:])
    assert value - current == pytest.approx(difference, rel=1e-3)
    assert difference < -2 * error < 0
    auc = f"auc is {figure(value)} instead of {figure(current)}"
    assert done.stderr.splitlines()[-1] == (
        f"fmcli: error: worse than {good}: {auc}, worse by {-difference:.3g}: "
        f"more than 0, and more than 2 standard errors of {error:.3g}"
    )
    for first, second, by, status in (
        (poor, good, f"{-difference - 1e-3:.6f}", 1),
        (poor, good, f"{-difference + 1e-3:.6f}", 0),
        (good, poor, "0", 0),
        (good, good, "0", 0),
    ):
        done = run("evaluate", "-q", "--json", "-x", "auc", "--by", by, "--no-worse-than", second, first, rows)
        assert done.returncode == status, done.stderr
        compared = json.loads(done.stdout)["compared"]
        assert (compared["model"], compared["worse"]) == (str(second), bool(status))


def test_without_a_metric_the_default_of_the_loss_decides(run, sample, models):
    good, poor = models
    compare = ["evaluate", "--json", "--no-worse-than", good, poor, sample / "adult.test.libsvm"]
    done = run(*compare)
    assert json.loads(done.stdout)["compared"]["metric"] == "logloss"
    assert done.stdout == run(*compare, "-j", "1").stdout


def test_classes_and_groups(run, tmp_path):
    rows = [f"{(user + item) % 3} qid:{user} {user}:1 {30 + item}:1" for user in range(25) for item in range(6)]
    (tmp_path / "rows").write_text("\n".join(rows))
    for loss, metric in (("softmax", "logloss"), ("softmax", "macro-f1"), ("squared", "ndcg@3")):
        for name, epochs in (("good", "30"), ("poor", "1")):
            run("train", "-q", "-e", epochs, "-r", "0.5", "--loss", loss, "-o", name, "rows").check_returncode()
        done = run.fails(1, "evaluate", "-q", "-x", metric, "--no-worse-than", "good", "poor", "rows")
        assert f"{metric} is 0" in done.stderr or f"{metric} is 1" in done.stderr
        run.ok("evaluate", "-q", "-x", metric, "--no-worse-than", "poor", "good", "rows")
    (tmp_path / "alone").write_text("\n".join(row.replace(f"qid:{row.split()[1][4:]} ", "") for row in rows))
    done = run.fails(65, "evaluate", "-q", "-x", "ndcg", "--no-worse-than", "good", "poor", "alone")


def test_an_undefined_metric_is_worse(run, tmp_path, models):
    good, poor = models
    (tmp_path / "one").write_text("-1 1:1\n-1 2:1\n")
    done = run("evaluate", "-x", "auc", "--no-worse-than", good, poor, "one")
    assert (done.returncode, "auc is undefined on these rows" in done.stderr) == (1, True)
    (tmp_path / "single").write_text("-1 1:1\n")
    for first, second in ((good, poor), (poor, good)):
        done = run("evaluate", "-x", "logloss", "--no-worse-than", second, first, "single")
        assert ("standard error that is undefined" in done.stderr) == (done.returncode == 1)


def test_skipped_lines_are_reported_once(run, tmp_path, sample, models):
    model, skip = models[0], ["--on-bad-line", "skip"]
    text = (sample / "adult.test.libsvm").read_text().splitlines()
    (tmp_path / "bad").write_text("\n".join([*text[:300], "1 1:x", *text[300:600]]))
    done = run("evaluate", "--json", "-x", "auc", *skip, "--no-worse-than", model, model, "bad")
    assert (done.returncode, done.stderr.count("bad:301")) == (0, 1), done.stderr
    assert json.loads(done.stdout)["bad_lines"] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--by", "0.1", "GOOD", "ROWS"], 2, "--by needs --no-worse-than"),
        (["--no-worse-than", "GOOD", "--by", "-1", "GOOD", "ROWS"], 2, "'-1' is not a number of at least 0"),
        (["--no-worse-than", "GOOD", "--by", "nan", "GOOD", "ROWS"], 2, "'nan' is not a number of at least 0"),
        (["--no-worse-than", "GOOD", "--predictions", "ROWS", "ROWS"], 2, "and --predictions cannot be"),
        (["--no-worse-than", "GOOD", "--cluster", "local:1", "GOOD", "ROWS"], 2, "two models on this machine"),
        (["--no-worse-than", "GOOD", "GOOD", "-"], 2, "rows twice, but standard input can be read only once"),
        (["--no-worse-than", "GOOD", "GOOD", "pipe"], 2, "rows twice, but pipe can be read only once"),
        (["--no-worse-than", "none", "GOOD", "ROWS"], 66, "cannot read none"),
        (["--no-worse-than", "ROWS", "GOOD", "ROWS"], 65, "not an fmcli model"),
        (["--no-worse-than", "NUMBERS", "GOOD", "ROWS"], 2, "labels differ: -1, 1 (loss logistic), and numbers ("),
        (["--no-worse-than", "GOOD", "-x", "loss", "GOOD", "ROWS"], 2, "metric loss depends on how a model"),
        (["--no-worse-than", "GOOD", "-x", "rmse", "GOOD", "ROWS"], 2, "metric rmse does not fit loss logistic"),
    ],
)  # fmt: skip
def test_choices_that_do_not_fit(run, tmp_path, sample, models, diabetes_model, arguments, status, message):
    places = {"GOOD": models[0], "ROWS": sample / "adult.test.libsvm", "NUMBERS": diabetes_model}
    os.mkfifo(tmp_path / "pipe")
    done = run("evaluate", *(places.get(one, one) for one in arguments))
    assert (done.returncode, done.stdout) == (status, b""), done.stderr
    assert message in done.stderr


def test_the_models_may_have_other_features_and_names(run, tmp_path):
    for name, ids in (("old", "abc"), ("new", "abcd")):
        rows = [f"{'yes' if (i * 7) % 5 < 2 else 'no'} {ids[i % len(ids)]}=1:1 n:{i % 5}" for i in range(200)]
        (tmp_path / name).write_text("\n".join(rows))
        run("train", "-q", "-o", f"{name}.fm", name).check_returncode()
    run.ok("evaluate", "-q", "--no-worse-than", "old.fm", "new.fm", "new", stdin=subprocess.DEVNULL)
    (tmp_path / "other").write_text((tmp_path / "old").read_text().replace("no", "maybe"))
    run("train", "-q", "-o", "other.fm", "other").check_returncode()
    done = run.fails(2, "evaluate", "-q", "--no-worse-than", "other.fm", "new.fm", "new")
    assert re.search(r"labels differ: no, yes \(loss logistic\), and maybe, yes", done.stderr), done.stderr
