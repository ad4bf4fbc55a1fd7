"""L-BFGS on the mean loss plus l2 penalty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from fmcli.base.state_dict import real_number, require_finite, require_like, require_names, whole_numbers, within
from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.losses.loss import Loss
from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model
from fmcli.models.workspace import Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.full_batch.line_search import Point, search
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.full_batch.vectors import Vector, add_multiple, set_sum
from fmcli.solvers.minimizer import Minimizer, MinimizingTrainer
from fmcli.solvers.remote import RemoteRows
from fmcli.solvers.trainer import Observer, RunState

# The rows are divided into slices. Threads sum the gradients of each slice, and the sums are added in order, so that
# the result does not depend on the number of threads. If a gradient is large, there are fewer slices.
SLICES, SLICES_IF_LARGE, LARGE = 16, 2, 1 << 22
# Pairs of vectors that approximate the Hessian; and how many other vectors there are: point and gradient, here and at
# the end of the step that is tried; the pair of this step; direction, parameters and strengths.
MEMORY, OTHERS = 10, 9
# Iterations between two steps of the parameters that have no gradient; the most evaluations in an iteration.
ROUND, EVALUATIONS = 10, 20
# A change of the gradient along the step is rounding error if it is not above this fraction of the change's square.
LEAST_CURVATURE = float(np.finfo(np.float64).eps)


class Pair(NamedTuple):
    """A step, the change of the gradient, and 1 over their product."""

    step: Vector
    change: Vector
    inverse: float


class LBFGS(Minimizer):
    """Two-loop L-BFGS (Nocedal and Wright, algorithm 7.4) with strong Wolfe conditions; an epoch is an iteration.

    A block on the simplex is theta = softmax(free), which leaves the search without bounds; the search begins where all
    of theta are equal. Raises ValueError for any penalty but l2.

    source : the rows to train on; None: all rows of the data.
    elsewhere : returns the mean loss and its gradient at the model's parameters, as the objective's vector; None: they
        are computed here.
    """

    def prepare(
        self, source: TrainingRows | None = None, elsewhere: Callable[[Objective], tuple[float, Vector]] | None = None
    ) -> None:
        if not self.penalty.smooth:
            raise ValueError("L-BFGS supports l2 penalties only")
        self.iteration, self.round_began, self.epochs = 0, 0, 1
        self.pairs: list[Pair] = []
        self.source = source or TrainingRows(self.data, np.arange(self.data.rows, dtype=np.int32))
        self.objective = Objective(self.model, self.loss, self.data, self.source.total_weight)
        self.elsewhere = elsewhere
        self.gradients = np.zeros((0 if elsewhere else parts_of(self.objective.size), self.objective.size))
        self.l2 = np.zeros(self.objective.size)
        self.direction, self.values, self.trial, self.trial_gradient, *spare = np.empty((6, self.objective.size))
        self.spare = spare[0], spare[1]
        self.simplexes: list[Vector] = []
        for number, layout in enumerate(self.model.layout):
            self._strengths(number, layout)
        self.pull = np.zeros(0)
        if self.hold:
            self.pull = self._vector(self.hold.pulls)
            self.l2 += self._vector(self.hold.holds)
        self.mean_loss = self.penalty_value = 0.0
        self.point = self.gradient = np.zeros(0)
        self.value = 0.0
        self.pool = ThreadPoolExecutor(self.threads)  # of threads that end with the process or this

    @staticmethod
    def bytes_needed(model: Model, data: Dataset, threads: int, epochs: int) -> int:
        """Return the bytes that the search needs; each epoch adds a pair of vectors to the history."""
        size = model.outputs * sum(layout.rows(model.features) * (layout.lanes + 1) for layout in model.layout)
        rooms = min(threads, parts_of(size)) * Workspace.bytes_needed(model, data.longest)
        return np.dtype(np.float64).itemsize * size * (parts_of(size) + 2 * min(MEMORY, epochs) + OTHERS) + rooms

    def _strengths(self, number: int, layout: BlockLayout) -> None:
        where, rows, width = self.objective.places(number)
        block = self.l2[where].reshape(rows, width)
        block[:, : layout.lanes], block[:, layout.lanes :] = self.penalty.l2(layout)
        if layout.constraint == "simplex":
            self.simplexes += list(np.arange(self.objective.size)[where].reshape(rows, width)[:, : layout.columns])

    def _vector(self, model: Model) -> Vector:
        """Return the parameters of a model with the same rows, as a vector of the search."""
        vector = np.empty(self.objective.size)
        Objective(model, self.loss, self.data).read(vector)
        return vector

    def evaluate(self, free: Vector, gradient: Vector) -> float:
        """Return the objective at a vector of the search, whose gradient it sets; not finite if they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._evaluate(free, gradient)

    def _evaluate(self, free: Vector, gradient: Vector) -> float:
        values = self.values
        values[...] = free
        self._constrain(values)
        self.objective.write(values)
        self.objective.read(values)  # rounded to the model's real type
        self.gradients[...] = 0
        np.multiply(self.l2, values, out=gradient)
        if self.hold:
            gradient -= self.pull
        if self.elsewhere:
            self.mean_loss, of_loss = self.elsewhere(self.objective)
            gradient += of_loss
        else:
            self.mean_loss = sum(loss for data in self._shards() for loss in self._accumulate(data))
        for one in self.gradients:
            gradient += one
        for where in self.simplexes:
            theta = values[where]
            gradient[where] = theta * (gradient[where] - theta @ gradient[where])
            if self.hold:
                gradient[where] = 0
        pulled = self.hold.constant - float(self.pull @ values) if self.hold else 0.0
        self.penalty_value = float(self.l2 @ np.square(values, out=values) / 2) + pulled
        self.on_rows(min(self.iteration + 1, self.epochs), self.source.count)
        return self.mean_loss + self.penalty_value

    def _shards(self) -> Iterator[Dataset]:
        """Return the rows to train on, shard by shard."""
        return (data if len(rows) == data.rows else data.take(rows) for data, rows in self.source.every())

    def _accumulate(self, data: Dataset) -> list[float]:
        """Add a shard's contribution to the gradients. Returns the contribution of each slice to the mean loss."""
        bounds = np.linspace(0, data.rows, len(self.gradients) + 1).astype(int)
        self.objective.take(data)

        def run(number: int) -> float:
            return self.objective.accumulate(bounds[number], bounds[number + 1], self.gradients[number])

        return list(self.pool.map(run, range(len(self.gradients))))

    def _constrain(self, values: Vector) -> None:
        """Fill a vector of the search from the parameters that it stands for."""
        for where in self.simplexes:
            powers = np.exp(values[where] - values[where].max())
            values[where] = powers / powers.sum()

    def free(self) -> Vector:
        """Return the vector of the search that stands for the model's parameters."""
        values = np.empty(self.objective.size)
        self.objective.read(values)
        for where in self.simplexes:
            values[where] = np.log(np.maximum(values[where], np.finfo(float).tiny))
        return values

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Minimize. Parameters that have no gradient, such as anchors, take a step after every ROUND iterations."""
        self.epochs = epochs
        if not self.point.size:
            self._value_here()
            self.model.end_epoch()  # by now it is known which rows enter samples at all
            self._begin_round()
        anchored = self.model.anchored if self.model.anchored and self.model.anchored.learned else None
        anchored = None if self.hold else anchored
        while self.iteration < epochs:
            full = anchored and self.iteration - self.round_began == ROUND
            if not full and self._iterate():
                self.iteration += 1
                if after(self.mean_loss, self.penalty_value):
                    break
                continue
            if not anchored:
                break
            moved = anchored.step_apart(self._shards(), self.loss, self._value_here)
            if not moved and self.iteration == self.round_began:
                break
            self._begin_round()

    def _begin_round(self) -> None:
        """Begin a search at the model's parameters."""
        self.round_began, self.pairs = self.iteration, []
        self.point, self.gradient = self.free(), np.empty(self.objective.size)
        self.value = self.evaluate(self.point, self.gradient)

    def _value_here(self) -> float:
        """Return the objective at the model's parameters."""
        return self.evaluate(self.free(), self.trial_gradient)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # a direction that overflows is no descent
    def _iterate(self) -> bool:
        """Take a step; returns whether there is one that lowers the objective. The model has its parameters then."""
        while True:
            direction = self._direction()
            slope = float(self.gradient @ direction)
            if slope < 0 and self._step_along(direction, slope):
                return True
            if not self.pairs:
                self.evaluate(self.point, self.trial_gradient)
                return False
            self.pairs = []  # try again along the gradient

    def _direction(self) -> Vector:
        """Return the direction of the next step: minus the gradient times the approximate inverse of the Hessian."""
        direction = np.negative(self.gradient, out=self.direction)
        weights = []
        for pair in reversed(self.pairs):
            weights.append(pair.inverse * float(pair.step @ direction))
            add_multiple(direction, -weights[-1], pair.change)
        if self.pairs:
            newest = self.pairs[-1]
            direction /= newest.inverse * float(newest.change @ newest.change)
        for pair, weight in zip(self.pairs, reversed(weights), strict=True):
            add_multiple(direction, weight - pair.inverse * float(pair.change @ direction), pair.step)
        return direction

    def _step_along(self, direction: Vector, slope: float) -> bool:
        """Take a step along a direction of descent; returns whether there is one."""
        tried = 0.0

        def at(step: float) -> Point:
            nonlocal tried
            tried = step
            set_sum(self.trial, self.point, step, direction)
            value = self.evaluate(self.trial, self.trial_gradient)
            return Point(step, value, float(self.trial_gradient @ direction))

        first = 1.0 if self.pairs else 1 / float(np.linalg.norm(direction))
        found = search(at, Point(0.0, self.value, slope), first, EVALUATIONS)
        if found is None:
            return False
        if tried != found.step:  # an earlier point was the best
            at(found.step)
        self._remember(
            np.subtract(self.trial, self.point, out=self.spare[0]),
            np.subtract(self.trial_gradient, self.gradient, out=self.spare[1]),
        )
        self.point, self.trial = self.trial, self.point
        self.gradient, self.trial_gradient = self.trial_gradient, self.gradient
        self.value = found.value
        return True

    def _remember(self, step: Vector, change: Vector) -> None:
        """Keep a pair, unless the curvature along the step is not positive. If it is kept, the next one takes the
        vectors of the oldest one, or new ones."""
        product = float(step @ change)
        if product > LEAST_CURVATURE * float(change @ change):
            self.pairs.append(Pair(step, change, 1 / product))
            oldest = self.pairs.pop(0) if len(self.pairs) > MEMORY else None
            self.spare = (oldest.step, oldest.change) if oldest else (np.empty_like(step), np.empty_like(change))

    def state(self) -> RunState:
        counts = np.array([self.iteration, self.round_began, len(self.pairs)])
        found = {"counts": counts, "point": self.point, "value": np.array(self.value), "gradient": self.gradient}
        vectors = [vector for pair in self.pairs for vector in (pair.step, pair.change)]
        return {**found, **dict(zip(pair_names(len(self.pairs)), vectors, strict=True))}

    @np.errstate(over="ignore", invalid="ignore")  # pairs of a file may overflow, and are left out
    def load_state(self, state: RunState, epochs: int) -> None:
        self.iteration, self.round_began, pairs = whole_numbers(state, "counts", 3)
        within("counts", self.iteration, epochs, epochs)
        within("counts", self.round_began, 0, epochs)
        vectors = ["point", "gradient", *pair_names(within("counts", pairs, 0, MEMORY))]
        require_names(state, ["counts", "value", *vectors])
        for name in vectors:
            require_like(name, state[name], np.empty(self.objective.size))
            require_finite(name, state[name])
        self.point, self.gradient, *kept = (state[name].copy() for name in vectors)
        self.value, self.pairs = real_number(state, "value"), []
        for step, change in zip(kept[::2], kept[1::2], strict=True):
            self._remember(step, change)


def pair_names(pairs: int) -> list[str]:
    """Return the names of the vectors of pairs in a state."""
    return [f"{name}.{pair}" for pair in range(pairs) for name in ("step", "change")]


class LBFGSTrainer(MinimizingTrainer):
    """Trains by L-BFGS. Rows that are not in memory are read shard by shard for each gradient."""

    minimizer = LBFGS

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task = self.task
        if task.source.in_memory:
            super().prepare(loss, penalty, observer)
        else:
            data, source = task.data, task.source
            elsewhere = source.gradients(task) if isinstance(source, RemoteRows) else None
            arguments = task.model, loss, penalty, data, task.threads, observer.rows, self.hold(loss, penalty)
            self.engine = LBFGS(*arguments, source=source, elsewhere=elsewhere)


def parts_of(size: int) -> int:
    """Return the number of slices of the rows, given the size of a gradient."""
    return SLICES if size < LARGE else SLICES_IF_LARGE
