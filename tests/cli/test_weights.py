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
    assert "\nweights: 1 to 4, " in log
    assert log.count("; by label: 4 for label 1\n") == 1
    assert train("--class-weight", "1=4")[0] == train("--sample-weights", "w")[0] == model
    assert train("--sample-weights", "ones")[0] == plain != model


def test_weights_of_rows_on_disk(run, train, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    labels = [line.split()[0] for line in rows.read_text().splitlines()]
    (tmp_path / "w").write_text("".join("4\n" if label == "1" else "1\n" for label in labels))
    model, log = train("--disk", "--cache", "c", "--sample-weights", "w")
    assert "\nweights: 1 to 4, " in log
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
    """The features say nothing, so the odds are the odds of the weighted labels."""
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


TABLE = "x,y,w\n" + "".join(f"n{i % 5},{3 * (i % 5) + i % 7 / 7:.4f},{i % 3}\n" for i in range(200)) + "n9,1000,0\n"
ROWS = [line.split(",") for line in TABLE.split()[1:]]
CD = ["-q", "-s", "cd", "--no-quick-search"]


@pytest.mark.parametrize(
    "options",
    [
        [*CD, "--label", "y", "--weight-column", "w", "t.csv"],
        [*CD, "--label-weights", "t"],
        [*CD, "--sample-weights", "w", "plain"],
        ["-q", "-s", "ftrl", "--disk", "--cache", "c", "--label-weights", "t"],
        ["-q", "-s", "ftrl", "--disk", "--cache", "c", "--sample-weights", "w", "plain"],
        ["-q", "-s", "ftrl", "--online", "--label-weights", "t"],
    ],
    ids=" ".join,
)
def test_rows_of_weight_0_do_not_exist(run, tmp_path, options):
    """Of no reader: the model equals a model of the other rows, whose weights are in the same place."""

    def predictions(rows):
        (tmp_path / "t.csv").write_text("\n".join(["x,y,w", *map(",".join, rows)]) + "\n")
        (tmp_path / "t").write_text("".join(f"{y}:{w} {x}:1\n" for x, y, w in rows))
        (tmp_path / "plain").write_text("".join(f"{y} {x}:1\n" for x, y, _ in rows))
        (tmp_path / "w").write_text("".join(f"{w}\n" for *_, w in rows))
        run.ok("train", *options[:-1], "-o", "m", options[-1])
        return run.ok("predict", "-q", "m", "-", input=b"x\nn3\nn9\n" if "--label" in options else b"n3:1\nn9:1\n")

    found = predictions(ROWS).stdout
    assert found == predictions([row for row in ROWS if row[2] != "0"]).stdout
    assert max(map(float, found.split())) < 20


def test_the_log_says_how_many_rows_have_the_weight_0(run, tmp_path):
    (tmp_path / "t").write_text("".join(f"{i % 2}:{min(i, 1)} {i % 3}:1\n" for i in range(60)))
    assert "\nleft out rows of weight 0: 1\n" in run.ok("train", "--label-weights", "-o", "m", "t").stderr
    (tmp_path / "t").write_text("1:0 1:1\n0:0 2:1\n")
    for options in ([], ["--disk", "--cache", "c"], ["-s", "ftrl", "--online"]):
        done = run.fails(65, "train", "--label-weights", *options, "-o", "m", "t")
        assert "all rows have weight 0; check the weights of rows and labels" in done.stderr
