"""L-BFGS on the mean loss plus l2 penalty, through scipy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from fmcli._core.data import Dataset
from fmcli._core.layout import BlockLayout
from fmcli._core.loss import Loss
from fmcli._core.model import Model
from fmcli._core.objective import Objective
from fmcli._core.penalty import Penalty

Vector = NDArray[np.float64]
# Runs of rows whose gradients are summed apart, in as many threads at a time as there are, and then in order: few where
# a gradient is large.
RUNS, RUNS_OF_LARGE, LARGE = 16, 2, 1 << 22
# Corrections that the approximation of the Hessian is made of.
MEMORY = 10


class LBFGS:
    """The objective in the form that scipy minimises.

    A block on the simplex is theta = softmax(free), which leaves the search without bounds; the search begins where all
    of theta are equal.

    Parameters
    ----------
    model : Model, allocated without state and started.
    penalty : Penalty with l2 alone.
    data : Dataset with labels.
    threads : how many; the result is the same for any number.
    """

    def __init__(self, model: Model, loss: Loss, penalty: Penalty, data: Dataset, threads: int = 1) -> None:
        self.model, self.objective, self.penalty, self.threads = model, Objective(model, loss, data), penalty, threads
        runs = RUNS if self.objective.size < LARGE else RUNS_OF_LARGE
        self.bounds = np.linspace(0, data.rows, runs + 1).astype(int)
        self.gradients = np.zeros((runs, self.objective.size))
        self.l2 = np.zeros(self.objective.size)
        self.simplexes: list[Vector] = []
        for number, layout in enumerate(model.layout):
            self._strengths(number, layout)
        self.mean_loss = self.penalty_value = 0.0

    def _strengths(self, number: int, layout: BlockLayout) -> None:
        where, rows, width = self.objective.places(number)
        block = self.l2[where].reshape(rows, width)
        if layout.penalty != "none":
            block[...] = self.penalty.l2_v
            if layout.weight and layout.part == "w" and layout.penalty == "full":
                block[:, -1] = self.penalty.l2_w
        elif layout.body:
            self.simplexes += list(np.arange(self.objective.size)[where].reshape(rows, width)[:, : layout.columns])

    def evaluate(self, free: Vector) -> tuple[float, Vector]:
        """The objective and its gradient at a vector."""
        values = self.constrained(free)
        self.objective.write(values)
        values = self.objective.read()  # as the model's real type has them
        self.gradients[...] = 0

        def run(number: int) -> float:
            start, stop = self.bounds[number : number + 2]
            return self.objective.accumulate(start, stop, self.gradients[number])

        with ThreadPoolExecutor(self.threads) as pool:
            losses = list(pool.map(run, range(len(self.gradients))))
        gradient = self.l2 * values
        for part in self.gradients:
            gradient += part
        for where in self.simplexes:
            theta = values[where]
            gradient[where] = theta * (gradient[where] - theta @ gradient[where])
        self.mean_loss, self.penalty_value = sum(losses), float(self.l2 @ values**2 / 2)
        return self.mean_loss + self.penalty_value, gradient

    def constrained(self, free: Vector) -> Vector:
        """The parameters that a vector of the search stands for."""
        values = free.copy()
        for where in self.simplexes:
            powers = np.exp(free[where] - free[where].max())
            values[where] = powers / powers.sum()
        return values

    def run(self, iterations: int, after: Callable[[float, float], bool]) -> None:
        """Minimise; `after` is called with mean loss and penalty after every iteration and tells whether to stop."""
        from scipy.optimize import minimize

        start = self.objective.read()
        for where in self.simplexes:
            start[where] = np.log(np.maximum(start[where], np.finfo(float).tiny))

        def callback(intermediate_result: object) -> None:
            # The last evaluation may have been another step of the line search.
            self.evaluate(intermediate_result.x)  # type: ignore[attr-defined]
            if after(self.mean_loss, self.penalty_value):
                raise StopIteration

        minimize(
            self.evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options={"maxiter": iterations, "maxfun": 20 * iterations, "maxcor": MEMORY, "ftol": 0, "gtol": 0},
        )
