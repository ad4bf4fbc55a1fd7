"""--sample-weights, --class-weight and --pos-weight."""

import json

import pytest


@pytest.fixture
def train(run, sample, tmp_path):
    def trained(*options):
        rows = sample / "adult.train.libsvm"
        done = run.ok("train", "-e", "2", "-o", "m", "--log-json", "log", *options, rows)
        return (tmp_path / "m").read_bytes(), done.stderr

    return trained


def test_the_same_weights_in_three_ways(train, sample, tmp_path):
    labels = [line.split()[0] for line in (sample / "adult.train.libsvm").read_text().splitlines()]
    (tmp_path / "w").write_text("".join("4\n" if label == "1" else "1\n" for label in labels))
    (tmp_path / "ones").write_text("1\n" * len(labels))
    plain, _ = train()
    model, log = train("--pos-weight", "4")
    assert "\nweights: from 1 to 4, " in log
    assert log.count("; by label: 4 for label 1\n") == 1
    assert train("--class-weight", "1=4")[0] == train("--sample-weights", "w")[0] == model
    assert train("--sample-weights", "ones")[0] == plain != model


def test_weights_of_rows_on_disk(run, train, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    labels = [line.split()[0] for line in rows.read_text().splitlines()]
    (tmp_path / "w").write_text("".join("4\n" if label == "1" else "1\n" for label in labels))
    model, log = train("--disk", "--cache", "c", "--sample-weights", "w")
    assert "\nweights: from 1 to 4, " in log
    assert train("--disk", "--cache", "d", "--class-weight", "1=4")[0] == model
    again, log = train("--disk", "--cache", "c", "--sample-weights", "w")
    assert "using the cache c" in log
    assert again == model
    weights = (tmp_path / "w").read_text()
    for text, line, message in [
        (weights + "1\n", len(labels) + 1, f"the file has more lines than the {len(labels):,} training rows"),
        (weights[:-2], len(labels), "the file ends, but there are more training rows"),
        (weights.replace("4", "-4", 1), labels.index("1") + 1, "found '-4', expected a weight"),
    ]:
        (tmp_path / "w").write_text(text)
        done = run.fails(65, "train", "--disk", "--cache", "c", "--sample-weights", "w", "-o", "n", rows)
        assert f"fmcli: error: w:{line}: {message}" in done.stderr
    (tmp_path / "w").write_text("1e308\n" * len(labels))
    done = run("train", "--disk", "--cache", "c", "--sample-weights", "w", "-o", "n", rows)
    assert (done.returncode, "the sum of the weights is not finite" in done.stderr) == (65, True)


def test_validation_rows_have_the_weights_of_their_labels(train, sample, tmp_path):
    train("--class-weight", "balanced", "-x", "logloss", "-v", sample / "adult.train.libsvm")
    summary = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert summary["train"] == summary["valid"]


def test_a_weight_of_positive_rows_multiplies_odds(run, train, tmp_path):
    """The features say nothing, so that the odds are those of the weighted labels."""
    (tmp_path / "t").write_text("".join(f"{int(i % 5 == 0)} {i % 7}:1\n" for i in range(700)))
    odds = []
    for options in ([], ["--pos-weight", "6"], ["--class-weight", "balanced"]):
        run("train", "-q", "-m", "linear", "-s", "lbfgs", *options, "-o", "n", "t")
        probability = float(run("predict", "n", input=b"1 3:1\n").stdout)
        odds.append(probability / (1 - probability))
    assert odds == pytest.approx([1 / 4, 6 / 4, 1], rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        ["--class-weight", "1"],
        ["--class-weight", "1=x"],
        ["--class-weight", "1=0"],
        ["--class-weight", "1=2", "--class-weight", "1=3"],
        ["--class-weight", "1=2", "--class-weight", "balanced"],
        ["--class-weight", "1=2", "--pos-weight", "2"],
        ["--pos-weight", "-1"],
        ["--pos-weight", "nan"],
        ["--sample-weights", "w", "--on-bad-line", "skip"],
    ],
)
def test_wrong_options(run, sample, tmp_path, options):
    (tmp_path / "w").write_text("1\n")
    run.fails(2, "train", *options, sample / "adult.train.libsvm")


def test_a_file_that_is_missing(run, sample):
    done = run("train", "--sample-weights", "none", sample / "adult.train.libsvm")
    assert (done.returncode, done.stderr) == (66, "fmcli: error: cannot read none: No such file or directory\n")
