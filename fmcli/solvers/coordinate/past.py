"""What a model file keeps of the rows that cd or lbfgs has trained on: the loss of these rows as a quadratic function
of each parameter, at the model's parameters. A later run with other rows takes it in place of these rows (hold.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.layout import FEATURES, REAL_TYPE, BlockLayout, padded
from fmcli.models.model import Model
from fmcli.models.parameters import Parameters
from fmcli.penalties.penalty import Penalty
from fmcli.records import dataclass
from fmcli.solvers.coordinate import interactions
from fmcli.solvers.coordinate.columns import most_entries
from fmcli.solvers.coordinate.dead_factors import GROWN, near_start, set_minimum, start_sizes, turned_slopes
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.interactions import Interactions, interactions_of, pair_factors
from fmcli.solvers.coordinate.pieces import NUMBERS_AT_ONCE, ROWS_AT_ONCE, is_free, pieces, trained_arrays
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.solvers.remote import each_shard

if TYPE_CHECKING:
    from fmcli.solvers.trainer import Task

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Past:
    """The sum of weight * loss over some rows, as a function of each parameter p near the value m that it has in a
    model: slope (p - m) + curvature / 2 (p - m)^2, plus a constant.

    weight : the sum of the weights of the rows.
    curvatures : the curvature of each parameter, by the name of the model's array.
    slopes : the slopes; for arrays without them, m is the minimum of this function plus the l2 penalty of the run that
        trained the model.
    interactions : their facts about all pairs of features; None: the model has no pairs, or too many.
    """

    weight: float
    curvatures: Arrays
    slopes: Arrays
    interactions: Interactions | None = None


@dataclass(frozen=True)
class Derivatives:
    """The derivatives of a sum of weight * loss in the parameters of some rows of a block.

    rows : int32 (n), the rows of a class.
    numbers : (2, classes, n, width) the first and the second derivatives; a row has its body, with padding, and its
        weight.
    """

    rows: NDArray[np.int32]
    numbers: Floats

    def plus(self, other: Derivatives) -> Derivatives:
        """Return the sum of these derivatives and derivatives in perhaps other rows of the block."""
        rows = np.union1d(self.rows, other.rows)
        both = np.zeros((*self.numbers.shape[:2], len(rows), self.numbers.shape[3]))
        for one in (self, other):
            both[:, :, np.searchsorted(rows, one.rows)] += one.numbers
        return Derivatives(rows, both)

    def array(self, kind: int, model: Parameters, layout: BlockLayout, name: str) -> NDArray[Any]:
        """Return the first (kind 0) or the second (1) derivatives in the shape of an array of the block; 0 in other
        rows."""
        found = np.zeros(model.shapes()[name], REAL_TYPE)
        by_row = found if layout.axes else found[:, np.newaxis]
        columns, numbers = columns_of(layout)[name], self.numbers[kind]
        step = max(1, NUMBERS_AT_ONCE // max(1, columns.size * len(numbers)))
        for begin in range(0, len(self.rows), step):
            feature, each = np.divmod(self.rows[begin : begin + step], layout.rows_each)
            at = tuple([feature if axis == FEATURES else each for axis in layout.axes] or [feature])
            for output, of_class in enumerate(numbers):
                by_row[output][at] = of_class[begin : begin + step][:, columns]
        return found


def past_of(
    task: Task, loss: Loss, penalty: Penalty, earlier: Past | None = None, center: Arrays | None = None
) -> Past:
    """Return the facts of a task's rows, and of earlier rows, about each parameter of the task's model near the
    parameters `center`.

    Where the penalty is smooth, the model counts as the minimum, which is nearly true if the run has converged: slopes
    of a run that early stopping has ended would send all parameters at once to where each should go alone. Of models
    without pairs (`interactions_of`), factors near their start values are no minimum, but leave these as soon as the
    slopes of enough rows have added up.
    """
    model, weight = task.model, task.source.total_weight
    stds = start_sizes(model, task.spec.values["init_std"]) if pair_factors(model) is None else {}
    near = near_start(model, stds) if penalty.smooth else {}
    found = total_of(task, loss)
    slopes, curvatures = {}, {}
    for layout, name in trained_arrays(model):
        of_block = found[model.layout.index(layout)]
        curvatures[name] = of_block.array(1, model, layout, name)
        if name in near or not penalty.smooth:
            slopes[name] = of_block.array(0, model, layout, name)
    del found
    if earlier is not None and center is not None:
        weight += earlier.weight
        # After one epoch: factors of a run to convergence, as by lbfgs, have left the directions with known slopes, and
        # nights of planted ratings would end .000 to .021 above.
        turned = stds if task.spec.values["epochs"] == 1 else {}
        for name, before in earlier.curvatures.items():
            if name in slopes:
                now, known = model.parameters[name], earlier.slopes[name]
                if name in turned:
                    known = turned_slopes(center[name], known, now, GROWN * turned[name])
                arrays = slopes[name], before, now, center[name], known
                for slope, curvature, value, old, kept in zip(*map(pieces, arrays), strict=True):
                    slope[...] = slope + (curvature * (value.astype(np.float64) - old) + kept)
            for total, one in zip(pieces(curvatures[name]), pieces(before), strict=True):
                total[...] = total + one
    if near:
        set_minimum(task, penalty, weight, near, slopes)
    of_pairs = None
    if pair_factors(model) is not None:
        of_pairs = interactions_of(task, loss, earlier.interactions if earlier else None)
    return Past(weight, curvatures, slopes, of_pairs)


def bytes_needed(model: Model, data: Dataset, earlier: int, *, shards: bool) -> int:
    """Return bytes that `past_of` takes.

    data : the rows, or a shard of them.
    earlier : the bytes of the facts about earlier rows (PriorRows.keeping_needed); 0: there are none.
    shards : whether there are several shards, whose sums are added.
    """
    tables = [data, *(relation.data for relation in data.relations)]
    entered = [sum(each) for each in zip(*(most_entries(model, table) for table in tables), strict=True)]
    number = 2 * model.outputs * np.dtype(np.float64).itemsize
    sums = 0
    for layout, most in zip(model.layout, entered, strict=True):
        rows = layout.rows(model.features)
        if is_free(layout):
            sums += number * width_of(layout) * (rows if data.rows > ROWS_AT_ONCE else min(rows, most))
    shapes = model.shapes()
    arrays = 2 * REAL_TYPE.itemsize * sum(math.prod(shapes[name]) for _, name in trained_arrays(model))
    measured = measuring_bytes(model, data)
    of_pairs = interactions.bytes_needed(model, data)
    return max((3 if shards else 1) * sums + measured, sums + arrays, arrays + max(earlier, of_pairs))


def measuring_bytes(model: Model, data: Dataset) -> int:
    """Return the bytes of the derivatives of the losses of rows like these, without the sums."""
    share = min(1.0, ROWS_AT_ONCE / max(1, data.rows))
    entry = np.dtype(np.int32).itemsize + REAL_TYPE.itemsize
    related = sum(2 * entry * data.rows * relation.data.longest for relation in data.relations)  # also by column
    return int(share * (data.nbytes + related + Descent.bytes_needed(model, data)))


def columns_of(layout: BlockLayout) -> dict[str, NDArray[np.intp]]:
    """Return the places of the columns of each array in a block's rows, in the shape of the array's row."""
    found, begin = {}, 0
    for array in layout.body:
        lanes = [begin + vector * padded(array.columns) + np.arange(array.columns) for vector in range(array.vectors)]
        found[array.name] = np.concatenate(lanes).reshape(array.shape)
        begin += array.vectors * padded(array.columns)
    if layout.weight:
        found[layout.weight] = np.array(layout.lanes)
    return found


def total_of(task: Task, loss: Loss) -> list[Derivatives]:
    """Return the derivatives of the rows of a task, by block."""
    shards = each_shard(task, loss, derivatives)
    total = next(shards)
    for found in shards:
        total = [one.plus(other) for one, other in zip(total, found, strict=True)]
    return total


def derivatives(model: Model, loss: Loss, data: Dataset, rows: NDArray[np.int32]) -> list[Derivatives]:
    """Return the first and the second derivatives of the sum of weight * loss over rows of data in each parameter, by
    block; of blocks that are not free, of no row. The second ones are the derivatives of the loss at the scores times
    the squared derivatives of the scores."""
    none = np.zeros(0, dtype=np.int32)
    found = [Derivatives(none, none_of(model, layout, none)) for layout in model.layout]
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = data.joined(rows[begin : begin + ROWS_AT_ONCE])
        descent = Descent(model, loss, Penalty(), some, summed=True, exact=True)
        updater = CoordinateUpdater(descent)
        updater.measure(0, some.rows)
        for number, layout in enumerate(model.layout):
            if not is_free(layout):
                continue
            if not begin:
                # More rows than are examined at a time have about all features.
                every = len(rows) > ROWS_AT_ONCE
                each = np.arange(layout.rows(model.features), dtype=np.int32) if every else descent.order(number)
                found[number] = Derivatives(each, none_of(model, layout, each))
            one = found[number]
            for output in range(model.outputs):
                slopes, curvatures = one.numbers[:, output]
                updater.add_derivatives(number, output, one.rows, curvatures, slopes)
    return found


def none_of(model: Model, layout: BlockLayout, rows: NDArray[np.int32]) -> Floats:
    """Return zeros in place of the derivatives in some rows of a block."""
    return np.zeros((2, model.outputs, len(rows), width_of(layout)))


def width_of(layout: BlockLayout) -> int:
    """Return how many numbers a row of a block has, with padding."""
    return layout.lanes + bool(layout.weight)
