"""Ratings: the log names the sampler for them, and shows some of its many sweeps."""

import json
import re

import pytest

HINTS = [
    "hint: the labels look like ratings; -s mcmc usually predicts ratings better, without tuning",
    "hint: if the labels are classes, use --loss softmax",
]


@pytest.fixture
def ratings(tmp_path):
    """Rows of a user and an item each, with labels from 1 to 5."""
    rows = [f"{1 + (user * 3 + item * item) % 5} {user}:1 {20 + item}:1" for user in range(20) for item in range(15)]
    (tmp_path / "ratings").write_text("\n".join(rows))
    return "ratings"


def test_one_line_names_the_sampler(run, tmp_path, ratings):
    for options in ([], ["-s", "cd"]):
        done = run("train", "-e", "1", *options, "-o", "m", ratings)
        assert re.findall(r"^hint: .*", done.stderr, re.M) == HINTS, done.stderr
    # Not: if it is in use, is compared, cannot be used, or the user knows what the labels are.
    for options in ("-s mcmc -e 3", "--auto -e 3", "--online", "-m kernel-basis", "--loss squared -e 3", "-i m -e 1"):
        done = run("train", *options.split(), "-o", "other", ratings)
        assert (done.returncode, "hint" in done.stderr) == (0, False), done.stderr
    # Numbers in columns are not ids, and such labels may well be classes.
    (tmp_path / "columns").write_text("".join(f"{1 + row % 5} 0:{row / 9:.3f} 1:{row % 7}\n" for row in range(50)))
    assert "if they are classes, use --loss softmax" in run("train", "-e", "1", "-o", "m", "columns").stderr


def test_of_many_epochs_some_are_printed(run, tmp_path, ratings):
    sweeps = [1, 2, 3, 5, 10, 20, 50, 100]
    for options in (
        ["-s", "mcmc", "-e", "117"],
        ["-s", "lbfgs", "-e", "117", "--tol", "0", "--l2", "0", "--holdout", "0"],
    ):
        done = run("train", *options, "--log-json", "log", "-o", "m", ratings)
        events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        last = len([event for event in events if event["event"] == "epoch"])
        assert last > 20
        assert shown(done.stderr) == [number for number in sweeps if number < last] + [last]
        assert not re.search("penalty| 0.0+ ", done.stderr)
        assert shown(run("train", *options, "--verbose", "-o", "m", ratings).stderr) == list(range(1, last + 1))


def test_a_refit_is_a_single_line_and_small_penalties_are_for_the_verbose(run, ratings):
    options = ["-e", "17", "--patience", "17", "-r", "1e-3", "--l2", "1e-9", "--holdout", "0.2", "-o", "m", ratings]
    done = run("train", *options)
    assert shown(done.stderr) == [1, 2, 3, 5, 10, 17]
    chosen = int(re.search(r"; retraining on all 300 rows for (\d+) epochs", done.stderr)[1])
    assert chosen > 11
    assert not re.search("retraining epoch|penalty", done.stderr)
    verbose = run("train", "--verbose", *options).stderr
    assert (shown(verbose), shown(verbose, "retraining epoch")) == ([*range(1, 18)], [*range(1, chosen + 1)])
    penalties = re.findall(r"  penalty (\S+)  ", verbose)
    assert len(penalties) == 17 + chosen
    assert all(float(penalty) > 0 for penalty in penalties)


def shown(log, kind="epoch"):
    """The numbers of the epochs that the log shows."""
    return [int(number) for number in re.findall(rf"^{kind} +(\d+)  loss", log, re.M)]
