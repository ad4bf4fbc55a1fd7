"""Factors that the penalty of an earlier run has sent towards 0, in an update of a model without pairs to keep
(interactions.py): they begin anew, because the factors of more rows may leave 0, which is a saddle point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.models.model import Model
from fmcli.models.parameters import Parameters
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.coordinate.pieces import pieces, trained_arrays

if TYPE_CHECKING:
    from fmcli.solvers.trainer import Task

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
# Factors of this many times the standard deviation of start values have left these: with 15 times, ratings of users who
# have factors end .0009 higher in RMSE, and nights that begin without any interaction .002 lower.
GROWN = 5
# Smaller factors than this many times that have lost their own direction: all follow the strongest interaction.
LOST = 1e-3
# Directions of factors in which the slopes are a smaller share than this of the largest ones are noise.
LEAST_SLOPE = 1e-2
# The arrays in double precision that turned_slopes has at a time.
TURNED_COPIES = 3


def turned_slopes(before: Floats, slopes: Floats, now: NDArray[Any], most: float) -> Floats:
    """Return slopes of the loss of earlier rows in factors, which had the values `before`; the slopes of factors that
    are smaller than `most` now, for the directions that these have now.

    The score of two features is the sum of the products of their factors, so the slopes in small factors V are
    Y = R V: the symmetric matrix R sums the slopes of the rows of each two features. Nystrom's approximation of R is
    Y (V'Y)^+ Y'. Without it, the slopes of a direction that factors had would count for the one to which they turned.
    """
    near = sizes_of(now) < most
    if not near.any():
        return slopes
    size = sizes_of(before)
    v, y = (
        np.divide(one, size, where=size > 0, out=np.zeros_like(one)).reshape(-1, len(size)) for one in (before, slopes)
    )
    known = v.T @ y
    del v  # which is as large as the model, in double precision
    inverse = np.linalg.pinv((known + known.T) / 2, rcond=LEAST_SLOPE, hermitian=True)
    turned = y @ (inverse @ (y.T @ now.astype(np.float64).reshape(y.shape)))
    del y
    return np.where(near, turned.reshape(now.shape), slopes)


def scales_of(values: Arrays, stds: Mapping[str, float]) -> dict[str, Floats]:
    """Return, by array, the multipliers of the factors of features before a run continues; 1 for factors larger than
    start values. stds : the standard deviations of the start values.

    Other factors, which the penalty has sent towards 0, become as large as start values again, because the
    factors of more rows may leave 0: an epoch is a step of a power iteration, whose direction the nights improve. 0
    stands for factors that are too small to have a direction of their own.
    """
    found = {}
    for name, std in stds.items():
        size = sizes_of(values[name]) / (std or 1)
        if std > 0 and (size < 1).any():
            found[name] = np.where(size < 1, np.where(size > LOST, 1 / np.maximum(size, LOST), 0), 1)
    return found


def near_start(model: Model, stds: Mapping[str, float]) -> dict[str, NDArray[np.bool_]]:
    """Return which factors of features are near their start values, by array; arrays without such factors are left out.
    stds : the standard deviations of the start values."""
    near = {name: sizes_of(model.parameters[name]) < GROWN * std for name, std in stds.items()}
    return {name: some for name, some in near.items() if some.any()}


def set_minimum(
    task: Task, penalty: Penalty, weight: float, near: Mapping[str, NDArray[np.bool_]], slopes: Arrays
) -> None:
    """Replace the slopes of factors that are not near their start values by the slopes of a minimum."""
    blocks = {name: layout for layout, name in trained_arrays(task.model)}
    for name, some in near.items():
        l2 = weight * penalty.l2(blocks[name])[0]
        pairs = zip(pieces(slopes[name]), pieces(task.model.parameters[name]), strict=True)
        for slope, value in pairs if not some.all() else ():
            slope[...] = np.where(some, slope, -l2 * value.astype(np.float64))


def start_sizes(model: Parameters, init_std: float | list[float]) -> dict[str, float]:
    """Return the standard deviation of the start values of each array with factors of features. init_std : for all, or
    for each degree, whose arrays follow each other in a block."""
    stds = init_std if isinstance(init_std, list) else [init_std]
    factors = [layout.body for layout, _ in trained_arrays(model) if layout.by_feature]
    return {array.name: stds[min(at, len(stds) - 1)] for body in factors for at, array in enumerate(body)}


def sizes_of(value: NDArray[Any]) -> Floats:
    """Return (factors) the root of the mean square of the numbers of each factor that are not 0."""
    axes, total, times = tuple(range(value.ndim - 1)), np.zeros(value.shape[-1]), np.zeros(value.shape[-1])
    for piece in pieces(value):
        total += np.sum(piece.astype(np.float64) ** 2, axis=axes)
        times += np.count_nonzero(piece, axis=axes)
    sizes: Floats = np.sqrt(total / np.maximum(1, times))
    return sizes
