"""The arrays of a model by their exported names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.label_unit import ONE
from fmcli.data.dictionary import Dictionary
from fmcli.data.scaling import CENTER, SCALE, scale_arrays
from fmcli.errors import UsageError
from fmcli.export.in_unit import UNIT, in_unit
from fmcli.model_file.check import FEATURES
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.models import MODELS
from fmcli.scoring.scorer import Scorer
from fmcli.system.files import atomic_output
from fmcli.system.memory import require, require_if_large

# The most bytes of exported arrays, as float64, with an axis of all features.
MOST_DENSE = 4 << 30

# Values of exported arrays for features without a column, if not 0: a divisor of 1, and no group of a bilinear model.
OF_ABSENT = {SCALE: 1, "group": -1}


def exported(scorer: Scorer, dense: bool = True, of_user: bool = True) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model by exported name, in their own types, and the arrays of its column scaling.

    dense : whether arrays by feature have zeros, or OF_ABSENT, for features without a column. If dense arrays would be
        too large, or the model has a dictionary, arrays have columns only, and `features` has the id of each column.
    of_user : whether scores are in the user's unit; otherwise they are in the unit of training.

    Raises NotEnoughMemoryError.
    """
    model, numbering, kind = scorer.model, scorer.numbering, MODELS[scorer.meta["model"]]
    require_if_large(model.export_needed(), f"making the arrays of {scorer.path}")
    unit = scorer.labels.unit if of_user else ONE
    arrays = in_unit(
        model.exported(), unit, {name: value for name, value in scorer.meta["options"].items() if name in kind.options}
    )
    arrays |= scale_arrays(scorer.transform.scale)
    if numbering is None or not dense:
        return arrays
    if isinstance(numbering, Dictionary):
        return {**arrays, FEATURES: np.array(scorer.ids(np.arange(model.features)))}
    of_names = {name: 0 if name in (SCALE, CENTER) else model.feature_axis(name) for name in arrays if name != UNIT}
    axes = {name: axis for name, axis in of_names.items() if axis is not None}
    numbers = sum(arrays[name].size for name in axes) // max(len(numbering), 1) * scorer.dimension
    if np.dtype(np.float64).itemsize * numbers > MOST_DENSE:
        return {**arrays, FEATURES: numbering.ids}
    require_if_large(REAL_TYPE.itemsize * numbers, f"making the arrays of {scorer.path}")
    for name, axis in axes.items():
        arrays[name] = scorer.dense(arrays[name], axis, OF_ABSENT.get(name, 0))
    return arrays


def require_one_draw(scorer: Scorer) -> None:
    """Raise UsageError if the model has several draws or members: no single set of parameters gives their mean
    prediction."""
    if scorer.members > 1:
        raise UsageError(
            f"{scorer.path} is an ensemble of {scorer.members} models, whose predictions only predict and evaluate can "
            "average",
            seed={scorer.meta["options"]["seed"]: "to train the first of them alone"},
        )
    if len(scorer.draws) > 1:
        raise UsageError(
            f"{scorer.path} has {len(scorer.draws)} draws of all parameters, whose predictions only predict and "
            "evaluate can average",
            draws={1: "to train a model of a single one"},
        )


def write_npz(scorer: Scorer, path: str) -> dict[str, NDArray[Any]]:
    """Write the arrays of a model as float64 for numpy.load. Returns them. Raises the errors of `arrays_as_doubles`,
    and OutputError."""
    arrays = arrays_as_doubles(scorer)
    save_arrays(arrays, path)
    return arrays


def save_arrays(arrays: dict[str, NDArray[Any]], path: str) -> None:
    """Write arrays by name for numpy.load. Raises OutputError."""
    with atomic_output(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def arrays_as_doubles(scorer: Scorer) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model as float64, and the ids of its dictionary. Raises UsageError for a model of several
    draws, and NotEnoughMemoryError."""
    require_one_draw(scorer)
    arrays = exported(scorer)
    needed = np.dtype(np.float64).itemsize * sum(array.size for array in arrays.values())
    require(needed, f"exporting {scorer.path}")
    ids = isinstance(scorer.numbering, Dictionary)
    return {name: array if ids and name == FEATURES else array.astype(np.float64) for name, array in arrays.items()}
