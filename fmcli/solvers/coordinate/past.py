"""What a model file keeps of the rows that cd or lbfgs has trained on: the loss of these rows as a quadratic function
of each parameter, at the model's parameters. A later run with other rows takes it in place of these rows (hold.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model
from fmcli.models.parameters import Parameters
from fmcli.penalties.penalty import Penalty
from fmcli.records import dataclass
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.remote import RemoteRows

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
# Rows whose derivatives are summed at a time.
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Past:
    """The sum of weight * loss over some rows, as a function of each parameter p near the value m that it has in a
    model: slope (p - m) + curvature / 2 (p - m)^2, plus a constant.

    weight : the sum of the weights of the rows.
    curvatures : the curvature of each parameter, by the name of the model's array.
    slopes : the slopes; for arrays without them, m is the minimum of this function plus the l2 penalty of the run that
        trained the model.
    """

    weight: float
    curvatures: Arrays
    slopes: Arrays


def past_of(
    task: Task, loss: Loss, penalty: Penalty, twin: Model, earlier: Past | None = None, centre: Arrays | None = None
) -> Past:
    """Return what the rows of a task say about each parameter of the task's model, and earlier ones, near the
    parameters `centre`. twin : a model with the same rows, not allocated.

    Where the penalty is smooth, the model counts as the minimum, which is nearly true if the run has converged: slopes
    of a run that early stopping has ended would send all parameters at once to where each should go alone. Factors near
    their start values are no minimum, but leave these as soon as the slopes of enough rows have added up.
    """
    model, total = task.model, np.zeros((2, 0))
    for found in each_derivatives(task, loss):
        total = found if not total.size else total + found
    twin.allocate(0)
    vectors = Objective(twin, loss, task.data)
    slopes, curvatures = (named(twin, vectors, vector) for vector in total)
    weight = task.source.total_weight
    if earlier is not None and centre is not None:
        weight += earlier.weight
        # After one epoch: factors of a run to convergence, as by lbfgs, have left the directions with known slopes, and
        # nights of planted ratings would end .000 to .021 above.
        turned = start_sizes(model, task.spec.values["init_std"]) if task.spec.values["epochs"] == 1 else {}
        for name, before in earlier.curvatures.items():
            now = model.parameters[name].astype(np.float64)
            known = turned_slopes(centre[name], earlier.slopes[name], now, GROWN * turned.get(name, 0))
            slopes[name] += before * (now - centre[name]) + known
            curvatures[name] += before
    if penalty.smooth:
        slopes = dict(slopes_at_start(task, penalty, weight, slopes))
    return Past(weight, curvatures, slopes)


def turned_slopes(before: Floats, slopes: Floats, now: Floats, most: float) -> Floats:
    """Return slopes of the loss of earlier rows in factors, which had the values `before`; the slopes of factors that
    are smaller than `most` now, for the directions that these have now.

    The score of two features is the sum of the products of their factors, so that the slopes in small factors V are
    Y = R V: the symmetric matrix R sums the slopes of the rows of each two features. Nystrom's approximation of R is
    Y (V'Y)^+ Y'. Without it, the slopes of a direction that factors had would count for the one to which they turned.
    """
    near = sizes_of(now) < most
    if not near.any():
        return slopes
    size = sizes_of(before)
    v, y = (np.divide(one, size, where=size > 0, out=np.zeros_like(one)) for one in (before, slopes))
    v, y, moved = (one.reshape(-1, one.shape[-1]) for one in (v, y, now))
    known = v.T @ y
    inverse = np.linalg.pinv((known + known.T) / 2, rcond=LEAST_SLOPE, hermitian=True)
    return np.where(near, (y @ (inverse @ (y.T @ moved))).reshape(now.shape), slopes)


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


def slopes_at_start(task: Task, penalty: Penalty, weight: float, slopes: Arrays) -> Iterator[tuple[str, Floats]]:
    """Yield the arrays with factors of features that are near their start values, by name, and slopes: the slopes of
    the loss for such factors, and the slopes of a minimum for the other factors of the array."""
    blocks = {name: layout for layout, name in trained_arrays(task.model)}
    for name, std in start_sizes(task.model, task.spec.values["init_std"]).items():
        value = task.model.parameters[name].astype(np.float64)
        near = sizes_of(value) < GROWN * std
        if near.any():
            yield name, np.where(near, slopes[name], -weight * penalty.l2(blocks[name])[0] * value)


def start_sizes(model: Parameters, init_std: float | list[float]) -> dict[str, float]:
    """Return the standard deviation of the start values of each array with factors of features. init_std : for all, or
    for each degree, whose arrays follow each other in a block."""
    stds = init_std if isinstance(init_std, list) else [init_std]
    factors = [layout.body for layout, _ in trained_arrays(model) if layout.by_feature]
    return {array.name: stds[min(at, len(stds) - 1)] for body in factors for at, array in enumerate(body)}


def sizes_of(value: Floats) -> Floats:
    """Return (factors) the root of the mean square of the numbers of each factor that are not 0."""
    axes = tuple(range(value.ndim - 1))
    sizes: Floats = np.sqrt(np.sum(value**2, axis=axes) / np.maximum(1, np.count_nonzero(value, axis=axes)))
    return sizes


def named(twin: Model, vectors: Objective, vector: Floats) -> dict[str, Floats]:
    """Return the numbers of a vector by the names of the arrays that are trained without a constraint."""
    vectors.write(vector)
    return {name: twin.parameters[name].astype(np.float64) for _, name in trained_arrays(twin)}


def trained_arrays(model: Parameters) -> list[tuple[BlockLayout, str]]:
    """Return the arrays that are trained without a constraint, by their names, each with its block."""
    layouts = [layout for layout in model.layout if layout.trained and not layout.constraint]
    return [(layout, name) for layout in layouts for name in layout.names]


def each_derivatives(task: Task, loss: Loss) -> Iterator[Floats]:
    """Return the derivatives of each shard of the rows of a task."""
    source = task.source
    if isinstance(source, RemoteRows):
        return source.each_by_model(task, loss, derivatives)
    return source.each(lambda data, rows: derivatives(task.model, loss, data, rows))


def derivatives(model: Model, loss: Loss, data: Dataset, rows: NDArray[np.int32]) -> Floats:
    """Return (2, size of a vector of Objective) the first and the second derivatives of the sum of weight * loss over
    rows of data in each parameter. The second ones are the derivatives of the loss at the scores times the squared
    derivatives of the scores."""
    places = Objective(model, loss, data)
    total = np.zeros((2, places.size))
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = data.joined(rows[begin : begin + ROWS_AT_ONCE])
        descent = Descent(model, loss, Penalty(), some, summed=True, exact=True)
        updater = CoordinateUpdater(descent)
        updater.measure(0, some.rows)
        for number in range(len(model.layout)):
            where, several, width = places.places(number)
            order = descent.order(number)
            slopes, curvatures = (one[where].reshape(model.outputs, several // model.outputs, width) for one in total)
            for output in range(model.outputs):
                updater.add_derivatives(number, output, order, slopes[output], curvatures[output])
    return total
