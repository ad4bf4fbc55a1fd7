"""Predictions are clipped to the range of the training labels, if the model says so."""

import json

import numpy as np
import pytest
from problems import dataset

from fmcli.errors import BadInputError, UsageError
from fmcli.model_file.container import load, save
from fmcli.registry.specs import make_spec
from fmcli.scoring.evaluation import evaluate_model
from fmcli.scoring.prediction import Counts
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving

RATINGS = [1.0, 2, 3, 4, 5] * 8


def fitted(path, labels=RATINGS, *, loss=None, keywords=None, valid=None, **options):
    """A linear model that predicts far outside the range of its labels for feature 1, which is in one training row."""
    rows = [{0: 1.0}] * (len(labels) - 1) + [{1: 0.01}]
    spec = make_spec("linear", "cd", loss, {"l2": 0.0, **options})
    trained = job.train(job.plan(dataset(rows, 2, labels), spec, valid=valid, **(keywords or {})))
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    return trained


FAR = dataset([{1: 1.0}, {1: -1.0}, {0: 1.0}], 2, [5.0, 1.0, 3.0])


def predictions(path, output):
    return load_model(path).predictions(FAR, output)[:, 0]


@pytest.mark.parametrize(
    ("labels", "options", "keywords", "limits"),
    [
        (RATINGS, {}, {}, (1, 5)),
        (RATINGS, {"clip": False}, {}, None),
        (RATINGS, {}, {"stream": True}, (1, 5)),
        ([*RATINGS, 500.0], {}, {}, (1, 500)),
        ([-3.0, *RATINGS], {"clip": True}, {}, (-3, 5)),
    ],
)
def test_the_range_of_clipped_predictions(tmp_path, labels, options, keywords, limits):
    path = str(tmp_path / "m")
    trained = fitted(path, labels, keywords=keywords, valid=FAR, **options)
    raw = predictions(path, "raw")
    assert raw[0] > 10
    assert raw[1] < -10
    wanted = raw if limits is None else np.clip(raw, *limits)
    assert (predictions(path, "value") == wanted).all()
    assert (predictions(path, "label") == wanted).all()
    assert load_model(path).default_output() == "value"
    rmse = np.sqrt(np.mean((wanted - FAR.label) ** 2))
    assert trained.epochs[-1].valid["rmse"] == pytest.approx(rmse)
    summary = job.summary(trained)
    assert summary["valid"]["rmse"] == pytest.approx(rmse)
    assert summary["train"]["rmse"] < 1e3
    assert trained.plan.spec.values["clip"] == (limits is not None)


def test_two_labels_of_a_closed_form_are_clipped_to_the_signs_that_they_stand_for(tmp_path):
    path = str(tmp_path / "m")
    rows = dataset([{0: 1.0}, {1: 1.0}] * 20, 2, [0.0, 1.0] * 20)
    trained = job.train(job.plan(rows, make_spec("kernel-basis", None, None, {"rank": 2})))
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    far = dataset([{0: 1.0}, {0: 9.0}, {1: 9.0}], 2, [0.0, 0.0, 1.0])
    raw, clipped = (load_model(path).predictions(far, output)[:, 0] for output in ("raw", "value"))
    assert -1 < raw[0] < 0
    assert raw[1] < -1
    assert raw[2] > 1
    assert (clipped == [raw[0], -1, 1]).all()


def test_evaluate_judges_what_predict_writes(tmp_path):
    path, rows = str(tmp_path / "m"), tmp_path / "rows"
    fitted(path)
    rows.write_text("5 1:1\n1 1:-1\n3 0:1\n")
    outcome = evaluate_model(load_model(path), [str(rows)], format="libsvm", threads=1, counts=Counts())
    np.testing.assert_allclose(outcome.error, predictions(path, "value") - FAR.label, rtol=1e-6)
    assert np.abs(outcome.score).max() > 10


def test_a_run_that_resumes_widens_the_range(tmp_path):
    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    fitted(first)
    warm_start = {"warm_start": saving.load_warm_start(first)}
    fitted(second, [2.0, 3.0, 7.5, 2.5] * 10, keywords=warm_start)
    assert load_model(second).clip == (1, 7.5)
    fitted(third, [2.0, 3.0, 7.5, 2.5] * 10, keywords=warm_start, clip=False)
    assert load_model(third).clip is None
    fitted(first, [1.0, 2, 300], clip=False)
    fitted(second, [2.0, 3.0], keywords={"warm_start": saving.load_warm_start(first)})
    assert load_model(second).clip is None
    fitted(second, [2.0, 3.0], keywords={"warm_start": saving.load_warm_start(first)}, clip=True)
    assert load_model(second).clip == (1, 300)


def test_only_numbers_are_clipped(tmp_path):
    with pytest.raises(UsageError, match="clip applies only to loss squared"):
        make_spec("fm", loss="huber", options={"clip": True})
    with pytest.raises(UsageError, match="not to logistic"):
        fitted(str(tmp_path / "m"), [0.0, 1.0] * 10, clip=True)
    fitted(str(tmp_path / "m"), loss="poisson")
    scorer = load_model(str(tmp_path / "m"))
    assert scorer.clip is None
    raw, value = predictions(str(tmp_path / "m"), "raw"), predictions(str(tmp_path / "m"), "value")
    np.testing.assert_allclose(value, np.exp(raw))


def test_a_range_that_contradicts_the_model_is_refused(tmp_path):
    path = str(tmp_path / "m")
    fitted(path)
    file = load(path)
    meta = json.loads(json.dumps(file.meta))
    for wrong in (None, [5.0, 1.0], [1.0], "1 5", [1.0, True]):
        file.meta.clear()
        file.meta.update(meta | {"range": wrong})
        save(path, file)
        with pytest.raises(BadInputError, match="range"):
            load_model(path)
