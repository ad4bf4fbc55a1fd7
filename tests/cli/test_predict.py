"""fmcli predict: one line for each row, in order, for all kinds of input and output."""

import gzip
import json
import math
import os
import re

import numpy as np
import pytest

from fmcli.model_file import container
from fmcli.scoring.scorer import load_model
from fmcli.text import figure


def numbers(done):
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.splitlines()]


def test_one_number_a_row_and_a_summary_on_stderr(run, sample, adult_model):
    done = run("predict", adult_model, sample / "adult.test.libsvm")
    probabilities = numbers(done)
    assert len(probabilities) == 1500
    assert all(0 < p < 1 for p in probabilities)
    assert done.stderr.startswith("1,500 rows, 6 of 20,812 non-zeros unseen (0.029 %), ")
    assert done.stderr.count("\n") == 1


def test_types_of_output_answer_each_other(run, sample, adult_model):
    test = sample / "adult.test.libsvm"
    raw = run("predict", "--output-type", "raw", adult_model, test)
    prob = run("predict", "--output-type", "prob", adult_model, test)
    label = run("predict", "--output-type", "label", adult_model, test)
    assert numbers(prob) == pytest.approx([1 / (1 + math.exp(-score)) for score in numbers(raw)], rel=1e-6)
    assert numbers(label) == [1 if score > 0 else -1 for score in numbers(raw)]
    assert len(set(label.stdout.split())) == 2
    for flag, same in (("--raw", raw), ("--sigmoid", prob), ("--sign", label)):
        assert run("predict", flag, adult_model, test).stdout == same.stdout
    assert run("predict", adult_model, test).stdout == prob.stdout


def test_types_of_output_that_contradict_each_other_are_refused(run, sample, adult_model):
    done = run.fails(2, "predict", "--raw", "--output-type", "label", adult_model, sample / "adult.test.libsvm")
    assert "choose one type of output, not label and raw" in done.stderr
    assert done.stdout == b""


def test_numbers_come_as_scores_and_have_no_probabilities(run, sample, diabetes_model):
    test = sample / "diabetes.test.libsvm"
    scores = numbers(run("predict", diabetes_model, test))
    labels = [float(line.split()[0]) for line in test.read_text().splitlines()]
    mean = sum(labels) / len(labels)
    # Better than predicting the mean of these labels.
    assert sum((s - y) ** 2 for s, y in zip(scores, labels, strict=True)) < 0.9 * sum((mean - y) ** 2 for y in labels)
    done = run.fails(2, "predict", "--sigmoid", diabetes_model, test)
    assert "squared loss has no probabilities" in done.stderr


def test_labels_that_are_numbers_are_predicted_as_numbers(run, sample, diabetes_model):
    test = sample / "diabetes.test.libsvm"
    assert run("predict", "--sign", diabetes_model, test).stdout == run("predict", "--raw", diabetes_model, test).stdout
    run.ok("train", "-q", "--loss", "poisson", "-o", "m", sample / "diabetes.train.libsvm")
    counts, scores = numbers(run("predict", "--sign", "m", test)), numbers(run("predict", "--raw", "m", test))
    assert numbers(run("predict", "m", test)) == counts
    assert counts == pytest.approx([math.exp(score) for score in scores], rel=1e-6)
    assert min(counts) > 10 > max(scores)


def test_order_is_kept_with_any_number_of_threads(run, large, adult_model):
    whole = run("predict", "--raw", "-j", "1", adult_model, large).stdout
    assert len(whole.splitlines()) == 40_000
    assert len(set(whole.splitlines())) > 2000
    for threads in ("2", "3"):
        assert run("predict", "--raw", "-j", threads, adult_model, large).stdout == whole
    # The rows repeat every 2,500.
    lines = whole.splitlines()
    assert lines[2500:5000] == lines[:2500] == lines[-2500:]


def test_standard_input_is_the_default_and_several_inputs_follow_each_other(run, sample, adult_model):
    test = sample / "adult.test.libsvm"
    text = test.read_bytes()
    plain = run("predict", adult_model, test).stdout
    assert run("predict", adult_model, input=text).stdout == plain
    assert run("predict", adult_model, "-", input=text).stdout == plain
    assert run("predict", adult_model, test, "-", test, input=text).stdout == plain * 3


def test_row_n_answers_line_n(run, adult_model):
    text = b"1 3:1\n\n3:1 75:1\n# nothing\n-1 3:1 # why\n \n3:1"
    done = run("predict", "--raw", adult_model, input=text)
    scores = numbers(done)
    assert len(scores) == 6
    assert scores[0] == scores[3] == scores[5] != scores[2]
    assert scores[1] == scores[4] != scores[0]
    assert "6 rows, 1 comment, " in done.stderr


def test_unseen_features_count_and_do_not_score(run, adult_model):
    cold = next(j for j, seen in enumerate(load_model(str(adult_model)).seen) if not seen)
    done = run("predict", "--raw", adult_model, input=f"1 3:1\n1 3:1 {cold}:1 100000:5\n".encode())
    first, second = numbers(done)
    assert first == second
    assert "2 rows, 2 of 4 non-zeros unseen (50 %)" in done.stderr
    assert "warning" not in done.stderr
    done = run("predict", "--raw", adult_model, input=b"1 100000:5\n")
    assert "1 row, 1 of 1 non-zero unseen (100 %)" in done.stderr
    done = run("predict", "--raw", adult_model, input=b"1 7777:1 8888:1 3:1\n")
    assert "warning: 67 % of the non-zeros did not occur in training" in done.stderr


def test_output_file_is_complete_or_not_there(run, sample, adult_model, tmp_path):
    test = sample / "adult.test.libsvm"
    done = run("predict", "-q", "-o", "out", adult_model, test)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", "")
    assert (tmp_path / "out").read_bytes() == run("predict", adult_model, test).stdout
    done = run.fails(65, "predict", "-o", "out2", adult_model, input=test.read_bytes() + b"1 -3:1\n")
    assert os.listdir(tmp_path) == ["out"]


def test_an_error_comes_after_the_rows_before_it(run, large, adult_model):
    text = large.read_bytes()
    done = run.fails(65, "predict", adult_model, input=text + b"1 -3:1\n")
    assert "<stdin>:40001:3: found '-3:1'" in done.stderr
    assert 0 < len(done.stdout.splitlines()) < 40_000


def test_dash_is_standard_output(run, sample, adult_model, tmp_path):
    assert len(numbers(run("predict", "-o", "-", adult_model, sample / "adult.test.libsvm"))) == 1500
    assert os.listdir(tmp_path) == []


@pytest.fixture
def broken(tmp_path, adult_model):
    """The adult model with NaN as the weight of feature 3."""
    file = container.load(str(adult_model))
    file.tensors["w"] = file.tensors["w"].copy()
    file.tensors["w"][0, 3] = np.nan
    container.save(str(tmp_path / "broken"), file)
    return "broken"


@pytest.mark.parametrize(("output", "other"), [("raw", "-1."), ("prob", "0."), ("label", "-1")])
def test_nan_predictions_cause_a_warning(run, broken, output, other):
    done = run.ok("predict", "--output-type", output, broken, input=b"3:1\n4:1\n3:1 4:1\n")
    first, second, third = done.stdout.decode().split()
    assert (first, third) == ("nan", "nan")
    assert second.startswith(other)
    assert "fmcli: warning: 2 of 3 rows have a score that is not finite" in done.stderr


def test_metrics_of_what_is_not_a_number_are_undefined(run, broken):
    done = run.ok("evaluate", broken, "-", input=b"1 3:1\n-1 4:1\n")
    assert {line.split()[1] for line in done.stdout.decode().splitlines() if not line.startswith("sparsity")} == {"-"}
    assert "fmcli: warning: 1 of 2 rows have a score that is not finite" in done.stderr


def test_an_export_of_what_is_not_a_number_says_so(run, broken):
    for name in ("m.npz", "m.txt"):
        done = run.ok("export", broken, name)
        assert "fmcli: warning: w has numbers that are not finite" in done.stderr


def test_a_model_from_a_pipe(run, adult_model, sample):
    piped = run("predict", "-q", "/dev/stdin", sample / "adult.test.libsvm", input=adult_model.read_bytes())
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout == run("predict", "-q", adult_model, sample / "adult.test.libsvm").stdout


ROWS = b"a 1 1:1 2:1\nb:7 3:1\n# c\nc\n\n  d\t1 3:1 # x\r\n"
BARE = b"1 1:1 2:1\n3:1\n# c\n\n\n1 3:1\n"


def test_ids_and_lines_beside_predictions(run, adult_model):
    scores = run("predict", adult_model, input=BARE).stdout.splitlines()
    pairs = list(zip([b"a", b"b:7", b"c", b"", b"d"], scores, strict=True))
    for threads in ("1", "3"):
        done = run("predict", "-j", threads, "--id-column", "1", adult_model, input=ROWS)
        assert done.stdout.splitlines() == [b"%b\t%b" % pair for pair in pairs]
    done = run("predict", "--id-column", "2", adult_model, input=b"1 u1 1:1 2:1\n0 2:1\n-1 u3 qid:3 3:1\n")
    assert [line.split(b"\t")[0] for line in done.stdout.splitlines()] == [b"u1", b"2:1", b"u3"]
    lines = [line.rstrip(b"\r") for line in ROWS.split(b"\n")[:-1] if not line.startswith(b"#")]
    passed = run("predict", "--id-column", "1", "--passthrough", adult_model, input=ROWS).stdout
    assert passed == b"".join(b"%b\t%b\n" % pair for pair in zip(lines, scores, strict=True))
    run.fails(2, "predict", "--id-column", "3", adult_model, input=ROWS)


@pytest.mark.parametrize(("column", "text"), [(1, b"7 1 0:1:1\n"), (2, b"1 7:8 0:1:1\n"), (1, b"x:1:2:3 0:1:1\n")])
def test_the_format_of_lines_with_ids(run, adult_model, column, text):
    done = run.ok("predict", "--id-column", str(column), adult_model, input=text)
    assert done.stdout.split(b"\t")[1] == run("predict", adult_model, input=b"1 1:1\n").stdout


@pytest.mark.parametrize("threads", ["1", "2"])
def test_unbuffered(start, adult_model, threads):
    process = start("predict", "-q", "--unbuffered", "-j", threads, adult_model)
    for _ in range(3):
        process.stdin.write(b"1 3:1\n")
        process.stdin.flush()
        assert process.stdout.readline()
    out, _ = process.communicate(b"\n1", timeout=30)
    assert (process.returncode, len(out.splitlines())) == (0, 2)


def test_unseen_features(run, adult_model, tmp_path):
    (tmp_path / "rows").write_bytes(b"1 1:1\n# c\n\n1 3:1 +0500:2 1:1\n1 600:0\n1 600:1\n")
    known = run("predict", adult_model, "rows")
    warned = run("predict", "-q", "--unseen", "warn", adult_model, "rows")
    assert warned.stdout == known.stdout
    assert warned.stderr == "fmcli: warning: 2 non-zeros have features that did not occur in training\n"
    done = run.fails(65, "predict", "--unseen", "error", adult_model, "rows")
    assert done.stderr.splitlines()[-1] == (
        "fmcli: error: rows:4:7: found '+0500:2', expected a feature that occurred in training; "
        "feature '+0500' did not, and unseen features are an error"
    )
    run.ok("predict", "--unseen", "error", adult_model, input=b"1 1:1\n600:0\n")


def test_unseen_features_of_a_model_with_columns_for_some(run, tmp_path):
    (tmp_path / "t").write_text("1 0:5:1 1:70000:1\n0 0:7:1 1:70000:1\n")
    run("train", "-q", "-m", "ffm", "-e", "1", "-o", "m", "t")
    run.ok("predict", "--unseen", "error", "m", "t")
    for feature in (0, 6, 8, 69_999, 70_001):
        done = run("predict", "--unseen", "error", "m", input=b"1 0:5:1 1:%d:1\n" % feature)
        assert f"<stdin>:1:9: found '1:{feature}:1', expected a feature that occurred" in done.stderr


@pytest.mark.parametrize("options", [[], ["--unbuffered"], ["--passthrough"], ["--unseen", "error"]])
def test_an_empty_input_has_no_predictions(run, adult_model, options, tmp_path):
    for text in (b"", b"# only a comment\n", gzip.compress(b"")):
        done = run("predict", *options, adult_model, input=text)
        assert (done.returncode, done.stdout) == (0, b"")
        assert done.stderr.startswith("0 rows, ")
        assert "unseen" not in done.stderr
    (tmp_path / "empty").write_bytes(b"\xef\xbb\xbf")
    done = run("predict", *options, adult_model, "empty", "-", "empty", input=b"1 3:1\n")
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)


@pytest.mark.parametrize("name", ["diabetes", "adult"])
def test_the_standard_deviation_over_draws_follows_the_prediction(run, sample, adult_model, name):
    options = ["-s", "mcmc", "-k", "2", "-e", "6", "--burn-in", "2", "--draws", "3", "--scale", "standard"]
    train, test = (sample / f"{name}.{part}.libsvm" for part in ("train", "test"))
    done = run.ok("train", "--verbose", *options, "-o", "m", "-v", test, train)
    assert "6 sweeps, 2 of them burn-in; the model averages 3 later draws (" in done.stderr
    assert re.search(r"^draws +3 of 6 sweeps$", done.stderr, re.M)
    lines = [line.split(b" ") for line in run("predict", "--std", "m", test).stdout.splitlines()]
    assert [prediction for prediction, _ in lines] == run("predict", "m", test).stdout.splitlines()
    spread = [float(text) for _, text in lines]
    assert 0 < min(spread) < max(spread) < (1 if name == "adult" else 200)
    last = run("evaluate", "--json", "m", test)
    metric = "logloss" if name == "adult" else "rmse"
    measured = json.loads(last.stdout)["metrics"][metric]
    assert re.search(rf"^valid-{metric} +{figure(measured)}  ", done.stderr, re.M)
    assert "has a single draw" in run("predict", "--std", adult_model, test).stderr
    if name == "adult":
        for wanted in ("raw", "label"):
            refused = run("predict", "--std", "--output-type", wanted, "m", test)
            assert (refused.returncode, "--std works with predictions only" in refused.stderr) == (2, True)
    assert b"draws" in run("inspect", "m").stdout
    refused = run.fails(2, "export", "m", "m.npz")
    assert "has 3 draws of all parameters" in refused.stderr


def test_ids_that_look_like_labels_get_a_warning(run, sample, tmp_path):
    """Rows without ids that are read with --id-column 1 lose their labels, which become the ids."""
    rows = (sample / "adult.train.libsvm").read_text().splitlines()[:100]
    features = [row.split(None, 1)[1] for row in rows]
    (tmp_path / "rows").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "names").write_text(
        "".join(f"{'spam' if row[0] == '1' else 'ham'} {row.split(None, 1)[1]}\n" for row in rows)
    )
    for model, text in (("m", "rows"), ("s", "names")):
        run.ok("train", "-q", "-e", "1", "-o", model, text)
    run.ok("train", "-q", "-e", "1", "--loss", "squared", "-o", "r", "rows")
    others = {
        "distinct": [f"{number} {row}" for number, row in enumerate(features)],
        "unknown": [f"u{number % 5} {row}" for number, row in enumerate(features)],
        "hex": [f"0x1 {row}" for row in features],
        "outside": [f"{number % 5} {row}" for number, row in enumerate(features)],
        "beside": [f"1 {row}" for row in rows],
        "one": [f"1 {features[0]}"],
    }
    for name, lines in others.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    for model, text, warned in (
        ("m", "rows", True),
        ("s", "names", True),
        ("r", "rows", True),
        *(("m", name, False) for name in others),
        ("r", "outside", False),
    ):
        done = run.ok("predict", "--id-column", "1", model, text)
        assert ("the ids look like labels" in done.stderr) == warned, (model, text)
    assert "look like" not in run("predict", "--id-column", "2", "m", "rows").stderr
