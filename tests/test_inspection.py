"""The views of a model, where their figures are known."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fmcli import inspection
from fmcli._core.model import REAL_TYPE
from fmcli.inspection import Subject, effects, hierarchy, largest


def subject(seen=None, **arrays):
    """A model of one output with these arrays."""
    arrays = {name: np.asarray([array], REAL_TYPE) for name, array in arrays.items()}
    features = arrays["V"].shape[1]
    scorer = SimpleNamespace(
        model=SimpleNamespace(outputs=1),
        labels=SimpleNamespace(values=None),
        seen=np.ones(features, bool) if seen is None else np.array(seen),
    )
    return Subject("m", scorer, True, 10, arrays)


def test_an_effect_that_vanishes_breaks_strong_hierarchy():
    V = [[0, 0], [1, 1], [2, -2], [0.1, 0.7]]
    (row,) = hierarchy(subject(V=V, v0=[1, 1]))
    assert row == {"zero": 0.25, "orthogonal": 1 / 3, "strong_hierarchy": False}
    (row,) = hierarchy(subject(V=V, v0=[1, 1], beta=[1, 2]))
    assert row == {"zero": 0.25, "orthogonal": 0, "strong_hierarchy": True}
    # Without a factor in common.
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
