"""L-BFGS on the mean loss plus l2 penalty, through scipy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model, Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.trainer import Observer, Trainer
from fmcli.system.memory import SCIPY_OPTIMIZE, require_scipy

Vector = NDArray[np.float64]
# Runs of rows whose gradients are summed apart, in as many threads at a time as there are, and then in order: few where
# a gradient is large.
RUNS, RUNS_OF_LARGE, LARGE = 16, 2, 1 << 22
# Corrections that the approximation of the Hessian is made of; each is two vectors. Besides, scipy works on some five,
# and parameters, strengths, gradients and what is made of them are as many again.
MEMORY, OTHERS = 10, 12
# Iterations between two steps of what gradients do not move; evaluations that an iteration may take.
ROUND, EVALUATIONS = 10, 20


class LBFGSTrainer(Trainer):
    """Trains by L-BFGS."""

    def bytes_needed(self) -> int:
        task = self.task
        return LBFGS.bytes_needed(task.model, task.data, task.threads) + task.copy_needed()

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task = self.task
        self.search = LBFGS(task.model, loss, penalty, task.training_data(), task.threads, observer.rows)

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        self.search.run(epochs, after)


class LBFGS:
    """The objective in the form that scipy minimises.

    A block on the simplex is theta = softmax(free), which leaves the search without bounds; the search begins where all
    of theta are equal.

    Parameters
    ----------
    model : Model, allocated without state and started.
    loss : as the run has it.
    penalty : Penalty with l2 alone; ValueError for any other.
    data : Dataset with labels.
    threads : how many; the result is the same for any number.
    on_rows : called after each evaluation with the number of the iteration (from 1) and how many rows that is.
    """

    def __init__(
        self,
        model: Model,
        loss: Loss,
        penalty: Penalty,
        data: Dataset,
        threads: int = 1,
        on_rows: Callable[[int, int], None] = lambda epoch, rows: None,
    ) -> None:
        if not penalty.smooth:
            raise ValueError("L-BFGS supports l2 penalties only")
        model.freeze()
        self.model, self.loss, self.penalty, self.data = model, loss, penalty, data
        self.on_rows, self.iteration, self.epochs = on_rows, 0, 1
        self.objective = Objective(model, loss, data)
        runs = runs_of(self.objective.size)
        self.bounds = np.linspace(0, data.rows, runs + 1).astype(int)
        self.gradients = np.zeros((runs, self.objective.size))
        self.l2 = np.zeros(self.objective.size)
        self.simplexes: list[Vector] = []
        for number, layout in enumerate(model.layout):
            self._strengths(number, layout)
        self.mean_loss = self.penalty_value = 0.0
        self.evaluated = np.zeros(0)
        self.pool = ThreadPoolExecutor(threads)  # of threads that end with the process or this

    @staticmethod
    def bytes_needed(model: Model, data: Dataset, threads: int) -> int:
        """Bytes that a search takes."""
        size = model.outputs * sum(layout.rows(model.features) * (layout.lanes + 1) for layout in model.layout)
        rooms = min(threads, runs_of(size)) * Workspace.bytes_needed(model, data.longest)
        return np.dtype(np.float64).itemsize * size * (runs_of(size) + 2 * MEMORY + OTHERS) + rooms

    def _strengths(self, number: int, layout: BlockLayout) -> None:
        where, rows, width = self.objective.places(number)
        block = self.l2[where].reshape(rows, width)
        block[:, : layout.lanes], block[:, layout.lanes :] = self.penalty.l2(layout)
        if layout.constraint == "simplex":
            self.simplexes += list(np.arange(self.objective.size)[where].reshape(rows, width)[:, : layout.columns])

    def evaluate(self, free: Vector) -> tuple[float, Vector]:
        """The objective and its gradient at a vector of the search; beyond the range of numbers they are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._evaluate(free)

    def _evaluate(self, free: Vector) -> tuple[float, Vector]:
        self.evaluated = free.copy()
        values = self.constrained(free)
        self.objective.write(values)
        values = self.objective.read()  # as the model's real type has them
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
        """Minimise; `after` is called with mean loss and penalty after every iteration and tells whether to stop.

        What gradients do not move takes a step after every ROUND iterations.
        """
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
        """Minimise from where the model stands; whether `after` said to stop."""
        require_scipy(SCIPY_OPTIMIZE, "lbfgs")
        from scipy.optimize import minimize

        stopped = False

        def callback(intermediate_result: object) -> None:
            nonlocal stopped
            self.iteration += 1
            x = intermediate_result.x  # type: ignore[attr-defined]
            if not np.array_equal(x, self.evaluated):  # that was another step of the line search
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


def runs_of(size: int) -> int:
    """How many gradients of that size are summed apart."""
    return RUNS if size < LARGE else RUNS_OF_LARGE
