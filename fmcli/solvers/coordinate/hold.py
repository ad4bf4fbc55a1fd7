"""A penalty that holds the parameters of an earlier model near their values while a run minimises the loss of new rows.

The earlier model was trained on other rows, whose loss and penalty had their minimum at its parameters m. Near m, they
are about a quadratic function of each parameter p,

    (c + l2) / 2 (p - m)^2,    c: the sum over these rows of weight * largest l'' * (derivative of the score by p)^2

A run with the strength S adds S times this function to its objective, and takes S times the l2 penalty of p away, or
all of it if S > 1, because the function has it already. S = 0 forgets the earlier rows; S = 1 lets a row of them count
as much as a new one; a larger S keeps the parameters nearer to m, and an infinite one at m. So the model after several
updates is about that of all rows at once (a Laplace approximation with a diagonal covariance).

Of the earlier rows, only the number n of those with each feature is known. So c is n times the mean of its summand over
the new rows that have any feature, for each column of parameters. These means are sums over shards, so that it does not
matter where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.layout import BlockLayout, padded
from fmcli.models.model import Model
from fmcli.models.parameters import Resumable
from fmcli.penalties.penalty import Penalty
from fmcli.records import dataclass
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.solvers.remote import RemoteRows

if TYPE_CHECKING:
    from fmcli.solvers.trainer import Task

Floats = NDArray[np.float64]
# Rows whose curvatures are measured at a time.
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Hold:
    """A term of the penalty: the sum of hold / 2 p^2 - pull p over all parameters, plus a constant."""

    holds: Model
    pulls: Model
    constant: float


@dataclass(frozen=True)
class Earlier:
    """The rows that an earlier model was trained on, as far as they are known.

    strength : S above.
    rows : how many they are.
    counts : (features) how many of them have each feature.
    known : array name -> which of its values took part, as of Resumable.known.
    twin : returns a model with the same rows as that of the run, not allocated.
    """

    strength: float
    rows: float
    counts: NDArray[Any]
    known: Mapping[str, NDArray[np.bool_]]
    twin: Callable[[], Model]

    def bytes_needed(self, model: Model, data: Dataset) -> int:
        """Return bytes that the hold of a model takes, while its curvatures are measured on rows such as these."""
        share = min(1.0, ROWS_AT_ONCE / max(1, data.rows))
        measured = int(share * (data.nbytes + Descent.bytes_needed(model, data)))
        return 2 * model.bytes_needed(0) + measured

    def hold(self, task: Task, loss: Loss, penalty: Penalty) -> Hold:
        """Return what holds the model of a task, which has the earlier parameters."""
        model, strength, total = task.model, self.strength, task.source.total_weight
        sums = list(each_curvatures(task, loss))
        holds, pulls, constant = self.twin(), self.twin(), 0.0
        for twin in (holds, pulls):
            twin.allocate(0)
            for array in twin.parameters.values():
                array[...] = 0
        for layout, means in zip(model.layout, mean_of(sums), strict=True):
            if layout.constraint or not layout.trained:
                continue
            body, weight = penalty.l2(layout)
            for name, columns in columns_of(layout).items():
                l2 = body if columns.size > 1 or name != layout.weight else weight
                times = spread(self, model, layout, name)
                before = np.where(times > 0, times * means[columns] / total + l2, 0)
                centre = model.parameters[name].astype(np.float64)
                holds.parameters[name][...] = strength * before - min(strength, 1) * l2 * (before > 0)
                pulls.parameters[name][...] = strength * before * centre
                constant += strength / 2 * float(np.sum(before * centre**2))
        return Hold(holds, pulls, constant)


def spread(earlier: Earlier, model: Resumable, layout: BlockLayout, name: str) -> Floats:
    """Return how many of the earlier rows each parameter of an array has entered, in the array's shape or in one that
    broadcasts to it."""
    shape = model.shapes()[name]
    if not layout.by_feature:
        return np.full(shape, earlier.rows)
    axis = model.feature_axis(name)
    assert axis is not None
    counts = np.zeros(shape[axis])
    counts[: len(earlier.counts)] = earlier.counts
    times = counts.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    known = earlier.known[name]
    took_part = np.zeros(tuple(map(max, known.shape, shape[1:])), dtype=np.bool_)
    took_part[tuple(slice(None if size == 1 else size) for size in known.shape)] = known
    return times * took_part.reshape(1, *took_part.shape, *(1,) * (len(shape) - 1 - took_part.ndim))


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


def each_curvatures(task: Task, loss: Loss) -> Iterator[list[Floats]]:
    """Return the curvatures of each shard of the rows of a task."""
    source = task.source
    if isinstance(source, RemoteRows):
        return source.each_by_model(task, loss, curvatures)
    return source.each(lambda data, rows: curvatures(task.model, loss, data, rows))


def curvatures(model: Model, loss: Loss, data: Dataset, rows: NDArray[np.int32]) -> list[Floats]:
    """Return for each block (lanes + 2) the sum over rows of data of weight * largest l'' * (derivative of score)^2,
    for each column of its parameters; of a block by feature, over the entries of the rows. The last number says how
    many summands there are."""
    found = [np.zeros(layout.lanes + 2) for layout in model.layout]
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = data.joined(rows[begin : begin + ROWS_AT_ONCE])
        descent = Descent(model, loss, Penalty(), some, summed=True)
        updater = CoordinateUpdater(descent)
        updater.measure(0, some.rows)
        for number, layout in enumerate(model.layout):
            order = descent.order(number)
            for output in range(model.outputs):
                updater.add_curvatures(number, output, order, found[number][:-1])
            entries = some.nnz if layout.by_feature else some.rows
            found[number][-1] += entries * layout.rows_each * model.outputs
    return found


def mean_of(sums: Sequence[list[Floats]]) -> list[Floats]:
    """Return (lanes + 1) the means of the curvatures of several slices of the rows, for each block."""
    totals = [np.sum(slices, axis=0) for slices in zip(*sums, strict=True)]
    return [total[:-1] / max(1, total[-1]) for total in totals]
