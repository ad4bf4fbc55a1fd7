"""Exported arrays describe the whole model: the slow definitions compute the same scores from them as predict."""

import numpy as np
import pytest
from modelfiles import export_arrays
from problems import DOUBLE, TRAINED
from test_every_pair import FIELDS, planted, run

from fmcli.registry.models import MODELS
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving
from reference import slow_models

pytestmark = pytest.mark.exact

TOLERANCE = 1e-12 if DOUBLE else 1e-5  # of scores beyond 1, relative
ROWS = 40
CASES = [(model, order) for model, piece in TRAINED.items() for order in ((2, 3) if "order" in piece.options else (2,))]


def samples(data):
    """Return the first rows in the format of the slow definitions."""
    value = np.ones(data.nnz) if data.value is None else data.value
    keys = (
        data.index.tolist() if data.field is None else list(zip(data.index.tolist(), data.field.tolist(), strict=True))
    )
    return [
        dict(zip(keys[begin:end], map(float, value[begin:end]), strict=True))
        for begin, end in zip(data.indptr[:ROWS], data.indptr[1 : ROWS + 1], strict=True)
    ]


@pytest.mark.parametrize("loss", ["squared", "huber", "softmax"])
@pytest.mark.parametrize(("model", "order"), CASES)
def test_exported_arrays_score_by_the_definition(model, loss, order, tmp_path):
    """Those of huber have another unit than the parameters in training."""
    train, test = planted(model, loss, rows=300)
    model_options = {"order": order} if "order" in MODELS[model].options else {}
    if loss == "huber":
        train = train.changed(label=30 + 7 * train.label)
        model_options |= {"scale_labels": True}
    trained = run(model, MODELS[model].solver, loss, train, epochs=1, **model_options)
    path = str(tmp_path / "model")
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    exported = export_arrays(path)
    center, scale = exported.pop("unit", (0.0, 1.0))  # of all-subsets, whose terms have different numbers of factors
    constants = trained.plan.model.constants
    choices = {"fields": FIELDS, **trained.plan.spec.values, **constants}
    arrays = {name: array for name, array in exported.items() if name not in constants}
    ours = load_model(path).scores(test)[:ROWS]
    slow = center + scale * np.array([slow_models.score(model, arrays, x, choices) for x in samples(test)])
    assert np.ptp(slow) > 0
    assert (np.abs(ours - slow) <= TOLERANCE * np.maximum(1, np.abs(slow))).all()
