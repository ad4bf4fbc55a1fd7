"""A penalty that holds the parameters of an earlier model near their values while a run minimizes the loss of new rows.

In place of the loss of the earlier rows, the model's file has a quadratic function of each parameter (past.py). A run
with the strength S <= 1 adds S times this function, with a curvature c and a slope at the earlier value m, and the
penalty of the run counts for the weight of the new rows and S times the weight of the earlier rows. S = 0 forgets the
earlier rows; S = 1 lets an earlier row count as much as a new row. So several updates give about the model of all rows
at once (a Laplace approximation with a diagonal covariance), and exactly this model if no row has two parameters and
the loss is squared. A run with S > 1 adds (S - 1) (c + l2) / 2 (p - m)^2, with the l2 of the earlier run: an infinite S
holds the parameters at m.

The files of other solvers have the number n of the earlier rows with each feature only. Then c is n times its mean over
the new rows that have any feature, for each column of parameters, and m counts as the minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model
from fmcli.models.parameters import Resumable
from fmcli.penalties.penalty import Penalty
from fmcli.records import dataclass
from fmcli.solvers.coordinate import interactions
from fmcli.solvers.coordinate.dead_factors import TURNED_COPIES, scales_of, start_sizes
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.interactions import loss_and_slopes, pair_factors
from fmcli.solvers.coordinate.past import Arrays, Past, columns_of, measuring_bytes, width_of
from fmcli.solvers.coordinate.pieces import ROWS_AT_ONCE, pieces, trained_arrays
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.solvers.remote import each_shard

if TYPE_CHECKING:
    from fmcli.solvers.trainer import Task

Floats = NDArray[np.float64]
# Smaller shares of the loss of a night are noise if factors are large: by 0.004, thirty nights of ratings by time ended
# .027 higher in RMSE. Near 0, small shares of factors count: with 0.01 for all, other nights ended .014 higher.
CLEARLY = 0.01


@dataclass(frozen=True)
class QuadraticPrior:
    """A term of the penalty: the sum of hold / 2 p^2 - pull p over all parameters, plus a constant.

    moves_all : whether parameters that no row of the run depends on have another minimum than their value, as they have
        if penalties are stronger, relative to the sum of the losses, than in the earlier run.
    """

    holds: Model
    pulls: Model
    constant: float
    moves_all: bool = False


@dataclass(frozen=True)
class PriorRows:
    """The rows that an earlier model was trained on, as far as they are known.

    strength : S above.
    weight : the sum of their weights.
    center : the earlier values of the parameters, by array, in the shapes of the run; the values of new features are 0.
    penalty : of the run that trained the model, relative to the sum of the losses.
    past : the file's facts about the loss of these rows; None: the counts only.
    counts : (features) how many of them have each feature.
    known : array name -> which of its values took part, as of Resumable.known.
    twin : returns an unallocated model with the same rows as the run's model.
    begun : array -> the values with which the run begins in place of the earlier ones, nan for start values; see
        `begin`.
    """

    strength: float
    weight: float
    center: Arrays
    penalty: Penalty
    past: Past | None
    counts: NDArray[Any]
    known: Mapping[str, NDArray[np.bool_]]
    twin: Callable[[], Model]
    begun: dict[str, Floats] = field(default_factory=dict)

    @property
    def counted(self) -> float:
        """The weight of the earlier rows that the penalty of the run counts for."""
        return min(1.0, self.strength) * self.weight

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        arrays = [self.center, *((self.past.curvatures, self.past.slopes) if self.past else ())]
        return sum(array.nbytes for of in arrays for array in of.values())

    def keeping_needed(self, model: Model, epochs: int) -> int:
        """Return the bytes that the model file's summary of these rows needs after `epochs` epochs (`past_of`)."""
        turns = epochs == 1 and pair_factors(model) is None
        turned = TURNED_COPIES * max(array.nbytes for array in self.center.values()) if turns else 0
        return turned + (self.estimate_needed() if self.past is None or self.strength < 1 else 0)

    def estimate_needed(self) -> int:
        """Return bytes of curvatures and slopes."""
        return 2 * sum(array.nbytes for array in self.center.values())

    def bytes_needed(self, model: Model, data: Dataset) -> int:
        """Return bytes that `begin` and then `hold` take for a model and rows such as these."""
        estimate = 0 if self.past else self.estimate_needed()
        held = 2 * model.bytes_needed(0) + measuring_bytes(model, data) + estimate
        return max(held, model.bytes_needed(0) + self.estimate_needed() + interactions.bytes_needed(model, data))

    def begin(self, task: Task, loss: Loss) -> None:
        """Start the factors of pairs from the first columns of the factors that the earlier rows imply
        (`Interactions.factors`), if these predict the rows of the task better; the rows had no part in them. Other
        columns become 0, until later nights tell more. In models without pairs, dead factors start again. A strength
        above 1 keeps earlier knowledge, such as that there are no interactions."""
        past, name, entries = self.past, pair_factors(task.model), task.source.nonzeros / task.source.count
        if self.strength > 1:
            return
        if name is None:
            if not self.begun:
                self._revive(task)
            return
        # A penalty that is not smooth has another minimum.
        if past is None or past.interactions is None or entries <= 1 or name in past.slopes:
            return
        l2 = next(self._l2(layout, name) for layout, one in trained_arrays(task.model) if one == name)
        center = self.center[name]
        # Without a bias, l'' counts as 1, and without linear weights, x_i^2 does.
        bends = np.ravel(past.curvatures.get("bias", past.weight))
        counts = np.pad(self.counts, (0, center.shape[1] - len(self.counts)))
        curvatures = past.curvatures.get("w", np.outer(bends / past.weight, counts))
        together = (1 - 1 / entries) / bends
        factors = past.interactions.factors(center.shape[-1], curvatures, together, l2)
        columns = self._best_columns(task, loss, name, factors)
        if columns:
            factors[..., columns:] = 0
            center[...] = self.begun[name] = factors
            others = (curvatures[:, np.newaxis] @ factors**2) * together[:, np.newaxis, np.newaxis]
            past.curvatures[name][...] = curvatures[..., np.newaxis] * others

    def _revive(self, task: Task) -> None:
        """Give dead factors the size of start values again, or the start values if nothing is left of them."""
        stds = start_sizes(task.model, task.spec.values["init_std"])
        for name, scale in scales_of(self.center, stds).items():
            self.center[name][...] *= scale
            self.begun[name] = np.where(scale > 0, self.center[name], np.nan)
            if self.past is not None and name in self.past.slopes:
                self.past.slopes[name][...] *= scale

    def _best_columns(self, task: Task, loss: Loss, name: str, factors: Floats) -> int:
        """Return how many columns of factors predict the rows of a task best, each better than fewer ones by a share
        CLEARLY of the loss, or less if the earlier factors are smaller; 0: none better than the earlier factors."""
        model = self.twin()
        model.allocate(0)
        for one, array in model.parameters.items():
            array[...] = self.center[one]
        trial, columns = replace(task, model=model), 0
        least, _ = loss_and_slopes(trial, loss)
        clearly = CLEARLY * min(1.0, float(np.sum(self.center[name] ** 2) / (np.sum(factors**2) or 1)))
        model.parameters[name][...] = 0
        for column in range(factors.shape[-1]):
            model.parameters[name][..., column] = factors[..., column]
            total, _ = loss_and_slopes(trial, loss)
            if least - total > clearly * abs(least):
                least, columns = total, column + 1
        return columns

    def hold(self, task: Task, loss: Loss, penalty: Penalty) -> QuadraticPrior:
        """Return the quadratic prior of a task's model, in addition to the penalty of the run."""
        total, once, more = task.source.total_weight, min(1.0, self.strength), max(0.0, self.strength - 1)
        past, constant = self.known_past(task, loss), 0.0
        holds, pulls = self.twin(), self.twin()
        for twin in (holds, pulls):
            twin.allocate(0)
            for array in twin.parameters.values():
                array[...] = 0
        for layout, name in trained_arrays(task.model):
            center, l2, curvature, slope = (
                self.center[name],
                self._l2(layout, name),
                past.curvatures[name],
                past.slopes[name],
            )
            arrays = holds.parameters[name], pulls.parameters[name], center, curvature, slope
            for hold, pull, at, bend, push in zip(*map(pieces, arrays), strict=True):
                kept = once * bend + more * (bend + l2 * (bend > 0))
                hold[...] = kept / total
                pull[...] = (kept * at - once * push) / total
                constant += float(np.sum((kept / 2 * at - once * push) * at)) / total
        layouts = [layout for layout, _ in trained_arrays(task.model)]
        same = all(np.allclose(np.array(penalty.l2(one)) * total, self.penalty.l2(one)) for one in layouts)
        return QuadraticPrior(holds, pulls, constant, self.strength >= 1 and not (same and penalty.smooth))

    def known_past(self, task: Task, loss: Loss) -> Past:
        """Return the facts about the loss of the earlier rows at the current parameters of a task."""
        curvatures = self._estimated(task, loss) if self.past is None else self.past.curvatures
        slopes = {} if self.past is None else dict(self.past.slopes)
        for layout, name in trained_arrays(task.model):
            if name not in slopes:
                slopes[name] = -self._l2(layout, name) * self.center[name]
        return Past(self.weight, curvatures, slopes, self.past.interactions if self.past else None)

    def counting(self, past: Past) -> Past:
        """Return the facts about the loss of the earlier rows, weighted by the strength of the prior."""
        once = min(1.0, self.strength)
        if once == 1:
            return past
        curvatures, slopes = (
            {name: once * array for name, array in arrays.items()} for arrays in (past.curvatures, past.slopes)
        )
        pairs = past.interactions and replace(past.interactions, values=once * past.interactions.values)
        return Past(once * past.weight, curvatures, slopes, pairs)

    def _l2(self, layout: BlockLayout, name: str) -> float:
        """Return the strength of the earlier run's l2 penalty of an array of a block."""
        return self.penalty.l2(layout)[name == layout.weight]

    def _estimated(self, task: Task, loss: Loss) -> dict[str, Floats]:
        """Return the curvatures by the number of the earlier rows and their mean over the new ones."""
        found = {}
        model = task.model
        for layout, means in zip(model.layout, mean_of(list(each_shard(task, loss, curvatures))), strict=True):
            for name, columns in columns_of(layout).items():
                curvature = spread(self, model, layout, name) * means[columns]
                found[name] = np.broadcast_to(curvature, model.shapes()[name])
        return found


def spread(earlier: PriorRows, model: Resumable, layout: BlockLayout, name: str) -> Floats:
    """Return how many of the earlier rows each parameter of an array has entered, in the array's shape or in one that
    broadcasts to it."""
    shape = model.shapes()[name]
    if not layout.by_feature:
        return np.full(shape, earlier.weight)
    axis = model.feature_axis(name)
    assert axis is not None
    counts = np.zeros(shape[axis])
    counts[: len(earlier.counts)] = earlier.counts
    times = counts.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    known = earlier.known[name]
    took_part = np.zeros(tuple(map(max, known.shape, shape[1:])), dtype=np.bool_)
    took_part[tuple(slice(None if size == 1 else size) for size in known.shape)] = known
    return times * took_part.reshape(1, *took_part.shape, *(1,) * (len(shape) - 1 - took_part.ndim))


def curvatures(model: Model, loss: Loss, data: Dataset, rows: NDArray[np.int32]) -> list[Floats]:
    """Return for each block the sum over rows of data of weight * largest l'' * (derivative of score)^2, for each
    column of its parameters (see `width_of`). A block by feature has the sum over the entries of the rows. The last
    number is the number of summands."""
    found = [np.zeros(width_of(layout) + 1) for layout in model.layout]
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = data.joined(rows[begin : begin + ROWS_AT_ONCE])
        descent = Descent(model, loss, Penalty(), some, summed=True)
        updater = CoordinateUpdater(descent)
        updater.measure(0, some.rows)
        for number, layout in enumerate(model.layout):
            order = descent.order(number)
            for output in range(model.outputs):
                updater.add_derivatives(number, output, order, found[number][:-1].reshape(1, -1))
            entries = some.nnz if layout.by_feature else some.rows
            found[number][-1] += entries * layout.rows_each * model.outputs
    return found


def mean_of(sums: Sequence[list[Floats]]) -> list[Floats]:
    """Return for each block the mean curvature of each column, given the sums of several slices of the rows."""
    totals = [np.sum(slices, axis=0) for slices in zip(*sums, strict=True)]
    return [total[:-1] / max(1, total[-1]) for total in totals]
