"""Small random data and models, as compiled objects and as what the slow definitions take."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fmcli._core.data import Dataset
from fmcli._core.loop import Trainer, scores
from fmcli._core.loss import Loss
from fmcli._core.model import Model, Workspace
from fmcli._core.simd import REAL
from fmcli.registry import MODELS
from fmcli.specs import build_model
from reference.slow_models import Params, Sample

DOUBLE = REAL == "double"
# One score or gradient, and parameters that followed many updates.
CLOSE: dict[str, float] = {"rtol": 1e-12, "atol": 1e-12} if DOUBLE else {"rtol": 1e-5, "atol": 1e-5}
FOLLOWED: dict[str, float] = {"rtol": 1e-9, "atol": 1e-9} if DOUBLE else {"rtol": 1e-4, "atol": 1e-4}


def random_rows(rng: np.random.Generator, rows: int, features: int, ones: bool = False) -> list[Sample]:
    """Rows of 0 to `features` entries; the first is empty, the second full."""
    sizes = [0, features, *rng.integers(0, features + 1, size=rows - 2)]
    values = [1.0] if ones else np.float32(rng.uniform(0.2, 2, size=50) * rng.choice([-1, 1], size=50)).tolist()
    return [
        {int(j): float(rng.choice(values)) for j in sorted(rng.choice(features, size, replace=False))} for size in sizes
    ]


def dataset(rows: Sequence[Sample], features: int, labels: Sequence[float] | None = None, weights=None) -> Dataset:
    """The rows as the compiled core takes them; values that are all 1 are left out, as the reader does."""
    values = np.array([x[j] for x in rows for j in x], dtype=np.float32)
    return Dataset(
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.array([j for x in rows for j in x], dtype=np.int32),
        None if (values == 1).all() else values,
        None if labels is None else np.array(labels, dtype=np.float64),
        features,
        weight=None if weights is None else np.array(weights, dtype=np.float64),
    )


# The kinds that solvers train.
TRAINED = {name: piece for name, piece in MODELS.items() if not piece.closed_form}
# Options of kinds that suit small data.
SMALL: dict[str, dict[str, Any]] = {
    "llfm": {"anchors": 3, "neighbours": 2, "coding_c": 0.2, "lc": 0.1, "llfm_variant": "jo", "anchor_rate": 0.05},
}


def choices(name: str, **options: Any) -> dict[str, Any]:
    """Options of a registered model; what it does not take is left out, such as a rank."""
    given = SMALL.get(name, {}) | options
    return {key: given[key] for key in given if key in MODELS[name].options}


def build(name: str, features: int, outputs: int = 1, **options: Any) -> Model:
    """A registered model without memory yet."""
    return build_model(MODELS[name], features, outputs, choices(name, **options))


def fill(model: Model, rng: np.random.Generator, scale: float = 0.5) -> Params:
    """Random parameters for an allocated model; returns them as float64, as the build's real type has them."""
    for name, array in model.parameters.items():
        array[...] = scale * rng.normal(size=array.shape)
        if name == "theta":
            array[...] = np.abs(array) / np.abs(array).sum(axis=-1, keepdims=True)
    return parameters(model)


def parameters(model: Model) -> Params:
    """A copy of a model's parameters as float64."""
    model.remeasure()
    return {name: array.astype(np.float64) for name, array in model.parameters.items()}


def assert_close(ours: Mapping[str, Any], slow: Mapping[str, Any], tolerance: Mapping[str, float]) -> None:
    """All arrays agree, and there is something to agree on."""
    assert ours.keys() == slow.keys()
    for name in slow:
        np.testing.assert_allclose(ours[name], slow[name], err_msg=name, **tolerance)


def score_all(model: Model, data: Dataset) -> np.ndarray:
    """Scores (rows, C)."""
    model.remeasure()
    out = np.empty((data.rows, model.outputs))
    scores(model, data, Workspace(model, data.longest), 0, data.rows, out)
    return out


def gradient(model: Model, x: Sample, solver: Any, loss: Loss, label: float) -> Params:
    """Minus what one step of plain gradient descent at rate 1 adds: the derivative of the loss."""
    before = parameters(model)
    Trainer(model, solver, loss, dataset([x], model.features, [label])).run(np.zeros(1, dtype=np.int32), 0, 1)
    after = parameters(model)
    return {name: before[name] - after[name] for name in before}
