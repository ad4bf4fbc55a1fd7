"""Ratings: the log names the sampler for them, and shows some of its many sweeps."""

import json
import re

import pytest

HINT = "hint: the labels look like ratings: -s mcmc usually predicts these better, without tuning; if they are classes,"


@pytest.fixture
def ratings(tmp_path):
    """Rows of a user and an item each, with labels from 1 to 5."""
    rows = [f"{1 + (user * 3 + item * item) % 5} {user}:1 {20 + item}:1" for user in range(20) for item in range(15)]
    (tmp_path / "ratings").write_text("\n".join(rows))
    return "ratings"


def test_one_line_names_the_sampler(run, tmp_path, ratings):
    for options in ([], ["-s", "cd"]):
        done = run("train", "-e", "1", *options, "-o", "m", ratings)
        assert re.findall(r"^hint: .*", done.stderr, re.M) == [f"{HINT} use --loss softmax"], done.stderr
    # Not: if it is in use, is compared, cannot be used, or the user knows what the labels are.
    for options in ("-s mcmc -e 3", "--auto -e 3", "--online", "-m kernel-basis", "--loss squared -e 3", "-i m -e 1"):
        done = run("train", *options.split(), "-o", "other", ratings)
        assert (done.returncode, "hint" in done.stderr) == (0, False), done.stderr
    # Numbers in columns are not ids, and such labels may well be classes.
    (tmp_path / "columns").write_text("".join(f"{1 + row % 5} 0:{row / 9:.3f} 1:{row % 7}\n" for row in range(50)))
    assert "if these are classes, use --loss softmax" in run("train", "-e", "1", "-o", "m", "columns").stderr


def test_of_many_epochs_some_are_printed(run, tmp_path, ratings):
    sweeps = [*range(1, 11), *range(20, 101, 10), 117]
    for options in (
        ["-s", "mcmc", "-e", "117"],
        ["-s", "lbfgs", "-e", "117", "--tol", "0", "--l2", "0", "--holdout", "0"],
    ):
        done = run("train", *options, "--log-json", "log", "-o", "m", ratings)
        events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        last = len([event for event in events if event["event"] == "epoch"])
        assert last > 20
        assert shown(done.stderr) == [number for number in sweeps if number < last] + [last]
        assert "penalty" not in done.stderr
        assert shown(run("train", *options, "--verbose", "-o", "m", ratings).stderr) == list(range(1, last + 1))


def test_of_a_refit_some_epochs_are_printed(run, ratings):
    done = run(
        "train", "-e", "17", "--patience", "17", "-r", "1e-3", "--l2", "1e-9", "--holdout", "0.2", "-o", "m", ratings
    )
    assert shown(done.stderr) == list(range(1, 18))
    chosen = int(re.search(r"for (\d+) epochs", done.stderr)[1])
    assert shown(done.stderr, "refit") == [*range(1, 11), chosen]
    assert chosen > 11
    penalties = re.findall(r"penalty (\S+)", done.stderr)
    assert len(penalties) == 17 + 11
    assert all(float(penalty) > 0 for penalty in penalties)


def shown(log, kind="epoch"):
    """The numbers of the epochs that the log shows."""
    return [int(number) for number in re.findall(rf"^{kind} +(\d+)  loss", log, re.M)]
