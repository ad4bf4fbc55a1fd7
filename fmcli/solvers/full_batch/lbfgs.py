"""L-BFGS on the mean loss plus l2 penalty, through scipy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model, Workspace
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.minimizer import Minimizer, MinimizingTrainer
from fmcli.system.memory import SCIPY_OPTIMIZE, require_scipy

Vector = NDArray[np.float64]
# The rows are divided into parts. Threads sum the gradients of each part, and the sums are added in order, so that the
# result does not depend on the number of threads. If a gradient is large, there are fewer parts.
PARTS, PARTS_IF_LARGE, LARGE = 16, 2, 1 << 22
# Corrections that approximate the Hessian; each is two vectors. In addition, scipy works on about five vectors, and
# parameters, strengths, gradients and their temporary results are about as many again.
MEMORY, OTHERS = 10, 12
# Iterations between two steps of the parameters that have no gradient; the most evaluations in an iteration.
ROUND, EVALUATIONS = 10, 20


class LBFGS(Minimizer):
    """The objective in the form that scipy minimises; an epoch is an iteration.

    A block on the simplex is theta = softmax(free), which leaves the search without bounds; the search begins where all
    of theta are equal. Raises ValueError for any penalty but l2.
    """

    def prepare(self) -> None:
        if not self.penalty.smooth:
            raise ValueError("L-BFGS supports l2 penalties only")
        self.iteration, self.epochs = 0, 1
        self.objective = Objective(self.model, self.loss, self.data)
        parts = parts_of(self.objective.size)
        self.bounds = np.linspace(0, self.data.rows, parts + 1).astype(int)
        self.gradients = np.zeros((parts, self.objective.size))
        self.l2 = np.zeros(self.objective.size)
        self.simplexes: list[Vector] = []
        for number, layout in enumerate(self.model.layout):
            self._strengths(number, layout)
        self.mean_loss = self.penalty_value = 0.0
        self.evaluated = np.zeros(0)
        self.pool = ThreadPoolExecutor(self.threads)  # of threads that end with the process or this

    @staticmethod
    def bytes_needed(model: Model, data: Dataset, threads: int) -> int:
        """Bytes that the search takes."""
        size = model.outputs * sum(layout.rows(model.features) * (layout.lanes + 1) for layout in model.layout)
        rooms = min(threads, parts_of(size)) * Workspace.bytes_needed(model, data.longest)
        return np.dtype(np.float64).itemsize * size * (parts_of(size) + 2 * MEMORY + OTHERS) + rooms

    def _strengths(self, number: int, layout: BlockLayout) -> None:
        where, rows, width = self.objective.places(number)
        block = self.l2[where].reshape(rows, width)
        block[:, : layout.lanes], block[:, layout.lanes :] = self.penalty.l2(layout)
        if layout.constraint == "simplex":
            self.simplexes += list(np.arange(self.objective.size)[where].reshape(rows, width)[:, : layout.columns])

    def evaluate(self, free: Vector) -> tuple[float, Vector]:
        """The objective and its gradient at a vector of the search; not finite if they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._evaluate(free)

    def _evaluate(self, free: Vector) -> tuple[float, Vector]:
        self.evaluated = free.copy()
        values = self.constrained(free)
        self.objective.write(values)
        values = self.objective.read()  # rounded to the model's real type
        self.gradients[...] = 0

        def run(number: int) -> float:
            start, stop = self.bounds[number : number + 2]
            return self.objective.accumulate(start, stop, self.gradients[number])

        losses = list(self.pool.map(run, range(len(self.gradients))))
        gradient = self.l2 * values
        for part in self.gradients:
            gradient += part
        for where in self.simplexes:
            theta = values[where]
            gradient[where] = theta * (gradient[where] - theta @ gradient[where])
        self.mean_loss, self.penalty_value = sum(losses), float(self.l2 @ values**2 / 2)
        self.on_rows(min(self.iteration + 1, self.epochs), self.data.rows)
        return self.mean_loss + self.penalty_value, gradient

    def constrained(self, free: Vector) -> Vector:
        """The parameters that a vector of the search stands for."""
        values = free.copy()
        for where in self.simplexes:
            powers = np.exp(free[where] - free[where].max())
            values[where] = powers / powers.sum()
        return values

    def free(self) -> Vector:
        """The vector of the search that stands for the model's parameters."""
        values = self.objective.read()
        for where in self.simplexes:
            values[where] = np.log(np.maximum(values[where], np.finfo(float).tiny))
        return values

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Minimise. Parameters that have no gradient, such as anchors, take a step after every ROUND iterations."""
        self.epochs = epochs
        self.evaluate(self.free())
        self.model.end_epoch()
        while self.iteration < epochs:
            before = self.iteration
            left = epochs - before
            stopped = self._search(min(left, ROUND) if self.model.steps_apart else left, after)
            if stopped or not self.model.steps_apart:
                break
            moved = self.model.step_apart(self.data, self.loss, lambda: self.evaluate(self.free())[0])
            if not moved and self.iteration == before:
                break

    def _search(self, iterations: int, after: Callable[[float, float], bool]) -> bool:
        """Minimise from the model's current parameters; returns whether `after` said to stop."""
        require_scipy(SCIPY_OPTIMIZE, "lbfgs")
        from scipy.optimize import minimize

        stopped = False

        def callback(intermediate_result: object) -> None:
            nonlocal stopped
            self.iteration += 1
            x = intermediate_result.x  # type: ignore[attr-defined]
            if not np.array_equal(x, self.evaluated):  # the last evaluation was of another point of the line search
                self.evaluate(x)
            stopped = after(self.mean_loss, self.penalty_value)
            if stopped:
                raise StopIteration

        result = minimize(
            self.evaluate,
            self.free(),
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options={
                **{"maxiter": iterations, "maxfun": EVALUATIONS * iterations, "maxcor": MEMORY},
                **{"ftol": 0, "gtol": 0},
            },
        )
        if not stopped and not np.array_equal(result.x, self.evaluated):
            self.evaluate(result.x)
        return stopped


class LBFGSTrainer(MinimizingTrainer):
    """Trains by L-BFGS."""

    minimizer = LBFGS


def parts_of(size: int) -> int:
    """Into how many parts the rows are divided if a gradient has so many numbers."""
    return PARTS if size < LARGE else PARTS_IF_LARGE
