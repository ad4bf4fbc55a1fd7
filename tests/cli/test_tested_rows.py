"""train --test: rows that are predicted by the mean over all sweeps; the model keeps only some of the sweeps."""

import json
import os
import re

import numpy as np
import pytest
from inprocess import instead

from fmcli.model_file.container import CHECKPOINT, ModelFile, load, save

LOSSES = ("squared", "probit", "ordinal")
# Sweeps; all sweeps after the burn-in are averaged.
SWEEPS = ("-s", "mcmc", "-k", "2", "-e", "9", "--burn-in", "3")


def write(path, rows, seed, loss, labeled=True):
    rng = np.random.default_rng(seed)
    lines = []
    for user, film in rng.integers([9, 7], size=(rows, 2)):
        score = np.sin(3.0 * user) + np.cos(5.0 * film) + np.sin(1.0 * user * film) + 0.5 * rng.normal()
        label = {"squared": f"{score:.3f}", "probit": "1" if score > 0 else "-1", "ordinal": str(int(score > 0))}
        if loss == "ordinal":
            label["ordinal"] = str(1 + int(score > -1) + int(score > 1))
        lines.append(f"{label[loss]} " * labeled + f"{user}:1 {9 + film}:0.5\n")
    path.write_text("".join(lines))


@pytest.fixture(params=LOSSES)
def loss(request, tmp_path):
    """The name of a loss, with files for it."""
    name = request.param
    write(tmp_path / "rows", 200, 0, name)
    write(tmp_path / "some", 50, 1, name)
    write(tmp_path / "bare", 50, 1, name, labeled=False)
    return name


@pytest.fixture
def train(run, tmp_path):
    def trained(*options, status=0, model="m"):
        done = run("train", *instead(SWEEPS, *options), "-o", model, "--log-json", "log", "rows")
        assert done.returncode == status, done.stderr
        return json.loads((tmp_path / "log").read_text().splitlines()[-1]) if status == 0 else done.stderr

    return trained


def test_the_mean_is_that_of_all_draws(run, train, loss, tmp_path):
    train("--loss", loss, "--draws", "6", model="all")
    summary = train("--loss", loss, "--draws", "1", "--test", "some", "--test-output", "out")
    wanted = run("predict", "all", "some")
    assert wanted.returncode == 0
    assert (tmp_path / "out").read_bytes() == wanted.stdout
    assert len(set(wanted.stdout.split())) > 20
    assert run("predict", "m", "some").stdout != wanted.stdout
    measured = json.loads(run("evaluate", "--json", "all", "some").stdout)
    measured = measured.get("metrics", measured)
    assert summary["test_rows"] == 50
    assert len(summary["test"]) > 0
    for name, value in summary["test"].items():
        assert value == pytest.approx(measured[name], rel=1e-12), name


def test_labels_may_be_missing(run, train, loss, tmp_path):
    full = train("--loss", loss, "--test", "some", "--test-output", "out")
    bare = train("--loss", loss, "--test", "bare", "--test-output", "-", model="other")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "other").read_bytes(), "the model does not depend on them"
    assert full["test"]
    assert not bare["test"]
    done = run("train", *SWEEPS, "--loss", loss, "--test", "bare", "--test-output", "-", "-o", "m", "rows")
    assert done.stdout == (tmp_path / "out").read_bytes()
    assert "--test: 0 of 50 rows have a label that the model knows" in done.stderr


def test_some_labels(train, loss, tmp_path):
    """Metrics count the rows with a known label; blank lines, comments and cold features are as in predict."""
    lines = (tmp_path / "some").read_text().splitlines(keepends=True)
    bare = [line.partition(" ")[2] for line in lines]
    known = train("--loss", loss, "--test", "some", "--test-output", "out")["test"]
    extra = ["# a comment\n", *lines, "\n", *bare[:3], "3:1 700:2\n", *(["7 3:1\n"] if loss != "squared" else [])]
    (tmp_path / "mixed").write_text("".join(extra))
    found = train("--loss", loss, "--test", "mixed", "--test-output", "out2")
    assert found["test"] == known
    lines, out = (tmp_path / "out").read_text().splitlines(), (tmp_path / "out2").read_text().splitlines()
    assert len(out) == found["test_rows"] == len(extra) - 1
    assert out[:50] == lines
    assert out[51:54] == lines[:3]


def test_a_continued_run_continues_the_sums(run, train, loss, tmp_path):
    options = ("--loss", loss, "--burn-in", "0", "--draws", "2", "--test", "some")
    whole = train(*options, "--test-output", "out", model="whole")
    checkpoint = ("--checkpoint", "c", "--checkpoint-every", "1e-9")
    train(*options, "--test-output", "first", *checkpoint, "--max-seconds", "1e-9")
    assert (tmp_path / "first").read_bytes() != (tmp_path / "out").read_bytes()
    assert "the test rows have changed" in train(*options[:-1], "bare", *checkpoint, "--resume", status=65)
    assert "the test rows have changed" in train(*options[:-2], *checkpoint, "--resume", status=65)
    assert train(*options, "--test-output", "second", *checkpoint, "--resume")["test"] == whole["test"]
    assert (tmp_path / "second").read_bytes() == (tmp_path / "out").read_bytes()
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_checkpoint_with_forged_sums_is_refused(train, squared):
    options = ("--burn-in", "0", "--draws", "2", "--test", "some", "--checkpoint", "c", "--checkpoint-every", "1e-9")
    train(*options, "--max-seconds", "1e-9")
    file = load(str(squared / "c"), kind=CHECKPOINT)
    (name,) = [name for name in file.tensors if "tested.total" in name]
    assert file.tensors[name].shape == (50, 1)
    for forged in ({name: file.tensors[name][:-1]}, {name.replace("total.0", "count"): np.array(7)}, {"more": name}):
        tensors = {**file.tensors, **forged}
        if "more" in forged:
            tensors = {key: array for key, array in file.tensors.items() if key != name}
        save(str(squared / "c"), ModelFile(file.meta, tensors, kind=CHECKPOINT))
        assert "c is not a valid checkpoint" in train(*options, "--resume", status=65)


def test_standard_input(run, train, squared):
    train("--test", "some", "--test-output", "out")
    with open(squared / "some", "rb") as text:
        done = run("train", *SWEEPS, "--test", "-", "--test-output", "-", "-o", "m", "rows", stdin=text)
    assert done.stdout == (squared / "out").read_bytes()


@pytest.fixture
def squared(tmp_path):
    write(tmp_path / "rows", 200, 0, "squared")
    write(tmp_path / "some", 50, 1, "squared")
    return tmp_path


def test_without_a_sweep_after_the_burn_in_the_model_predicts(run, train, squared):
    train("--max-seconds", "1e-9", "--test", "some", "--test-output", "out")
    assert (squared / "out").read_bytes() == run("predict", "m", "some").stdout
    train("-e", "0", "--burn-in", "0", "--test", "some", "--test-output", "out")
    assert (squared / "out").read_bytes() == run("predict", "m", "some").stdout


@pytest.mark.parametrize("options", [("--norm",), ("--scale", "max-abs"), ("-m", "ffm"), ("--hash-bits", "5")])
def test_rows_are_prepared_as_in_predict(run, train, squared, options):
    if "ffm" in options:
        for name in ("rows", "some"):
            text = (squared / name).read_text().splitlines()
            tokens = [line.split() for line in text]
            (squared / name).write_text("".join(f"{label} 0:{user} 1:{film}\n" for label, user, film in tokens))
    train(*options, "--draws", "6", model="all")
    train(*options, "--draws", "1", "--test", "some", "--test", "rows", "--test-output", "out", "-j", "2")
    assert (squared / "out").read_bytes() == run("predict", "all", "some", "rows").stdout


def test_names_of_features_and_labels(run, train, squared):
    for name in ("rows", "some"):
        tokens = [line.split() for line in (squared / name).read_text().splitlines()]
        text = "".join(f"{'good' if float(label) > 0 else 'bad'} u{user} f{film}\n" for label, user, film in tokens)
        (squared / name).write_text(text)
    train("--draws", "6", model="all")
    (squared / "some").write_text((squared / "some").read_text() + "good new-name:1\n")
    summary = train("--draws", "1", "--test", "some", "--test-output", "out")
    assert (squared / "out").read_bytes() == run("predict", "all", "some").stdout
    assert summary["test"].keys() >= {"logloss"}


def test_held_out_rows_and_the_refit(run, train, squared):
    """The predictions come from the second run, on all rows."""
    train("--holdout", "0.2", "--refit", "--draws", "6", model="all")
    train("--holdout", "0.2", "--refit", "--draws", "6", "--test", "some", "--test-output", "out")
    assert (squared / "out").read_bytes() == run("predict", "all", "some").stdout


def test_skipped_lines_get_nan_as_in_predict(train, squared):
    (squared / "some").write_text("1 0:1\nx 1:y\n2 3:1\n")
    train("--test", "some", "--test-output", "out", "--on-bad-line", "skip")
    found = (squared / "out").read_text().split()
    assert (len(found), found[1]) == (3, "nan")
    assert "some:2:" in train("--test", "some", status=65)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("-s", "cd", "--test", "some"), 2, "--test is predicted by the mean over draws, and cd has none"),
        (("--test", "some"), 2, "and adagrad has none; use -s mcmc"),
        (("-s", "mcmc", "--test-output", "out"), 2, "--test-output needs --test;"),
        (("-s", "mcmc", "--test", "some", "--ensemble", "2"), 2, "--test and --ensemble cannot be combined"),
        (("-s", "mcmc", "--test", "some", "--relation", "a=b"), 2, "--test and --relation cannot be combined"),
        (("-s", "mcmc", "--test", "some", "--test-output", "some"), 2, "would overwrite the input some"),
        (("-s", "mcmc", "--test", "some", "--test-output", "m"), 2, "are the same file"),
        (
            ("-s", "mcmc", "--test", "some", "--test-output", "-", "--log-json", "-"),
            2,
            "cannot both be standard output",
        ),
        (("-s", "mcmc", "--test", "-", "-v", "-"), 2, "standard input (-) can be read only once"),
        (("-s", "mcmc", "--test", "missing"), 66, "cannot read missing"),
        (("-s", "mcmc", "-e", "2", "--test", os.devnull), 65, f"{os.devnull}: there are no rows to predict"),
        (("-s", "mcmc", "--test", "some", "--test-output", "no/out"), 74, "no/out"),
    ],
)
def test_refusals(run, squared, options, status, message):
    done = run("train", *options, "-o", "m", "rows")
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr
    assert not (squared / "m").exists()


def test_a_full_disk_leaves_the_older_predictions(run, squared):
    done = run("train", *SWEEPS, "--test", "some", "--test-output", "/dev/full", "-o", "m", "rows")
    assert done.returncode == 74
    assert "/dev/full" in done.stderr


def test_the_dry_run_counts_their_memory(run, squared):
    (squared / "many").write_text((squared / "some").read_text() * 4000)
    log = [run("train", "-s", "mcmc", "--dry-run", *test, "rows").stderr for test in ((), ("--test", "many"))]
    memory = [line for text in log for line in text.splitlines() if line.startswith("memory")]
    assert memory[0] != memory[1]
    assert "read many to predict: 200,000 rows, 400,000 non-zeros, 0 unseen" in log[1]


def test_draws_are_as_many_as_64_mb_hold(run, tmp_path):
    """By default, for any kind and rank; at least as many as four models hold. All but the last have 16-bit numbers if
    they would take more."""
    rows = (f"{row % 2} " + " ".join(f"{10 * row + at}:1" for at in range(10)) for row in range(4000))
    (tmp_path / "wide").write_text("".join(f"{row}\n" for row in rows))

    def kept(*options):
        fixed = (
            "-s",
            "mcmc",
            "--holdout",
            "0",
            "--no-quick-search",
            "--dry-run",
            "--log-json",
            "log",
            "-o",
            "m",
            "--force",
        )
        log = run.ok("train", *fixed, *options, "wide").stderr
        return int(re.search(r"averages (\d+) later draw", log)[1]), re.search(r"later draws? \((.*)\)", log)[1]

    assert kept("-k", "9") == (78, "60.3 MiB, 16-bit numbers")
    assert kept("-k", "200") == (7, "122.7 MiB, 16-bit numbers")
    assert kept("-k", "9", "--draws", "100") == (100, "77.1 MiB, 16-bit numbers")
    assert kept("-k", "9", "--draws", "39") == (39, "59.5 MiB")
    assert kept("-m", "linear") == (200, "30.5 MiB")
