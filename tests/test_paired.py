"""The difference of a metric of two models on the same rows, and its standard error, against definitions in NumPy."""

import math

import numpy as np
import pytest

from fmcli.data.labels import fit_labels
from fmcli.errors import UsageError
from fmcli.scoring.metrics import METRICS, Outcome, measure
from fmcli.scoring.paired import SLICES, Difference, check_comparable, difference

ROWS = 230


def two(rng, loss, rows=ROWS):
    """Labels, and the scores of two models that are alike, as outcomes of the same rows."""
    signal = rng.normal(size=(rows, 3 if loss == "softmax" else 1))
    noise = signal + rng.normal(size=signal.shape)
    if loss == "softmax":
        label = noise.argmax(axis=1).astype(float)
    else:
        label = noise[:, 0] if loss == "squared" else np.where(noise[:, 0] > 0.5, 1.0, -1.0)
    scores = [signal + share * rng.normal(size=signal.shape) for share in (0.5, 0.4)]
    return tuple(Outcome(loss, label, score) for score in scores)


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


def softmax(score):
    return np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)


# The value of each row; the metric is their mean.
BY_ROW = {
    ("squared", "mae"): lambda y, s: np.abs(s[:, 0] - y),
    ("logistic", "logloss"): lambda y, s: -np.log(sigmoid(y * s[:, 0])),
    ("logistic", "brier"): lambda y, s: (sigmoid(s[:, 0]) - (y > 0)) ** 2,
    ("logistic", "accuracy"): lambda y, s: (s[:, 0] > 0) == (y > 0),
    ("hinge", "micro-f1"): lambda y, s: (s[:, 0] > 0) == (y > 0),
    ("softmax", "logloss"): lambda y, s: -np.log(softmax(s)[np.arange(len(y)), y.astype(int)]),
    ("softmax", "brier"): lambda y, s: ((softmax(s) - np.eye(3)[y.astype(int)]) ** 2).sum(axis=1),
    ("softmax", "accuracy"): lambda y, s: s.argmax(axis=1) == y,
}


@pytest.mark.parametrize(("loss", "metric"), BY_ROW)
def test_the_error_of_a_mean_is_that_of_the_differences_of_rows(rng, loss, metric):
    new, current = two(rng, loss)
    rows = [BY_ROW[loss, metric](outcome.label, outcome.score).astype(float) for outcome in (new, current)]
    found = difference(metric, new, current)
    assert [found.value, found.current] == pytest.approx([values.mean() for values in rows])
    assert found.difference == pytest.approx((rows[0] - rows[1]).mean())
    assert found.error == pytest.approx(np.std(rows[0] - rows[1], ddof=1) / math.sqrt(ROWS))
    unpaired = math.hypot(*(np.std(values, ddof=1) / math.sqrt(ROWS) for values in rows))
    assert found.error < 0.9 * unpaired


def test_weights_count_in_the_error_of_a_mean(rng):
    new, current = two(rng, "logistic")
    weight = rng.uniform(0.5, 3, size=ROWS)
    weighted = [Outcome("logistic", one.label, one.score, weight) for one in (new, current)]
    rows = [BY_ROW["logistic", "logloss"](one.label, one.score) for one in (new, current)]
    mean = np.average(rows[0] - rows[1], weights=weight)
    found = difference("logloss", *weighted)
    assert found.difference == pytest.approx(mean)
    deviations = weight * (rows[0] - rows[1] - mean)
    assert found.error == pytest.approx(math.sqrt(ROWS / (ROWS - 1) * (deviations**2).sum()) / weight.sum())
    # A row of weight 0 does not count.
    without = [Outcome("logistic", one.label[1:], one.score[1:]) for one in (new, current)]
    zero = [Outcome("logistic", one.label, one.score, (np.arange(ROWS) > 0).astype(float)) for one in (new, current)]
    for metric in ("logloss", "auc"):
        assert difference(metric, *zero).error == pytest.approx(difference(metric, *without).error)


def jackknife(values):
    values = np.array(values)
    return math.sqrt((len(values) - 1) / len(values) * ((values - values.mean()) ** 2).sum())


def test_the_error_of_a_root_is_that_of_the_jackknife_over_rows(rng):
    new, current = two(rng, "squared")
    squares = [(one.score[:, 0] - one.label) ** 2 for one in (new, current)]
    without = [np.sqrt((values.sum() - values) / (ROWS - 1)) for values in squares]
    assert difference("rmse", new, current).error == pytest.approx(jackknife(without[0] - without[1]), rel=0.02)


def area(label, score):
    """The AUC by its definition: the share of pairs in the right order."""
    apart = score[label > 0][:, None] - score[label < 0]
    return ((apart > 0) + 0.5 * (apart == 0)).mean()


@pytest.mark.parametrize("rows", [40, 4 * SLICES])
def test_the_error_of_an_auc_is_that_of_the_jackknife_over_slices_of_rows(rng, rows):
    new, current = two(rng, "logistic", rows)
    values = []
    for left_out in np.array_split(np.arange(rows), min(SLICES, rows)):
        kept = np.setdiff1d(np.arange(rows), left_out)
        areas = [area(one.label[kept], one.score[kept, 0]) for one in (new, current)]
        values.append(areas[0] - areas[1])
    found = difference("auc", new, current, threads=2)
    assert [found.value, found.current] == pytest.approx([area(one.label, one.score[:, 0]) for one in (new, current)])
    assert found.error == pytest.approx(jackknife(values))


def test_metrics_of_groups_leave_out_whole_groups(rng):
    group = np.repeat(np.arange(20), 3)[rng.permutation(60)]
    both = [Outcome("logistic", one.label, one.score, group=group) for one in two(rng, "logistic", 60)]
    values = []
    for left_out in range(20):
        kept = group != left_out
        without = [Outcome("logistic", one.label[kept], one.score[kept], group=group[kept]) for one in both]
        gauc = [measure(["gauc"], one)["gauc"] for one in without]
        values.append(gauc[0] - gauc[1])
    assert difference("gauc", *both).error == pytest.approx(jackknife(values))


@pytest.mark.parametrize(
    ("loss", "metric"),
    [("logistic", "auc"), ("logistic", "pr-auc"), ("logistic", "macro-f1"), ("squared", "rmse"), ("squared", "r2")],
)
def test_errors_are_those_of_samples(loss, metric):
    """The standard deviation of the difference over many samples of rows is the mean error."""
    rng = np.random.default_rng(3)
    found = [difference(metric, *two(rng, loss, 100)) for _ in range(40)]
    spread = np.std([one.difference for one in found], ddof=1)
    assert np.mean([one.error for one in found]) == pytest.approx(spread, rel=0.25)


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if not metric.of_groups])
def test_a_model_is_not_worse_than_itself(rng, name):
    new, current = two(rng, "squared" if METRICS[name].fits("squared") else "logistic")
    same = difference(name, new, new)
    assert (same.difference, same.error, same.complaint(0.0)) == (0.0, 0.0, "")
    there, back = difference(name, new, current), difference(name, current, new)
    assert there.difference == -back.difference != 0
    assert there.error == pytest.approx(back.error)


@pytest.mark.parametrize(
    ("metric", "value", "current", "error", "margin", "words"),
    [
        ("auc", 0.80, 0.85, 0.02, 0.0, "auc is 0.8000 instead of 0.8500, worse by 0.05: more than 0, and more than 2"),
        ("auc", 0.80, 0.85, 0.02, 0.06, ""),  # within the margin
        ("auc", 0.80, 0.85, 0.03, 0.0, ""),  # within two errors
        ("auc", 0.85, 0.80, 0.0, 0.0, ""),  # better
        ("rmse", 0.85, 0.80, 0.02, 0.04, "rmse is 0.8500 instead of 0.8000, worse by 0.05: more than 0.04, and more"),
        ("rmse", 0.80, 0.85, 0.0, 0.0, ""),
        ("auc", math.nan, 0.85, math.nan, 0.0, "auc is undefined on these rows"),
        ("auc", 0.80, math.nan, math.nan, 0.0, ""),  # any value is better than an undefined one
        ("auc", 0.80, 0.85, math.nan, 0.0, "worse by 0.05, with a standard error that is undefined"),
        ("auc", 0.85, 0.85, math.nan, 0.0, ""),
    ],
)
def test_worse_is_by_more_than_the_margin_and_two_errors(metric, value, current, error, margin, words):
    complaint = Difference(metric, value, current, error).complaint(margin)
    assert (words in complaint) == bool(words or not complaint)
    assert bool(words) == bool(complaint)


def test_too_few_rows_have_no_error(rng):
    for loss, metric in (("logistic", "auc"), ("logistic", "logloss"), ("squared", "rmse")):
        assert math.isnan(difference(metric, *two(rng, loss, 1)).error)
    label, score = np.array([1.0, -1.0, -1.0]), np.array([[1.0], [0.5], [2.0]])
    assert math.isnan(difference("auc", Outcome("logistic", label, score), Outcome("logistic", label, -score)).error)


def test_labels_and_metrics_must_fit_both():
    numbers, two_values = fit_labels(np.arange(50.0), None), fit_labels(np.array([0.0, 1, 1]), None)
    others, signs = fit_labels(np.array([0.0, 2, 1]), "softmax"), fit_labels(np.array([1.0, -1]), None)
    hinge, names = fit_labels(np.array([0.0, 1]), "hinge"), fit_labels(np.array([0.0, 1]), None, names=("ham", "spam"))
    check_comparable("auc", two_values, hinge)
    check_comparable("accuracy", two_values, fit_labels(np.array([0.0, 1, 1]), "softmax"))
    check_comparable("rmse", numbers, fit_labels(np.arange(50.0), "huber"))
    for metric, other in (("auc", signs), ("accuracy", others), ("rmse", numbers), ("auc", names)):
        with pytest.raises(UsageError, match=r"cannot be compared, because their labels differ: 0, 1 .*, and "):
            check_comparable(metric, two_values, other)
    with pytest.raises(UsageError, match="metric logloss does not fit loss hinge"):
        check_comparable("logloss", two_values, hinge)
    for metric in ("loss", "sparsity"):
        with pytest.raises(UsageError, match=f"metric {metric} depends on how a model was trained"):
            check_comparable(metric, two_values, two_values)


@pytest.mark.parametrize(
    ("metric", "value", "current", "error", "errors", "better"),
    [
        ("rmse", 0.91, 0.92, 0.006, 1, True),
        ("rmse", 0.91, 0.92, 0.006, 2, False),
        ("rmse", 631_026.0, 631_027.0, 1e-3, 0, False),
        ("gauc", 0.812285, 0.812285, 0.0, 0, False),
        ("gauc", 0.8124, 0.8122, 0.1, 0, True),
        ("gauc", 0.8122, 0.8124, 0.1, 0, False),
        ("gauc", 0.9, 0.8, math.nan, 1, False),
    ],
)
def test_a_better_value_is_better_by_some_errors_and_no_tie(metric, value, current, error, errors, better):
    assert Difference(metric, value, current, error).better_by(errors) == better
