"""A run that ends worse than a constant prediction says so as its result, and which option helps best."""

import json
import re

import pytest

UNSCALED = "column 123 has values up to 2.97e+03: use --scale standard, or --scale max-abs if columns are sparse"


@pytest.fixture
def unscaled(sample, tmp_path):
    """The sample with a column of numbers in the thousands, as the census has: training and other rows."""
    for part in ("train", "test"):
        lines = (sample / f"adult.{part}.libsvm").read_text().splitlines()
        rows = [f"{line} 123:{100 + 29 * (37 * row % 100)}" for row, line in enumerate(lines)]
        (tmp_path / part).write_text("\n".join(rows))
    return "train", "test"


@pytest.mark.parametrize("options", ["", "--ensemble 2 --seed 5", "--online", "--disk --cache c", "-s sgd -r 1e-5"])
def test_the_last_word_is_the_best_remedy(run, tmp_path, unscaled, options):
    train, test = unscaled
    usual = [*options.split(), "-j", "1", "-e", "1", "-v", test, "-o", "m", "--log-json", "log"]
    done = run("train", *usual, train)
    assert (done.returncode, (tmp_path / "m").exists()) == (0, True), done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("fmcli: warning: logloss is ")
    assert "on the validation data, worse than the best constant (0.5" in last
    assert last.endswith(f"; {UNSCALED}")
    assert "smaller" not in done.stderr
    figures = summary(tmp_path)
    assert figures["worse_than_constant"] is True
    assert figures["valid"]["logloss"] > figures["valid_constant"]["logloss"]
    older = (tmp_path / "m").read_bytes()
    done = run("train", *usual, "--fail-worse-than-constant", train)
    assert (done.returncode, (tmp_path / "m").read_bytes()) == (3, older)
    assert done.stderr.splitlines()[-1] == last.replace("warning: ", "error: no model is written: ")
    assert (summary(tmp_path)["worse_than_constant"], summary(tmp_path)["model"]) == (True, None)


def summary(folder):
    return json.loads((folder / "log").read_text().splitlines()[-1])


def test_a_model_that_is_better_is_written(run, tmp_path, unscaled):
    train, test = unscaled
    remedied = ["--scale", "standard", "--fail-worse-than-constant", "--log-json", "log", "-o", "m"]
    for validation in (["-v", test], []):
        done = run("train", *remedied, *validation, train)
        assert (done.returncode, summary(tmp_path)["worse_than_constant"]) == (0, False), done.stderr
        assert re.fullmatch(r"Wrote m in .* s\. Next: fmcli predict m NEW", done.stderr.splitlines()[-1])


def test_without_validation_data_the_training_rows_count(run, tmp_path, unscaled):
    done = run("train", "-e", "1", "-o", "m", "--fail-worse-than-constant", "--checkpoint", "c", unscaled[0])
    assert (done.returncode, (tmp_path / "m").exists(), (tmp_path / "c").exists()) == (3, False, False)
    assert "on the training rows, worse than the best constant (" in done.stderr.splitlines()[-1]
    assert done.stderr.endswith(f"{UNSCALED}\n")


def test_divergence_names_the_scale_first(run, unscaled):
    done = run.fails(3, "train", "-s", "sgd", "-r", "1", "-o", "m", unscaled[0])
    assert done.stderr.splitlines()[-1].endswith(f"; {UNSCALED}")


def test_nothing_is_compared_without_an_epoch_and_logloss_is_in_place_of_an_undefined_metric(run, tmp_path, unscaled):
    (tmp_path / "one").write_text("-1 1:1\n")
    cases = (["-e", "0"], (0, None)), (["-e", "2", "-v", "one", "-x", "auc"], (3, True))
    for options, expected in cases:
        done = run("train", *options, "-o", "m", "--log-json", "log", "--fail-worse-than-constant", unscaled[0])
        assert (done.returncode, summary(tmp_path)["worse_than_constant"]) == expected, done.stderr
    assert "no model is written: logloss is" in done.stderr
