"""fmcli evaluate: exact metrics on standard output, and exit statuses that scripts can test."""

import json
import math

import numpy as np
import pytest
import sklearn.metrics

from fmcli.cli.evaluate.report import MOST_CLASSES_SHOWN
from fmcli.scoring.evaluation import OF_MODELS, Limit
from fmcli.scoring.metrics import METRICS, allowed
from fmcli.scoring.scorer import load_model
from fmcli.text import figure


def figures(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def labels_of(path):
    return np.array([float(line.split()[0]) for line in path.read_text().splitlines()])


def predicted(run, *arguments):
    done = run.ok("predict", "-q", *arguments)
    return np.array([line.split() for line in done.stdout.splitlines()], float)


def test_two_valued_labels_as_sklearn_judges_them(run, sample, adult_model):
    test = sample / "adult.test.libsvm"
    got = figures(run("evaluate", "--json", adult_model, test))
    y = labels_of(test)
    raw = predicted(run, "--raw", adult_model, test)[:, 0]
    p = 1 / (1 + np.exp(-raw))
    label = np.where(raw > 0, 1, -1)
    assert (got["loss"], got["rows"], got["nonzeros"], got["unseen"]) == ("logistic", 1500, 20812, 6)
    metrics = got["metrics"]
    assert list(metrics) == ["loss", *allowed("logistic", grouped=False), "sparsity"]
    assert metrics["loss"] == pytest.approx(np.logaddexp(0, -y * raw).mean(), rel=1e-6)
    assert metrics["logloss"] == pytest.approx(sklearn.metrics.log_loss(y, p), rel=1e-6)
    assert metrics["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(y, raw), rel=1e-6)
    assert metrics["pr-auc"] == pytest.approx(sklearn.metrics.average_precision_score(y, raw), rel=1e-6)
    assert metrics["brier"] == pytest.approx(sklearn.metrics.brier_score_loss(y, p), rel=1e-6)
    assert metrics["accuracy"] == sklearn.metrics.accuracy_score(y, label)
    assert got["confusion"] == sklearn.metrics.confusion_matrix(y, label).tolist()
    table = sklearn.metrics.precision_recall_fscore_support(y, label)
    rows = [[row[name] for name in ("precision", "recall", "f1", "support")] for row in got["classes"]]
    np.testing.assert_allclose(rows, np.transpose(table), rtol=1e-12)
    assert [row["label"] for row in got["classes"]] == [-1, 1]


def test_numbers_as_sklearn_judges_them(run, sample, diabetes_model):
    test = sample / "diabetes.test.libsvm"
    got = figures(run("evaluate", "--json", diabetes_model, test))
    y, p = labels_of(test), predicted(run, diabetes_model, test)[:, 0]
    scale = load_model(str(diabetes_model)).labels.unit.scale  # in which the loss was minimized
    assert got["metrics"] == pytest.approx(
        {
            "loss": ((y - p) ** 2).mean() / 2 / scale**2,
            "rmse": sklearn.metrics.root_mean_squared_error(y, p),
            "mae": sklearn.metrics.mean_absolute_error(y, p),
            "r2": sklearn.metrics.r2_score(y, p),
            "sparsity": 0.0,
        },
        rel=1e-5,
    )
    assert "classes" not in got
    text = run("evaluate", diabetes_model, test).stdout.decode()
    assert [line.split()[0] for line in text.splitlines()] == list(got["metrics"])
    assert text.splitlines()[1].split()[1] == figure(got["metrics"]["rmse"])


@pytest.fixture
def classes(run, tmp_path):
    """A softmax model with three classes and its data."""
    rng = np.random.default_rng(3)
    rows = [f"{label} {2 * label + rng.integers(0, 4)}:1 {rng.integers(10, 14)}:0.5" for label in [0, 1, 2] * 60]
    (tmp_path / "t").write_text("\n".join(rows) + "\n")
    run.ok("train", "-q", "--loss", "softmax", "-o", "m", "t")
    return tmp_path / "m", tmp_path / "t"


def test_classes_as_sklearn_judges_them(run, classes):
    got = figures(run("evaluate", "--json", *classes))
    y, p = labels_of(classes[1]), predicted(run, *classes)
    label = p.argmax(axis=1)
    assert 0.4 < got["metrics"]["accuracy"] < 1
    of_label = p[np.arange(len(y)), y.astype(int)]
    assert got["metrics"]["logloss"] == pytest.approx(-np.log(of_label).mean(), rel=1e-5)
    assert got["metrics"]["macro-f1"] == pytest.approx(sklearn.metrics.f1_score(y, label, average="macro"))
    assert got["confusion"] == sklearn.metrics.confusion_matrix(y, label).tolist()
    text = run("evaluate", *classes).stdout.decode()
    table = text.split("prediction (across)\n")[1].splitlines()
    assert table[0].split() == ["label", "0", "1", "2"]
    assert [list(map(int, line.split()[1:])) for line in table[1:]] == got["confusion"]


def test_a_table_of_many_classes_is_printed_only_as_json(run, tmp_path):
    rows = [f"{label} {label}:1\n" for label in range(MOST_CLASSES_SHOWN + 1)]
    (tmp_path / "t").write_text("".join(rows))
    run.ok("train", "-q", "--loss", "softmax", "-o", "m", "t")
    assert "use --json for the table of labels and predictions" in run("evaluate", "m", "t").stdout.decode()
    assert np.shape(figures(run("evaluate", "--json", "m", "t"))["confusion"]) == (13, 13)


def test_undefined_is_null_and_a_dash(run, adult_model):
    rows = b"1 3:1\n1 4:1\n"
    got = figures(run("evaluate", "--json", adult_model, "-", input=rows))
    assert got["metrics"]["auc"] is None
    assert got["classes"][0]["recall"] is None
    assert run("evaluate", "-x", "auc", adult_model, "-", input=rows).stdout == b"auc  -\n"


def test_metrics_are_chosen_in_order_and_without_tables(run, sample, adult_model):
    test = sample / "adult.test.libsvm"
    everything = figures(run("evaluate", "--json", adult_model, test))
    chosen = figures(run("evaluate", "--json", "-x", "sparsity", "-x", "auc", "-x", "auc", adult_model, test))
    assert list(chosen["metrics"].items()) == [(name, everything["metrics"][name]) for name in ("sparsity", "auc")]
    assert "classes" not in chosen
    assert run("evaluate", "-x", "auc", adult_model, test).stdout.count(b"\n") == 1


def test_the_help_names_all_metrics(run):
    text = " ".join(run("evaluate", "--help-all").stdout.decode().split())
    listed = text.split("may be repeated: ")[1].split(". [default")[0].split(", ")
    assert set(listed) == {*METRICS, *OF_MODELS}
    smaller = text.split("smaller is better (")[1].split(")")[0].split(", ")
    assert set(smaller) == {name for name in listed if not Limit(name, 0).larger_is_better}


def test_threads_buffers_inputs_and_streams_do_not_matter(run, large, sample, adult_model):
    test = sample / "adult.test.libsvm"
    twice = run("evaluate", "--json", adult_model, test, test)
    assert figures(twice)["rows"] == 3000
    assert run("evaluate", "--json", adult_model, test, "-", input=test.read_bytes()).stdout == twice.stdout
    text = b"".join(
        (b"-1 " if number % 3 else b"1 ") + line.split(b" ", 1)[1] + b"\n"
        for number, line in enumerate(large.read_bytes().splitlines())
    )
    one = run("evaluate", "--json", "-j", "1", adult_model, "-", input=text)
    assert figures(one)["rows"] == 40_000
    for threads in "23":
        assert run("evaluate", "--json", "-j", threads, adult_model, "-", input=text).stdout == one.stdout


def test_unseen_features_are_counted_as_predict_does(run, adult_model):
    rows = b"1 3:1\n-1 3:1 100000:5 2147483646:1\n\n# nothing\n1 3:1 # why\n"
    done = run("evaluate", "--json", adult_model, "-", input=rows)
    assert figures(done)["rows"] == 3
    assert (figures(done)["nonzeros"], figures(done)["unseen"]) == (5, 2)
    assert "3 rows, 2 of 5 non-zeros unseen (40 %), 1 comment, " in done.stderr


def test_rows_are_scaled_as_predict_scales_them(run, sample, tmp_path):
    run.ok("train", "-q", "-e", "2", "--norm", "-o", "m", sample / "diabetes.train.libsvm")
    (tmp_path / "t").write_text("100 1:1 2:3\n200 1:2 77777:9\n")
    p = predicted(run, "m", "t")[:, 0]
    got = figures(run("evaluate", "--json", "m", "t"))
    assert got["metrics"]["mae"] == pytest.approx((abs(p[0] - 100) + abs(p[1] - 200)) / 2, rel=1e-6)


LONG = b"-1 3:1 4:1\n" * 300_000
BAD_ROWS = [
    ("unknown", b"-1 3:1\n\n# a\n1 3:1\n 7 3:1\n", "<stdin>:5:2: found '7', expected a label that the model knows: "),
    ("missing", b"-1 3:1\n3:1\n", "<stdin>:2:1: found '3:1', expected a label"),
    ("behind buffers", LONG + b"# a\n0.5 3:1\n", "<stdin>:300002:1: found '0.5', expected a label"),
    ("comments only", b"# nothing\n" * 200_000, "<stdin>: the file has no rows"),
]


@pytest.mark.parametrize("threads", "12")
@pytest.mark.parametrize(("rows", "message"), [row[1:] for row in BAD_ROWS], ids=[row[0] for row in BAD_ROWS])
def test_labels_that_cannot_be_judged(run, adult_model, rows, message, threads):
    done = run.fails(65, "evaluate", "-f", "libsvm", "-j", threads, adult_model, "-", input=rows)
    assert done.stderr.startswith(f"fmcli: error: {message}")
    assert done.stdout == b""
    if "label" in message:
        assert "; remove such rows, or train a model on data that has" in done.stderr or "predict" in done.stderr


def test_a_buffer_of_comments_is_passed_over(run, adult_model):
    rows = b"# nothing\n" * 300_000 + b"-1 3:1\n1 4:1\n"
    assert figures(run("evaluate", "-f", "libsvm", "--json", adult_model, "-", input=rows))["rows"] == 2


def test_counts_are_not_negative(run, tmp_path):
    (tmp_path / "t").write_text("3 1:1\n0 2:1\n1 1:1\n")
    run.ok("train", "-q", "--loss", "poisson", "-o", "m", "t")
    assert set(figures(run("evaluate", "--json", "m", "t"))["metrics"]) == {"loss", "rmse", "mae", "r2", "sparsity"}
    done = run.fails(65, "evaluate", "m", "-", input=b"1 1:1\n-2 1:1\n")
    assert "<stdin>:2:1: found '-2', expected a count" in done.stderr


# Limits.

LIMITS = [
    (["auc=0.5"], 0, ""),
    (["auc=0.99"], 1, "auc is 0."),
    (["logloss=0.99"], 0, ""),
    (["logloss=0.01"], 1, "logloss is 0."),
    (["brier=0.01"], 1, ", above 0.01"),
    (["loss=0.01"], 1, ", above 0.01"),
    (["sparsity=0.99"], 1, "sparsity is 0.04098, below 0.99"),
    (["auc=0.5", "accuracy=0.99", "logloss=0.1"], 1, ", below 0.99; logloss is 0."),
]


@pytest.mark.parametrize(("limits", "status", "message"), LIMITS, ids=[" ".join(row[0]) for row in LIMITS])
def test_limits(run, sample, adult_model, limits, status, message):
    options = [option for limit in limits for option in ("--fail-below", limit)]
    done = run("evaluate", "-q", "-x", "accuracy", *options, adult_model, sample / "adult.test.libsvm")
    assert done.returncode == status
    assert message in done.stderr
    assert bool(done.stderr) == bool(status)
    # The metrics are printed even if a limit is not met.
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == list(
        dict.fromkeys(["accuracy", *(limit.split("=")[0] for limit in limits)])
    )


def test_a_limit_equal_to_the_metric_is_met(run, sample, diabetes_model):
    test = sample / "diabetes.test.libsvm"
    metrics = figures(run("evaluate", "--json", diabetes_model, test))["metrics"]
    for name, worse in (("rmse", -math.inf), ("mae", -math.inf), ("r2", math.inf)):
        met, missed = metrics[name], math.nextafter(metrics[name], worse)
        run.ok("evaluate", "--fail-below", f"{name}={met!r}", diabetes_model, test)
        run.fails(1, "evaluate", "--fail-below", f"{name}={missed!r}", diabetes_model, test)


def test_undefined_metrics_fail_every_limit(run, adult_model):
    done = run.fails(1, "evaluate", "--fail-below", "auc=0.1", adult_model, "-", input=b"1 3:1\n")
    assert "auc is undefined on these rows" in done.stderr


# Predictions instead of a model.


@pytest.mark.parametrize("raw", [False, True])
def test_predictions_are_judged_as_their_model(run, sample, adult_model, tmp_path, raw):
    test = sample / "adult.test.libsvm"
    flag = ["--raw"] if raw else []
    run.ok("predict", "-q", "-o", "p", *flag, adult_model, test)
    by_model = figures(run("evaluate", "--json", adult_model, test))
    done = run("evaluate", "--json", *flag, "--predictions", "p", test)
    by_file = figures(done)
    assert f"1,500 rows of {'scores' if raw else 'probabilities'}, evaluated as loss logistic" in done.stderr
    for name, value in by_file["metrics"].items():
        assert value == pytest.approx(by_model["metrics"][name], rel=1e-5), name
    assert set(by_model["metrics"]) - set(by_file["metrics"]) == set(OF_MODELS)
    assert by_file["confusion"] == by_model["confusion"]
    assert by_file["predictions"] == "p"
    piped = run("evaluate", "--json", *flag, "--predictions", "-", test, input=(tmp_path / "p").read_bytes())
    assert figures(piped)["metrics"] == by_file["metrics"]


def test_predictions_of_classes_and_of_numbers(run, classes, sample, diabetes_model):
    test = sample / "diabetes.test.libsvm"
    for model, rows in (classes, (diabetes_model, test)):
        run.ok("predict", "-q", "-o", "p", model, rows)
        by_model = figures(run("evaluate", "--json", model, rows))
        by_file = figures(run("evaluate", "--json", "--predictions", "p", rows))
        assert by_file["loss"] == by_model["loss"]
        for name, value in by_file["metrics"].items():
            assert value == pytest.approx(by_model["metrics"][name], rel=1e-4), name


def test_ties_among_predictions_as_sklearn_counts_them(run, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.choice([1, 2], 500)
    p = np.clip((y - 1.4 + rng.normal(size=500)).round(1) / 4 + 0.3, 0, 1).round(2)
    (tmp_path / "p").write_text("".join(f"{number}\n" for number in p))
    (tmp_path / "t").write_text("".join(f"{label} 0:1\n" for label in y))
    metrics = figures(run("evaluate", "--json", "--predictions", "p", "t"))["metrics"]
    assert len(set(p)) < 50
    assert metrics["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(y, p), rel=1e-12)
    assert metrics["pr-auc"] == pytest.approx(sklearn.metrics.average_precision_score(y, p, pos_label=2), rel=1e-12)
    assert metrics["brier"] == pytest.approx(sklearn.metrics.brier_score_loss(y, p, pos_label=2), rel=1e-12)
    hinge = figures(run("evaluate", "--json", "--loss", "hinge", "--predictions", "p", "t"))["metrics"]
    assert "logloss" not in hinge
    assert hinge["auc"] == metrics["auc"]
    assert hinge["accuracy"] == np.mean((p > 0) == (y == 2))
    numbers = figures(run("evaluate", "--json", "--loss", "squared", "--predictions", "p", "t"))["metrics"]
    assert numbers["mae"] == pytest.approx(np.abs(p - y).mean(), rel=1e-12)


ROWS = b"1 1:1\n-1 1:1\n"
BAD_PREDICTIONS = [
    ("too few", b"0.5\n", [], "p has 1 lines, but <stdin> has 2 labeled rows"),
    ("too many", b"0.5\n0.5\n0.5\n", [], "p has 3 lines, but"),
    ("not a probability", b"0.5\n1.5\n", [], "p:2: found 1.5, expected a probability, because the loss is logistic"),
    ("a negative one", b"0.25 -0.5\n0.5 0.5\n", [], "p:1: found -0.5, expected a probability, because the loss is"),
    ("a word", b"0.5\nyes\n", [], "p:2: found 'yes', expected a number"),
    ("a blank line", b"0.5\n\n0.5\n", [], "p:2: found '', expected a number"),
    ("nan", b"nan\n0.5\n", [], "p:1: found 'nan', expected a number"),
    ("ragged", b"0.5 0.5\n0.5\n", [], "p:2: found '0.5', expected 2 numbers"),
    ("a class too many", b"0 0 1\n0 0 1\n", [], "p has 3 numbers per line, but loss softmax with the labels of"),
    ("classes for numbers", b"0 1\n0 1\n", ["--loss", "squared"], "p has 2 numbers per line, but loss squared"),
    ("empty", b"", [], "p: the file has no predictions"),
]


@pytest.mark.parametrize(
    ("text", "options", "message"), [row[1:] for row in BAD_PREDICTIONS], ids=[row[0] for row in BAD_PREDICTIONS]
)
def test_predictions_that_cannot_be_judged(run, tmp_path, text, options, message):
    (tmp_path / "p").write_bytes(text)
    done = run.fails(65, "evaluate", *options, "--predictions", "p", "-", input=ROWS)
    assert done.stderr.startswith(f"fmcli: error: {message}")


def test_one_label_value_does_not_tell_what_predictions_are(run, tmp_path):
    (tmp_path / "p").write_text("0.5\n")
    done = run.fails(65, "evaluate", "--predictions", "p", "-", input=b"1 1:1\n")
    assert "every label is 1, and a single value does not determine" in done.stderr
    run.ok("evaluate", "--loss", "squared", "--predictions", "p", "-", input=b"1 1:1\n")


MISUSE = [
    ([], "missing argument 'MODEL INPUT...'"),
    (["m"], "missing argument 'INPUT...'"),
    (["--predictions", "p"], "missing argument 'INPUT...'"),
    (["--predictions", "-", "-"], "standard input (-) can be read only once"),
    (["--loss", "logistic", "m", "t"], "--loss needs --predictions"),
    (["--raw", "m", "t"], "--raw needs --predictions"),
    (["--predictions", "p", "--loss", "nosuch", "t"], "there is no loss 'nosuch'; there are: squared,"),
    (["-x", "acc", "m", "t"], "there is no metric 'acc'"),
    (["-x", "rmse", "m", "t"], "metric rmse does not fit loss logistic"),
    (["--fail-below", "rmse=1", "m", "t"], "metric rmse does not fit loss logistic"),
    (["--fail-below", "auc", "m", "t"], "--fail-below auc: it must be METRIC=X with a number X"),
    (["--fail-below", "auc=high", "m", "t"], "--fail-below auc=high: it must be METRIC=X"),
    (["--fail-below", "auc=nan", "m", "t"], "it must be METRIC=X"),
    (["-x", "sparsity", "--predictions", "p", "t"], "metric sparsity needs a MODEL"),
    (["--fail-below", "loss=1", "--predictions", "p", "t"], "metric loss needs a MODEL"),
]


@pytest.mark.parametrize(("arguments", "message"), MISUSE, ids=[" ".join(row[0]) or "nothing" for row in MISUSE])
def test_misuse_is_found_before_the_rows_are_read(run, tmp_path, adult_model, arguments, message):
    (tmp_path / "m").symlink_to(adult_model)
    (tmp_path / "p").write_text("0.5\n")
    (tmp_path / "t").write_text("1 this is no row\n")
    done = run.fails(2, "evaluate", *arguments)
    assert message in done.stderr


def test_a_missing_input(run, adult_model):
    run.fails(66, "evaluate", adult_model, "missing")
    run.fails(66, "evaluate", "--predictions", "missing", adult_model)


def test_two_label_values_that_are_taken_as_numbers(run, tmp_path):
    """kernel-basis is a regression, so it counts no classes for any labels."""
    (tmp_path / "t").write_text("1 1:1 2:3\n0 1:2\n1 2:2\n0 1:1 2:1\n" * 5)
    run.ok("train", "-q", "-m", "kernel-basis", "-k", "2", "-o", "m", "t")
    done = run.ok("evaluate", "m", "t")
    assert b"rmse" in done.stdout
    assert b"Classes" not in done.stdout
