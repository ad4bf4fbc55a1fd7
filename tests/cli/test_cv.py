"""fmcli cv: the report, files of folds, comparisons, and errors."""

import json

import numpy as np
import pytest

FOLDS = ["cv", "-q", "--no-quick-search", "--folds", "3", "-e", "2"]


def test_the_report_does_not_depend_on_threads_and_folds_can_be_read_again(run, sample, tmp_path):
    rows = tmp_path / "rows"
    rows.write_bytes(b"".join((sample / "adult.train.ffm").read_bytes().splitlines(keepends=True)[:300]))
    files = ["--write-folds", "folds", "-o", "oof", "--log-json", "log"]
    text = run.ok(*FOLDS, "-j", "1", "--json", *files, "--against", "-m ffm -k 2 -e 2 --no-quick-search", rows).stdout
    assert run.ok(*FOLDS, "-j", "3", "--json", "--against", "-m ffm -k 2 -e 2 --no-quick-search", rows).stdout == text
    first = json.loads(text)
    again = json.loads(run.ok(*FOLDS[:3], "-e", "2", "--folds", "folds", "--json", rows).stdout)
    assert again == {**first, "against": []}
    values = [fold["metrics"]["auc"] for fold in first["folds"]]
    assert first["means"][1] == {"metric": "auc", "mean": np.mean(values), "sd": np.std(values, ddof=1)}
    other = first["against"][0]
    assert other["options"] == "-m ffm -k 2 -e 2 --no-quick-search"
    pairs = zip(first["folds"], other["folds"], strict=True)
    apart = [one["metrics"]["auc"] - two["metrics"]["auc"] for one, two in pairs]
    assert other["differences"][1]["difference"] == pytest.approx(np.mean(apart))
    # The predictions of rows by models that have not seen them equal the predictions of a model of the other rows.
    folds, lines = np.loadtxt(tmp_path / "folds", dtype=int), rows.read_bytes().splitlines(keepends=True)
    (tmp_path / "train").write_bytes(b"".join(line for line, fold in zip(lines, folds, strict=True) if fold != 1))
    (tmp_path / "test").write_bytes(b"".join(line for line, fold in zip(lines, folds, strict=True) if fold == 1))
    run.ok("train", "-q", "--no-quick-search", "-e", "2", "-o", "m", "train")
    expected = run.ok("predict", "-q", "m", "test").stdout.splitlines()
    found = (tmp_path / "oof").read_bytes().splitlines()
    assert [line for line, fold in zip(found, folds, strict=True) if fold == 1] == expected
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [one["test"] for one in events if one["event"] == "fold" and "against" not in one] == [
        fold["metrics"] for fold in first["folds"]
    ]
    assert {"event", "repeat", "fold", "epoch", "loss", "valid"} <= events[0].keys()


def test_folds_of_a_table_have_whole_groups_or_follow_each_other_in_time(run, tmp_path):
    random = np.random.default_rng(0)
    rows = [(random.integers(12), random.integers(9), time) for time in random.permutation(120)]
    cells = "".join(f"u{user},i{item},{time},{(user + item) % 5}\n" for user, item, time in rows)
    (tmp_path / "t.csv").write_text(f"user,item,time,rating\n{cells}")
    options = [*FOLDS, "--label", "rating", "--categorical", "user,item", "--write-folds", "folds", "t.csv"]
    text = run.ok(*options, "--by-group", "user", "--ignore", "time", "--json").stdout
    folds = np.loadtxt(tmp_path / "folds", dtype=int)
    users = np.array([user for user, _, _ in rows])
    assert all(len(set(folds[users == user])) == 1 for user in users)
    assert sum(fold["rows"] for fold in json.loads(text)["folds"]) == 120
    text = run.ok(*options, "--by-time", "time", "--holdout", "time:time:0.2", "-o", "oof").stdout.decode()
    folds = np.loadtxt(tmp_path / "folds", dtype=int)
    order = folds[np.argsort([time for _, _, time in rows])]
    assert (np.diff(order) >= 0).all()
    assert np.unique(order, return_counts=True)[1].tolist() == [30, 30, 30, 30]
    assert set(order) == {-1, 1, 2, 3}
    assert "mean" in text
    assert (tmp_path / "oof").read_text().split().count("nan") == 30


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--folds", "1"], 2, "1 is not a number of folds"),
        (["--folds", "9999"], 2, "331 rows cannot be divided into 9999 folds"),
        (["--folds", "missing"], 66, "cannot read missing"),
        (["--by-time", "x"], 2, "by qid, or by a field"),
        (["--by-order", "--by-group", "0"], 2, "cannot be combined"),
        (["--by-order", "--repeats", "2"], 2, "--repeats and --by-order cannot be combined"),
        (["--online"], 2, "cv and --online cannot be combined: a stream is read once"),
        (["--disk"], 2, "--disk needs --cache"),
        (["--against", " "], 2, "there is nothing to compare; give other options"),
        (["--auto", "-m", "fm", "-s", "cd"], 2, "--auto and both -m and -s cannot be combined"),
        (["--auto", "-m", "kernel-basis"], 2, "no solvers to compare"),
        (["--against", "-k x"], 2, "'x' is not a valid integer"),
        (["--against", "-m fmm"], 2, "did you mean fm"),
        (["--against", "-f ffm"], 2, "-f is an option for all"),
        (["--against", "'"], 2, "No closing quotation"),
        (["-x", "auc"], 2, "metric auc"),
        (["-o", "no/oof"], 74, "its folder does not exist"),
    ],
)
def test_errors(run, sample, arguments, status, message):
    assert message in run.fails(status, "cv", "-q", *arguments, sample / "diabetes.train.libsvm").stderr


def test_readings_that_only_train_tries_are_told(run, tmp_path):
    """The folds are of models that read the table in one way, so cv does not estimate what train may choose."""
    (tmp_path / "t.csv").write_text("hour,age,y\n" + "".join(f"{i % 12},{i * 7 % 60}.5,{i % 5}\n" for i in range(600)))
    told = "train also tries --numeric hour: add an option"
    cross = ("cv", "--folds", "2", "-e", "1", "--label", "y", "t.csv")
    assert told in run.ok(*cross).stderr
    assert "also tries" not in run.ok(*cross, "--no-quick-search").stderr
    assert "also tries" not in run.ok(*cross, "--numeric", "hour").stderr
