"""Small random data and models, as compiled objects and as arguments of the slow definitions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush
from itertools import cycle
from operator import or_
from typing import Any

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.kernels.simd import REAL
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.models.workspace import Workspace
from fmcli.registry.build import build_model
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.scoring.scores import scores
from fmcli.solvers.stochastic.loop import RowLoop
from reference.kinds import Choices, Params, Sample, column

DOUBLE = REAL == "double"
# Tolerances: CLOSE for a single score or gradient, FOLLOWED for parameters after many updates.
CLOSE: dict[str, float] = {"rtol": 1e-12, "atol": 1e-12} if DOUBLE else {"rtol": 1e-5, "atol": 1e-5}
FOLLOWED: dict[str, float] = {"rtol": 1e-9, "atol": 1e-9} if DOUBLE else {"rtol": 1e-4, "atol": 1e-4}


# The models that are trained by a solver.
TRAINED = {name: piece for name, piece in MODELS.items() if not piece.closed_form}
# The stochastic solvers.
ROW_SOLVERS = {name: piece for name, piece in SOLVERS.items() if piece.by_rows}
# Default options of the models besides the rank.
USUAL: dict[str, Any] = {
    **{"pair_bits": 22, "split_index": 4, "fields": 3},
    **{"anchors": 3, "neighbours": 2, "coding_c": 0.2, "lc": 0.1, "llfm_variant": "jo", "anchor_rate": 0.05},
}


def random_rows(
    rng: np.random.Generator, rows: int, features: int, ones: bool = False, fields: int = 0
) -> list[Sample]:
    """Samples of 0 to `features` entries; the first is empty, the second full.

    With `fields`, each entry has one of that number of fields, and an index may occur in two fields.
    """
    sizes = [0, features, *rng.integers(0, features + 1, size=rows - 2)]
    values = [1.0] if ones else np.float32(rng.uniform(0.2, 2, size=50) * rng.choice([-1, 1], size=50)).tolist()
    found: list[Sample] = [
        {j: values[rng.integers(len(values))] for j in sorted(rng.choice(features, size, replace=False).tolist())}
        for size in sizes
    ]
    if not fields:
        return found
    several = [{(j, f): x[j] for j in x for f in rng.choice(fields, rng.choice([1, 1, 1, 2]), False)} for x in found]
    return [{(j, int(f)): x[j, f] for j, f in sorted(x)} for x in several]


def dataset(rows: Sequence[Sample], features: int, labels: Sequence[float] | None = None, weights=None) -> Dataset:
    """Convert samples to a Dataset. As in the reader, the values are omitted if all of them are 1."""
    keys = [key for x in rows for key in x]
    values = np.array([x[key] for x in rows for key in x], dtype=np.float32)
    with_fields = any(isinstance(key, tuple) for key in keys)
    return Dataset(
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.array([column(key) for key in keys], dtype=np.int32),
        None if (values == 1).all() else values,
        None if labels is None else np.array(labels, dtype=np.float64),
        features,
        np.array([key[1] for key in keys], dtype=np.int32) if with_fields else None,
        weight=None if weights is None else np.array(weights, dtype=np.float64),
    )


def grouped(data: Dataset, size: int = 10) -> Dataset:
    """The rows of a Dataset in groups of `size` consecutive rows."""
    return data.changed(group=np.arange(data.rows, dtype=np.int32) // size)


def pairwise(*lists: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Choose combinations of one member of each of several lists so that every pair of members of different lists
    occurs.

    The choice is greedy: the next combination is the one with the most pairs that no chosen combination has yet.
    """
    bits = defaultdict[tuple[int, ...], int](lambda: 1 << len(bits))  # a bit for each pair, by lists and places
    every: list[tuple[tuple[Any, ...], tuple[int, ...], int]] = [((), (), 0)]  # members, places, and the bits of pairs
    for number, members in enumerate(map(list, lists)):
        every = [
            ((*chosen, member), (*places, place), pairs | union(bits[pair] for pair in added(places, number, place)))
            for chosen, places, pairs in every
            for place, member in enumerate(members)
        ]
    missing = union(bits.values())
    # The most pairs that each combination can have: they become fewer with each choice.
    most = [(-pairs.bit_count(), number) for number, (*_, pairs) in enumerate(every)]
    heapify(most)
    found = []
    while missing:
        bound, number = heappop(most)
        members, _, pairs = every[number]
        count = -(pairs & missing).bit_count()
        if count == bound:
            found.append(members)
            missing &= ~pairs
        elif count:
            heappush(most, (count, number))
    return found


def union(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def added(places: tuple[int, ...], number: int, place: int) -> Iterator[tuple[int, ...]]:
    """Yield the pairs of a member of a list with members of the earlier lists, by the lists and the places in them."""
    return ((earlier, other, number, place) for earlier, other in enumerate(places))


def in_turn(cases: Iterable[Any], others: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return each case with one of the others, in turn."""
    return [(case, *other) for case, other in zip(cases, cycle(others), strict=False)]


def build(name: str, features: int, outputs: int = 1, **options: Any) -> Model:
    """Build a registered model whose memory is not allocated yet. Options that the model does not take are ignored."""
    kind = MODELS[name]
    options = USUAL | options
    model_options = taken(name, options)
    return build_model(kind, features, outputs, model_options, options["fields"], options.get("by_row", False))


def taken(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Select the options that the model takes."""
    return {key: value for key, value in options.items() if key in MODELS[name].options}


def fields_of(name: str) -> int:
    """Return the number of fields that samples for a model need; 0 means that samples have no fields."""
    return USUAL["fields"] if name in MODELS and "fields" in MODELS[name].context else 0


def choices(model: Model, **options: Any) -> Choices:
    """Return the options and constants of a model that its slow definition needs besides the arrays."""
    return USUAL | options | model.constants


def fill(model: Model, rng: np.random.Generator, scale: float = 0.5) -> Params:
    """Set the parameters of an allocated model to random values. Return them, as rounded to REAL, in float64."""
    for name, array in model.parameters.items():
        array[...] = scale * rng.normal(size=array.shape)
        if name in on_the_simplex(model):
            array[...] = np.abs(array) / np.abs(array).sum(axis=-1, keepdims=True)
    return parameters(model)


def on_the_simplex(model: Model) -> list[str]:
    """Return the names of the arrays whose rows are projected onto the simplex after every step."""
    return [name for layout in model.layout if layout.constraint == "simplex" for name in layout.names]


def is_linear(model: Model) -> bool:
    """Whether a model has no interactions."""
    return not model.parameters.keys() - {"bias", "w"}


def parameters(model: Model) -> Params:
    """A copy of a model's parameters as float64."""
    model.remeasure()
    return {name: array.astype(np.float64) for name, array in model.parameters.items()}


def by_feature(model: Model, name: str) -> np.ndarray:
    """Return a parameter array with the axis of features moved to the front, before the axis of classes."""
    array = model.parameters[name]
    return np.moveaxis(array, array.shape.index(model.features), 0)


def assert_close(ours: Mapping[str, Any], slow: Mapping[str, Any], tolerance: Mapping[str, float]) -> None:
    """Check that both mappings have the same arrays, with equal values up to the tolerance."""
    assert ours.keys() == slow.keys()
    for name in slow:
        np.testing.assert_allclose(ours[name], slow[name], err_msg=name, **tolerance)


def score_all(model: Model, data: Dataset) -> np.ndarray:
    """Return the scores of all examples, of shape (rows, C)."""
    model.remeasure()
    out = np.empty((data.rows, model.outputs))
    scores(model, data, Workspace(model, data.longest), 0, data.rows, out)
    return out


def gradient(model: Model, x: Sample, solver: Any, loss: Loss, label: float) -> Params:
    """Return the gradient of the loss: with a learning rate of 1, one SGD step subtracts exactly the gradient."""
    before = parameters(model)
    RowLoop(model, solver, loss, dataset([x], model.features, [label])).train_on(np.zeros(1, dtype=np.int32), 0, 1)
    after = parameters(model)
    return {name: before[name] - after[name] for name in before}


def validation_rows(plan):
    """The rows by which the epochs of a plan are measured."""
    validation = plan.validation
    return validation.data if validation.rows is None else validation.data.take(validation.rows)
