"""Metrics from summaries of parts of the rows equal the metrics of all rows at once."""

from types import SimpleNamespace

import numpy as np
import pytest

from fmcli.errors import NotEnoughMemoryError, UsageError
from fmcli.scoring.metrics import METRICS, Metric, Outcome, Statistic, allowed, measure
from fmcli.scoring.summary import Combined, Summary, check_combined, summary_of
from fmcli.system import memory

# Those that are sums of numbers of rows, if all weights are 1.
EXACT = ("auc", "pr-auc", "accuracy", "micro-f1", "macro-f1", "macro-f1-pr")
OF_GROUPS = ("gauc", "ndcg", "ndcg@2", "map")
LABELS = {"logistic": (-1, 1), "hinge": (-1, 1), "squared": (0.5, 7.25, -3), "poisson": (0, 1, 5), "softmax": (0, 1, 2)}
LABELS["soft-logistic"] = (0, 0.25, 1)


def rows_of(rng, loss, rows, weighted):
    label = rng.choice(LABELS[loss], rows).astype(float)
    score = np.round(rng.normal(size=(rows, 3 if loss == "softmax" else 1)), 1)  # with ties
    weight = rng.choice([0, 0.5, 1, 3], rows) if weighted else None
    return label, score, weight


def outcome_of(loss, label, score, weight):
    """Groups have rows of several parts."""
    return Outcome(loss, label, score, weight, group=np.arange(len(label)) % 7)


def joined_of(loss, label, score, weight, cuts, with_table=False, metrics=()):
    joined = Combined()
    for part in np.split(np.arange(len(label)), cuts):
        groups = part % 7
        outcome = Outcome(loss, label[part], score[part], None if weight is None else weight[part], group=groups)
        joined.add(summary_of(outcome, metrics or allowed(loss), None, with_table))
    return joined


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LABELS)
def test_metrics_are_those_of_all_rows(rng, loss, weighted):
    label, score, weight = rows_of(rng, loss, 300, weighted)
    names = allowed(loss) + (() if loss == "softmax" else ("ndcg@2",))
    assert ("gauc" in names) == (loss != "softmax")
    expected = measure(names, outcome_of(loss, label, score, weight))
    got = joined_of(loss, label, score, weight, [1, 2, 2, 50, 51, 200], metrics=names).figures(names, None)
    assert list(got) == list(names)
    for name in names:
        assert np.isfinite(expected[name])
        tolerance = 0 if name in OF_GROUPS or (name in EXACT and not weighted) else 1e-13
        assert got[name] == pytest.approx(expected[name], rel=tolerance, abs=0), name


def test_tables_are_summed(rng):
    label, score, _ = rows_of(rng, "softmax", 90, False)
    whole = joined_of("softmax", label, score, None, [], True)
    assert whole.table.sum() == 90
    np.testing.assert_array_equal(joined_of("softmax", label, score, None, [30, 31], True).table, whole.table)


def test_metrics_that_are_undefined(rng):
    label, score, _ = rows_of(rng, "squared", 20, False)
    same = joined_of("squared", np.full(20, 0.1), score, None, [7, 9])
    assert np.isnan(same.figures(["r2"], None)["r2"])
    assert same.usable
    score[13] = np.nan
    broken = joined_of("squared", label, score, None, [7, 9])
    assert not broken.usable
    assert np.isnan([*broken.figures(allowed("squared"), None).values()]).all()
    assert not Combined().usable
    one_class = joined_of("logistic", np.ones(20), rng.normal(size=(20, 1)), None, [5])
    assert np.isnan(one_class.figures(["auc"], None)["auc"])


def test_errors_that_overflow():
    score = np.array([[1e300], [1.0], [2.0]])
    expected = measure(["rmse"], Outcome("squared", np.zeros(3), score))
    assert (
        joined_of("squared", np.zeros(3), score, None, [1], metrics=["rmse"]).figures(["rmse"], None)
        == expected
        == {"rmse": np.inf}
    )


def test_memory_for_the_scores(monkeypatch, rng):
    monkeypatch.setattr(memory, "LARGE", 1)
    monkeypatch.setattr(memory, "_tightest", lambda root: (0, "in this test", "ask for more"))
    label, score, _ = rows_of(rng, "logistic", 20, False)
    with pytest.raises(NotEnoughMemoryError, match=r"the AUC of 1[0-9] scores needs"):
        joined_of("logistic", label, score, None, [])


def test_a_metric_that_is_no_mean_is_refused(monkeypatch):
    def median(error):
        return float(np.median(np.abs(error)))

    monkeypatch.setitem(
        METRICS, "median", Metric("median", "Median error.", False, METRICS["mae"].tasks, Statistic("error"), median)
    )
    check_combined(["loss", "sparsity", *METRICS.keys() - {"median"}, "ndcg@3"])
    with pytest.raises(UsageError, match="metric median needs all rows at once"):
        check_combined(["mae", "median"])


def test_only_what_is_chosen_is_kept(rng):
    label, score, _ = rows_of(rng, "logistic", 20, False)
    summary = summary_of(Outcome("logistic", label, score), ["logloss"], SimpleNamespace(), False)
    statistic = METRICS["logloss"].statistic
    assert summary == Summary(20, True, {statistic: summary.statistics[statistic]})
