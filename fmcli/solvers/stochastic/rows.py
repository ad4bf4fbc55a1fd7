"""Sequential training: a step for each row, or for each batch of rows."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING

from fmcli.models.model import Workspace
from fmcli.registry.streams import SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.loop import Trainer as Loop

if TYPE_CHECKING:
    from fmcli.losses.loss import Loss
    from fmcli.solvers.stochastic.solver import Solver
    from fmcli.solvers.trainer import Task


class RowEpochs:
    """The epochs of a task, row by row or batch by batch, each in a new random order.

    Parameters
    ----------
    mean_weight : mean of the rows' weights, by which solvers that average weights divide.

    Attributes
    ----------
    unit : the rows of a batch; an epoch can be divided after any number of batches.
    """

    def __init__(self, task: Task, solver: Solver, loss: Loss, mean_weight: float) -> None:
        self.task, self.unit = task, int(task.spec.values["batch_size"])
        self.loop = Loop(task.model, solver, loss, task.data, self.unit, mean_weight)

    @staticmethod
    def bytes_needed(task: Task) -> int:
        """Bytes of an update."""
        model, longest, batch = task.model, task.data.longest, task.spec.values["batch_size"]
        merged = Batch.bytes_needed(model, batch, longest) if batch > 1 else 0
        return Workspace.bytes_needed(model, longest) + model.update_needed(batch) + merged

    def begin(self, number: int, pool: Executor, last: bool) -> None:
        """Draw the order of an epoch."""
        self.order, self.done = self.task.rows.copy(), 0
        if self.task.spec.values["shuffle"]:
            generator(self.task.spec, SHUFFLE_STREAM, self.task.epochs_before + number).shuffle(self.order)

    def train(self, stop: int, total: float) -> tuple[int, float, float]:
        """Train on the next rows, before `stop`; return `stop`, their weight, and `total` plus their weighted
        losses."""
        total = self.loop.run(self.order, self.done, stop, total)
        weight = self.task.data.total_weight(self.order[self.done : stop])
        self.done = stop
        return stop, weight, total
