"""The views of a model, for models with known results."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from modelfiles import export_arrays
from problems import TRAINED
from test_every_pair import planted, run

from fmcli.cli.figures import as_json, section
from fmcli.data.counts.occurrences import UNKNOWN
from fmcli.inspect import inspection
from fmcli.inspect.inspection import (
    Subject,
    degrees,
    effects,
    hierarchy,
    inspect_model,
    largest,
    shares_of_degrees,
    views,
)
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.models import MODELS
from fmcli.training.job import summary
from fmcli.training.saving import save_model


def subject(seen=None, **arrays):
    """A model with one output and the given arrays."""
    arrays = {name: np.asarray([array], REAL_TYPE) for name, array in arrays.items()}
    features = arrays["V"].shape[1]
    scorer = SimpleNamespace(
        model=SimpleNamespace(outputs=1),
        ids=np.ndarray.tolist,
        labels=SimpleNamespace(shown=None),
        occurrences=UNKNOWN,
        seen=np.ones(features, bool) if seen is None else np.array(seen),
    )
    return Subject("m", scorer, True, 10, arrays)


def test_an_effect_that_vanishes_breaks_strong_hierarchy():
    V = [[0, 0], [1, 1], [2, -2], [0.1, 0.7]]
    (row,) = hierarchy(subject(V=V, v0=[1, 1]))
    assert row == {"zero": 0.25, "orthogonal": 1 / 3, "strong_hierarchy": False}
    (row,) = hierarchy(subject(V=V, v0=[1, 1], beta=[1, 2]))
    assert row == {"zero": 0.25, "orthogonal": 0, "strong_hierarchy": True}
    # The features have no non-zero factor in common.
    assert not hierarchy(subject(V=[[0, 1]], v0=[1, 0]))[0]["strong_hierarchy"]


def test_rounding_is_no_effect():
    v0 = np.array([1 / 3, 0.7, 0.2])
    v = np.array([0.7, -1 / 3, 0.0])
    assert not hierarchy(subject(V=[v], v0=v0))[0]["strong_hierarchy"]
    assert hierarchy(subject(V=[v + 1e-5], v0=v0))[0]["strong_hierarchy"]


def test_features_that_never_occur_do_not_count():
    (row,) = hierarchy(subject(V=[[0, 0], [1, 1]], v0=[1, 1], seen=[False, True]))
    assert row["zero"] == 0
    (row,) = hierarchy(subject(V=[[0, 0]], v0=[1, 1], seen=[False]))
    assert math.isnan(row["zero"])
    assert math.isnan(row["orthogonal"])


def test_large_arrays_are_seen_in_parts(monkeypatch, rng):
    model = subject(V=rng.normal(size=(50, 3)), v0=rng.normal(size=3))
    whole = effects(model), hierarchy(model), inspection.arrays(model)
    monkeypatch.setattr(inspection, "CHUNK", 7)
    assert (effects(model), hierarchy(model)) == whole[:2]
    for part, row in zip(inspection.arrays(model), whole[2], strict=True):
        assert part == {**row, "norm": pytest.approx(row["norm"])}


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_the_largest_come_first_and_ties_by_place(rng, count):
    values = rng.integers(-4, 5, 30).astype(float)
    order = sorted((j for j in range(30) if values[j]), key=lambda j: (-abs(values[j]), j))
    assert largest(values, count).tolist() == order[:count]
    assert largest(np.zeros(5), count).tolist() == []


def test_degrees(rng):
    factors = {f"P{degree}": rng.normal(size=(5, degree)) for degree in (2, 3)}
    rows = degrees(subject(V=np.zeros((5, 1)), **factors))
    assert [row["degree"] for row in rows] == [2, 3]
    norms = [np.linalg.norm(factor) for factor in factors.values()]
    assert [row["norm"] for row in rows] == pytest.approx(norms, rel=1e-6)
    theta = [0.25, 0.75]
    rows = shares_of_degrees(subject(V=np.zeros((5, 1)), theta=theta))
    assert rows == [{"degree": 1, "theta": 0.25}, {"degree": 2, "theta": 0.75}]


KINDS = [(model, loss) for model in TRAINED for loss in ("squared", "softmax")]


@pytest.mark.parametrize(("model", "loss"), [*KINDS, ("kernel-basis", "squared")])
def test_every_kind_can_be_inspected(model, loss, tmp_path):
    """As text and as JSON, with all arrays that are exported."""
    if MODELS[model].closed_form:
        trained = run(model, None, loss, planted("fm", loss, rows=300)[0])
    else:
        trained = run(model, MODELS[model].solver, loss, planted(model, loss, rows=300)[0], epochs=1)
    path = str(tmp_path / "model")
    save_model(path, trained, summary(trained), "libsvm")
    found = {view.name: figures for view, figures in views(inspect_model(path))}
    assert [row["array"] for row in found["arrays"]] == list(export_arrays(path))
    # In llfm, a feature has one weight for each anchor.
    special = {"anchors": "anchors"} if "anchors" in export_arrays(path) else {"w": "weights"}
    for array, view in {"P2": "degrees", "theta": "theta", "v0": "main_effects", **special}.items():
        assert (array in export_arrays(path)) <= (view in found)
    assert json.loads(as_json(found)).keys() == found.keys()
    for figures in found.values():
        assert section(figures)
