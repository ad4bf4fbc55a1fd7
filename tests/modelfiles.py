"""Small model files of every kind, for the tests of file validation and for scripts/fuzz."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from problems import dataset, grouped

from fmcli.data.dataset import Dataset
from fmcli.export.arrays import arrays_as_doubles
from fmcli.model_file.container import ModelFile, load
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving

FEATURES, FIELDS, ROWS = 6, 3, 12
SMALL = {"rank": 2, "epochs": 1, "split_index": 3, "anchors": 3}


def export_arrays(path: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model file as float64, and the ids of its dictionary."""
    return arrays_as_doubles(load_model(path))


@cache
def rows() -> Dataset:
    """Rows with fields and three label values; every second row has only the first two labels."""
    rng = np.random.default_rng(3)
    entries = [
        {(int(j), int(j) % FIELDS): float(rng.choice([0.5, 1, 2])) for j in sorted(rng.choice(FEATURES, 3, False))}
        for _ in range(ROWS)
    ]
    return grouped(dataset(entries, FEATURES, [i % (2 if i % 2 else 3) for i in range(ROWS)]))


def taken(kind: str, solver: str) -> dict[str, object]:
    """The options of a small run, restricted to the options of its model and solver."""
    piece = MODELS[kind]
    names = {*piece.options, "epochs"} - {*piece.refuses, *(SOLVERS[solver].refuses if solver in SOLVERS else ())}
    by_degree = {"rank": [2, 1]} if "rank" in piece.by_degree else {}
    several_draws = {"epochs": 3} if solver in SOLVERS and SOLVERS[solver].is_sampler else {}
    return {name: value for name, value in {**SMALL, **by_degree, **several_draws}.items() if name in names}


def write(path: str, kind: str, solver: str | None = None, loss: str = "squared", keep_state: bool = False) -> None:
    """Train a small model and save it."""
    data = rows()
    if loss in ("logistic", "probit"):
        data = data.changed(label=(data.label > 0).astype(float))
    elif LOSSES[loss].task == "soft":
        data = data.changed(label=data.label / 2)
    if "fields" not in MODELS[kind].context:
        data = data.changed(field=None)
    solver = solver or MODELS[kind].solver
    spec = make_spec(kind, None if MODELS[kind].closed_form else solver, loss, taken(kind, solver))
    trained = job.train(job.plan(data, spec))
    saving.save_model(path, trained, job.summary(trained), "ffm", keep_state=keep_state)


def copy_of(file: ModelFile) -> ModelFile:
    """A model file whose arrays may be changed."""
    return ModelFile(dict(file.meta), {name: array.copy() for name, array in file.tensors.items()})


def read(path: str) -> ModelFile:
    """A model file in memory."""
    return copy_of(load(path))
