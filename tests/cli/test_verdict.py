"""The log of a run: short, with the columns to check, and a verdict and the next command at its end."""

import csv
import json
import re

import pytest

import fmcli
from fmcli.text import counted, figure, figures_apart


def summary(folder):
    return json.loads((folder / "log").read_text().splitlines()[-1])


def test_the_first_command_prints_20_lines_and_says_whether_the_model_is_good(run, sample, tmp_path):
    rows = sample / "adult.train.csv"
    log = run.ok("train", "--quick-search", "--label", "income", "--log-json", "log", rows).stderr.splitlines()
    assert len(log) <= 20
    valid, constant = (summary(tmp_path)[name] for name in ("valid", "valid_constant"))
    beside = f"logloss {figure(valid['logloss'])} (a constant: {figure(constant['logloss'])})"
    assert log[-2] == f"Predicts 500 held-out rows with AUC {figure(valid['auc'])} (guessing: 0.5) and {beside}."
    assert re.fullmatch(r"Wrote (\S+) in [\d.]+ s\. Next: fmcli predict \1 NEW\.csv", log[-1])
    assert not re.search(r"libsvm|\b0\.0+\b|look|refit|holding", "\n".join(log))


def test_what_was_tried_is_a_line_for_each_value_that_is_used_and_one_for_the_rest(run, sample, tmp_path):
    train = ("train", "--quick-search", "--label", "income", "-e", "2", "-o", "m", sample / "adult.train.csv")
    tried = [line for line in run.ok(*train).stderr.splitlines() if line.startswith("tried ")]
    *used, rest = tried
    assert all(re.fullmatch(r"tried --\S+ \S+: logloss [\d.]+ against [\d.]+; using it", line) for line in used)
    assert len({line.split()[1] for line in used}) == len(used) > 0
    assert re.match(r"tried \d+ other settings, none better: --", rest)
    every = re.findall(r"^  (--.*): logloss [\d.]+ against", run.ok(*train, "--verbose").stderr, re.M)
    assert len(every) >= len(used) + int(rest.split()[1])


def test_numbers_say_how_much_is_explained(run, sample, tmp_path):
    log = run.ok("train", "-o", "m", "--log-json", "log", sample / "diabetes.train.libsvm").stderr
    share = 1 - (summary(tmp_path)["valid"]["rmse"] / summary(tmp_path)["valid_constant"]["rmse"]) ** 2
    assert re.search(
        rf"with RMSE [\d.]+ \(a constant: [\d.]+, {100 * share:.3g} % of the variance explained\) and", log
    )


def test_without_other_rows_the_training_rows_are_no_promise(run, sample):
    log = run.ok("train", "--holdout", "0", "-o", "m", sample / "adult.train.libsvm").stderr
    fit = r"\nFits the training rows with AUC [\d.]+ and logloss [\d.]+ \(a constant: [\d.]+\); errors on new rows "
    assert re.search(fit, log)
    assert "Fits" not in run.ok("train", "-e", "0", "-o", "m", sample / "adult.train.libsvm").stderr


def test_labels_that_are_equally_frequent_are_guessed_with_one_half(run):
    log = run.ok("train", "--holdout", "0", "-o", "m", "-", input=b"1 a:1\n0 b:1\n" * 20).stderr
    assert "(a constant: 0.6931)" in log  # log 2


def test_a_model_like_a_constant_is_named(run, sample):
    done = run.ok("train", "--l1", "1e3", "-o", "m", sample / "adult.train.libsvm")
    assert re.search(r"no better than (a|the best) constant", done.stderr)


@pytest.fixture
def wide(tmp_path):
    """A table of 16 columns with features, of all kinds."""
    with (tmp_path / "wide.csv").open("w", newline="") as file:
        write = csv.writer(file).writerow
        write(["y", "user_id", "grade", "when", "same", "none", *(f"x{at}" for at in range(11))])
        for row in range(400):
            numbers = ["2" if row == at else f"{(row * (at + 3)) % 17}.5" for at in range(11)]
            write([row % 2, row % 4, row % 3, f"2024-01-{1 + row % 28:02}", "a", "", *numbers])
    return "wide.csv"


def test_many_columns_are_counted_and_those_to_check_are_named(run, wide):
    log = run.ok("train", "--label", "y", "-e", "1", "-o", "m", wide).stderr
    assert log.startswith(
        "16 columns: 11 number, 3 category, 1 time, 1 ignored (--verbose lists them)\n"
        "  ids: user_id\n  whole numbers read as categories: grade\n  dates: when\n"
        "  the same in all rows: same\n  left out: none\n"
    )
    verbose = run.ok("train", "--verbose", "--label", "y", "-e", "1", "-o", "m", wide).stderr
    assert len(re.findall(r"^column ", verbose, re.M)) == 16


@pytest.mark.parametrize(
    ("label", "copy"),
    [(lambda x: int(x > 5), lambda y: "won" if y else "lost"), (lambda x: f"{10 * x:.2f}", lambda y: float(y) * 1.19)],
    ids=["names", "numbers"],
)
def test_a_column_that_tells_the_label_is_told(run, tmp_path, rng, label, copy):
    """Only if hardly an error is left: another good column does not matter."""
    known = rng.random(400) * 10
    labels = [label(x + rng.normal() / 5) for x in known]
    rows = [f"{x:.3f},{copy(y)},{y}\n" for x, y in zip(known, labels, strict=True)]
    (tmp_path / "t.csv").write_text("x,outcome,y\n" + "".join(rows))
    train = ("train", "--label", "y", "-o", "m", "t.csv")
    told = " is nearly 0; if a column is known only with the label, such as the label under another name, leave it out"
    assert told in run.ok(*train).stderr
    assert told not in run.ok(*train, "--ignore", "outcome").stderr


def test_python_says_the_same(sample, tmp_path, caplog):
    with caplog.at_level("INFO", "fmcli"):
        fmcli.train(sample / "adult.train.csv", label="income", quick_search=False)
    assert caplog.messages[-1].startswith("Predicts 500 held-out rows with AUC 0.")
    assert any(re.match(r"column hours +category", message) for message in caplog.messages)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9, "0.9000"), (1234.4, "1234"), (9999.7, "10,000"), (123456.7, "123,457"), (0, "0"), (1.2e-5, "1.200e-05"),
     (-0.5, "-0.5000"), (float("nan"), "nan"), (1e300, "1.000e+300")],
)  # fmt: skip
def test_figures_have_four_digits(value, text):
    assert figure(value) == text


def test_figures_that_differ_look_different():
    assert figures_apart(0.35039, 0.35036) == ("0.35039", "0.35036")
    assert figures_apart(0.5, 0.25) == ("0.5000", "0.2500")
    assert figures_apart(None, 0.5) == ("diverged", "0.5000")
    assert figures_apart(0.5, 0.5) == ("0.5000", "0.5000")
    assert [counted(number, "row") for number in (0, 1, 2500)] == ["0 rows", "1 row", "2,500 rows"]
