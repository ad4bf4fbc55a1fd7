"""Tables of classes, limits and lines of predictions: cases that the tests of the command do not cover."""

import math

import numpy as np
import pytest
import sklearn.metrics

from fmcli.scoring import evaluation
from fmcli.scoring.evaluation import Limit, class_table, confusion, read_predictions
from fmcli.scoring.metrics import METRICS, Outcome


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_tables_of_classes_as_sklearn_has_them(rng, classes):
    # The last class never occurs and the first is never predicted, so some metrics are undefined.
    label = rng.integers(0, classes - 1, 40).astype(float)
    score = rng.normal(size=(40, classes))
    score[:, 0] = -9
    outcome = Outcome("softmax", label, score)
    table = confusion(outcome)
    names = list(range(classes))
    predicted = score.argmax(axis=1)
    np.testing.assert_array_equal(table, sklearn.metrics.confusion_matrix(label, predicted, labels=names))
    expected = sklearn.metrics.precision_recall_fscore_support(label, predicted, labels=names, zero_division=np.nan)
    rows = class_table(names, table)
    got = [[row[name] for name in ("precision", "recall", "f1", "support")] for row in rows]
    np.testing.assert_allclose(got, np.transpose(expected), rtol=1e-12)
    assert math.isnan(rows[0]["precision"])
    assert math.isnan(rows[-1]["recall"])


def test_a_table_of_two_labels_has_the_smaller_first():
    outcome = Outcome("hinge", np.array([-1.0, -1, -1, 1]), np.array([[1.0], [-1], [0], [3]]))
    assert confusion(outcome).tolist() == [[2, 1], [0, 1]]


@pytest.mark.parametrize("name", [*METRICS, *evaluation.OF_MODELS])
def test_a_worse_metric_fails_its_limit(name):
    limit = Limit(name, 0.5)
    better, worse = (0.6, 0.4) if limit.larger_is_better else (0.4, 0.6)
    assert (limit.complaint(0.5), limit.complaint(better)) == ("", "")
    assert name in limit.complaint(worse)
    assert "undefined" in limit.complaint(math.nan)


def test_predictions_of_many_buffers(tmp_path, monkeypatch, rng):
    numbers = rng.normal(size=(1000, 3))
    path = tmp_path / "p"
    path.write_text("\r\n".join(" ".join(map(repr, row)) for row in numbers.tolist()))
    monkeypatch.setattr(evaluation, "BUFFER_BYTES", 500)
    np.testing.assert_array_equal(read_predictions(str(path)), numbers)
