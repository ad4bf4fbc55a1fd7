"""The contract of the epochs of stochastic training, wherever the rows are."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Protocol

from fmcli.losses.loss import Loss
from fmcli.solvers.stochastic.solver import Solver
from fmcli.solvers.trainer import Task


class Epochs(Protocol):
    """The epochs of a task.

    unit : an epoch can be divided after any multiple of this number of rows.
    """

    @property
    def unit(self) -> int: ...

    def begin(self, number: int, pool: Executor, last: bool, done: int = 0) -> None:
        """Begin an epoch of this run after its first `done` rows. number : from 1. last : whether no epoch follows."""
        ...

    def advance(self, stop: int, total: float) -> tuple[int, float, float]:
        """Train on the next rows, up to the row `stop` of the epoch or beyond.

        Returns how many rows of the epoch are done then, the weight of the new ones, and `total` plus their weighted
        losses.
        """
        ...

    def end(self) -> None:
        """End the epoch, perhaps before all of its rows are done."""
        ...


class KindOfEpochs(Protocol):
    """A class of epochs."""

    def __call__(self, task: Task, solver: Solver, loss: Loss, mean_weight: float) -> Epochs:
        """Return the epochs of a task. mean_weight : of the rows, by which solvers that average weights divide."""
        ...

    def bytes_needed(self, task: Task) -> int:
        """Return bytes that the epochs of a task take."""
        ...
