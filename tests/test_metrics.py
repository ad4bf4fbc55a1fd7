"""Every metric with every loss that it supports, compared with its definition and with scikit-learn."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.special
from hypothesis import assume, given
from hypothesis import strategies as st

from fmcli.errors import UsageError
from fmcli.registry.losses import LOSSES
from fmcli.scoring.metrics import Outcome, allowed, check, default_metrics, measure
from reference import slow_losses
from reference.slow_losses import PROBABILITY

CLIP = 1e-15
SOFT = [name for name, loss in LOSSES.items() if loss.task == "soft"]
BINARY = [name for name, loss in LOSSES.items() if loss.task == "binary"]
COUNTS = [name for name, loss in LOSSES.items() if loss.task == "counts"]
CLASSES = [name for name, loss in LOSSES.items() if loss.task == "classes"]
every_loss = pytest.mark.parametrize("loss", LOSSES)
# The metrics of ordered labels are in tests/test_ordinal.py.
defined_here = pytest.mark.parametrize("loss", [name for name, loss in LOSSES.items() if loss.task != "levels"])


@st.composite
def outcomes(draw, loss):
    """Random outcomes with ties, extreme scores, weights of 0, and classes without labels or predictions."""
    rows = draw(st.integers(1, 25))
    outputs = draw(st.integers(2, 5)) if loss in CLASSES else 1
    highest = 20.0 if loss in COUNTS else 800.0
    scores = st.sampled_from([-800.0, -2.0, -0.0, 0.0, 0.5, 2.0, highest]) | st.floats(-40, min(40, highest))
    if loss in CLASSES:
        labels = st.integers(0, draw(st.integers(0, outputs - 1)))
    elif loss in BINARY:
        labels = st.sampled_from([-1, 1])
    elif loss in SOFT:
        labels = st.integers(0, 8).map(lambda eighths: eighths / 8)
    else:
        labels = st.integers(-40, 40).map(lambda eighths: eighths / 8)
    weights = st.sampled_from([0.0, 0.25, 1.0, 2.5])  # their sums are exact in floating point

    def column(values, length):
        return np.array(draw(st.lists(values, min_size=length, max_size=length)), dtype=float)

    weight = column(weights, rows) if draw(st.booleans()) else None
    assume(weight is None or weight.any())
    return Outcome(loss, column(labels, rows), column(scores, rows * outputs).reshape(rows, outputs), weight)


# The definitions, over rows (label, scores, weight) in plain Python.


def rows_of(outcome):
    return list(zip(outcome.label.tolist(), outcome.score.tolist(), outcome.weight.tolist(), strict=True))


def mean(rows, value):
    return math.fsum(w * value(y, s) for y, s, w in rows) / math.fsum(w for _, _, w in rows)


def is_symmetric(loss):
    """Whether changing the sign of the score of two labels exchanges them."""
    return PROBABILITY.get(loss, scipy.special.expit)(0.0) == 0.5


def predicted_class(loss, score):
    if loss in BINARY:
        # By the sign if possible, also of scores that are too small to change a probability.
        return 1 if (score[0] > 0 if is_symmetric(loss) else PROBABILITY[loss](score[0]) > 0.5) else -1
    return score.index(max(score))


def prediction(loss, score):
    if loss in SOFT:
        return float(scipy.special.expit(score[0]))
    return math.exp(score[0]) if loss in COUNTS else score[0]


def slow_logloss(loss, rows):
    def loss_of_row(y, score):
        if loss == "probit":
            return min(-math.log(CLIP), -float(scipy.special.log_ndtr(y * score[0])))
        if loss == "logistic":
            y, score = int(y > 0), [0.0, score[0]]
        elif loss in PROBABILITY:
            return min(-math.log(CLIP), float(slow_losses.LOSSES[loss](y, np.array(score))))
        top = max(score)
        total = math.fsum(math.exp(s - top) for s in score)
        return -math.log(max(CLIP, math.exp(score[int(y)] - top) / total))

    if loss in SOFT:
        largest = -math.log(CLIP)
        return mean(rows, lambda y, s: slow_losses.soft_logistic(y, np.clip(s, -largest, largest)))
    return mean(rows, loss_of_row)


def slow_auc(loss, rows):
    positive = [(s[0], Fraction(w)) for y, s, w in rows if y > 0]
    negative = [(s[0], Fraction(w)) for y, s, w in rows if y < 0]
    won = total = Fraction(0)
    for (s, w), (other, v) in itertools.product(positive, negative):
        total += w * v
        won += w * v * (1 if s > other else Fraction(1, 2) if s == other else 0)
    return float(won / total) if total else math.nan


def slow_pr_auc(loss, rows):
    """Each distinct score is a threshold. The precisions at all thresholds are weighted by the increase in recall."""
    rows = [(y, s[0], Fraction(w)) for y, s, w in rows if w]
    positive = sum(w for y, _, w in rows if y > 0)
    if not positive:
        return math.nan
    total = Fraction(0)
    for threshold in {s for _, s, _ in rows}:
        above = [(y, w) for y, s, w in rows if s >= threshold]
        precision = sum(w for y, w in above if y > 0) / sum(w for _, w in above)
        total += precision * sum(w for y, s, w in rows if y > 0 and s == threshold) / positive
    return float(total)


def slow_brier(loss, rows):
    def squares(y, score):
        if loss in PROBABILITY:
            return (float(PROBABILITY[loss](score[0])) - (y > 0)) ** 2
        return sum((p - (c == y)) ** 2 for c, p in enumerate(scipy.special.softmax(score).tolist()))

    return mean(rows, squares)


def slow_accuracy(loss, rows):
    return mean(rows, lambda y, s: y == predicted_class(loss, s))


def slow_rmse(loss, rows):
    return math.sqrt(mean(rows, lambda y, s: (prediction(loss, s) - y) ** 2))


def slow_mae(loss, rows):
    return mean(rows, lambda y, s: abs(prediction(loss, s) - y))


def slow_r2(loss, rows):
    center = mean(rows, lambda y, s: y)
    if len({y for y, _, _ in rows}) == 1:
        return math.nan
    return 1 - mean(rows, lambda y, s: (prediction(loss, s) - y) ** 2) / mean(rows, lambda y, s: (y - center) ** 2)


def by_class(loss, rows):
    """(true positives, false positives, false negatives) of every class that occurs as a label or a prediction."""
    told = [(y, predicted_class(loss, s), w) for y, s, w in rows]
    return [
        (
            sum(w for y, p, w in told if y == c == p),
            sum(w for y, p, w in told if y != c == p),
            sum(w for y, p, w in told if y == c != p),
        )
        for c in {y for y, _, _ in told} | {p for _, p, _ in told}
    ]


def slow_micro_f1(loss, rows):
    tp, fp, fn = map(sum, zip(*by_class(loss, rows), strict=True))
    return 2 * tp / (2 * tp + fp + fn)


def slow_macro_f1(loss, rows):
    f1 = [2 * tp / (2 * tp + fp + fn) for tp, fp, fn in by_class(loss, rows)]
    return sum(f1) / len(f1)


def slow_macro_f1_pr(loss, rows):
    classes = by_class(loss, rows)
    precision = sum(tp / (tp + fp) for tp, fp, _ in classes if tp) / len(classes)
    recall = sum(tp / (tp + fn) for tp, _, fn in classes if tp) / len(classes)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


SLOW = {
    "logloss": slow_logloss,
    "auc": slow_auc,
    "pr-auc": slow_pr_auc,
    "brier": slow_brier,
    "accuracy": slow_accuracy,
    "rmse": slow_rmse,
    "mae": slow_mae,
    "r2": slow_r2,
    "micro-f1": slow_micro_f1,
    "macro-f1": slow_macro_f1,
    "macro-f1-pr": slow_macro_f1_pr,
}


@defined_here
@given(st.data())
def test_against_definitions(loss, data):
    outcome = data.draw(outcomes(loss))
    measured = measure(allowed(loss, grouped=False), outcome)
    assert tuple(measured) == allowed(loss, grouped=False)
    for name, value in measured.items():
        assert isinstance(value, float), name
        slow = SLOW[name](loss, rows_of(outcome))
        if name == "auc":
            np.testing.assert_equal(value, slow)
        else:
            assert value == pytest.approx(slow, rel=1e-12, abs=1e-12, nan_ok=True), name


# The same metrics by scikit-learn, which warns if ours is nan.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [1, 16])
def test_auc_of_many_rows(decimals, weighted):
    rng = np.random.default_rng(0)
    label = np.where(rng.random(50_000) < 0.1, 1.0, -1.0)
    score = np.round(rng.normal(label / 2), decimals)
    weight = rng.exponential(size=len(label)) if weighted else None
    metrics = pytest.importorskip("sklearn.metrics")
    expected = metrics.roc_auc_score(label, score, sample_weight=weight)
    outcome = Outcome("logistic", label, score[:, None], weight)
    values = measure(["auc", "logloss"], outcome)
    assert 0.7 < expected < 0.8
    assert values["auc"] == pytest.approx(expected, rel=1e-12)
    assert values == measure(["auc", "logloss"], outcome, threads=2)


def test_auc_is_never_above_one():
    rng = np.random.default_rng(0)
    for _ in range(200):
        label = np.resize([-1.0, 1.0], 30)
        outcome = Outcome("logistic", label, (label * rng.random(30))[:, None], rng.random(30))
        value = measure(["auc"], outcome)["auc"]
        assert value <= 1
        assert value == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("seed", range(8))
def test_auc_sums_equal_scores_in_the_order_of_the_rows(seed):
    rng = np.random.default_rng(seed)
    label, weight = rng.choice([-1.0, 1.0], 10_000), rng.random(10_000)
    score = rng.integers(0, 5, 10_000).astype(float)
    grouped = np.concatenate([np.flatnonzero(score == s) for s in (3, 0, 4, 1, 2)])
    values = [
        measure(["auc"], Outcome("logistic", label[rows], score[rows, None], weight[rows]))["auc"]
        for rows in (np.arange(10_000), grouped)
    ]
    assert values[0] == values[1]


# Undefined metrics and extreme values.


def test_r2_of_equal_labels_is_nan():
    weight = np.array([0.3, 0.7, 1.9])
    assert math.isnan(measure(["r2"], Outcome("squared", np.full(3, 0.1), np.ones((3, 1)), weight))["r2"])


@every_loss
def test_nothing_to_measure_is_nan(loss):
    outputs = 3 if loss in CLASSES else 1
    label, score = np.array([1.0, 0.0 if loss in (*CLASSES, "ordinal") else -1.0]), np.ones((2, outputs))
    broken = score.copy()
    broken[0, -1] = np.inf
    for outcome in (
        Outcome(loss, label[:0], score[:0]),
        Outcome(loss, label, score, np.zeros(2)),
        Outcome(loss, label, broken),
        Outcome(loss, label, broken * np.nan),
    ):
        measured = measure(allowed(loss, grouped=False), outcome)
        assert tuple(measured) == allowed(loss, grouped=False)
        assert all(map(math.isnan, measured.values()))
    assert not any(map(math.isnan, measure(allowed(loss, grouped=False), Outcome(loss, label, score)).values()))


@pytest.mark.filterwarnings("error")
def test_probabilities_are_clipped_in_logloss():
    two = Outcome("logistic", np.array([-1.0, 1.0, 1.0]), np.array([[800.0], [-1e300], [1e300]]))
    assert measure(["logloss"], two)["logloss"] == pytest.approx(-2 / 3 * math.log(CLIP), rel=1e-15)
    three = Outcome("softmax", np.array([0.0, 2.0]), np.array([[-800.0, 800.0, 0.0], [0.0, 0.0, 1e300]]))
    assert measure(["logloss"], three)["logloss"] == pytest.approx(-1 / 2 * math.log(CLIP), rel=1e-15)


@pytest.mark.filterwarnings("error")
def test_overflowing_errors_are_infinite():
    outcome = Outcome("poisson", np.array([1.0, 2.0]), np.array([[800.0], [0.0]]))
    assert measure(["rmse", "mae", "r2"], outcome) == {"rmse": math.inf, "mae": math.inf, "r2": -math.inf}
    far_apart = Outcome("squared", np.array([-1.5e308, 1.5e308]), np.zeros((2, 1)))
    assert math.isnan(measure(["r2"], far_apart)["r2"])


def test_ties_go_to_the_first_class_and_to_the_negative_label():
    assert measure(["accuracy"], Outcome("softmax", np.array([0.0, 1.0]), np.zeros((2, 2))))["accuracy"] == 0.5
    assert measure(["accuracy"], Outcome("hinge", np.array([-1.0, -1.0]), np.array([[0.0], [-0.0]])))["accuracy"] == 1


# The metrics that each loss supports.


@every_loss
def test_defaults_fit(loss):
    assert default_metrics(loss)
    check(default_metrics(loss), loss)
    check(allowed(loss), loss)


def test_logloss_needs_probabilities():
    of_probabilities = [loss for loss in LOSSES if LOSSES[loss].likelihood or LOSSES[loss].task == "soft"]
    assert [loss for loss in LOSSES if "logloss" in allowed(loss)] == of_probabilities


def test_a_metric_that_does_not_fit_names_those_that_do():
    message = "metric logloss does not fit loss squared; use one of: rmse, mae, r2"
    with pytest.raises(UsageError, match=message):
        check(["rmse", "logloss"], "squared")
    check(["rmse", "logloss"], None)


def test_an_unknown_metric_names_the_known():
    for loss in ("logistic", None):
        with pytest.raises(UsageError, match=r"no metric 'acc'; did you mean accuracy\?"):
            check(["acc"], loss)


# Metrics of probabilities instead of scores.


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@given(st.data())
def test_probabilities_are_measured_as_their_scores(loss, data):
    outcome = data.draw(outcomes(loss))
    moderate = np.clip(outcome.score, -15, 15).round(2)  # otherwise different scores could give equal probabilities
    label, weight = outcome.label, outcome.weight
    p = scipy.special.expit(moderate) if loss == "logistic" else scipy.special.softmax(moderate, axis=1)
    told = Outcome(loss, label, p, weight, predicted=True)
    measured = measure(allowed(loss), Outcome(loss, label, moderate, weight))
    for name, value in measure(allowed(loss), told).items():
        assert value == pytest.approx(measured[name], rel=1e-8, abs=1e-8, nan_ok=True), name


def test_probabilities_of_0_and_1_are_measured():
    outcome = Outcome(
        "logistic", np.array([1.0, -1.0, 1.0, -1.0]), np.array([[1.0], [0.0], [0.0], [0.5]]), predicted=True
    )
    measured = measure(allowed("logistic"), outcome)
    assert measured["logloss"] == pytest.approx((math.log(2) - math.log(CLIP)) / 4, rel=1e-15)
    assert measured["brier"] == 1.25 / 4
    assert measured["accuracy"] == 0.75  # a probability of exactly 0.5 is predicted as negative
    assert measured["auc"] == 2.5 / 4
