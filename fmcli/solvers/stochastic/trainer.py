"""Stochastic training: epochs row by row, each in a new random order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fmcli.losses.loss import Loss
from fmcli.models.model import Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.registry.remedies import diverged
from fmcli.registry.specs import Spec
from fmcli.registry.streams import SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.loop import Trainer as Loop
from fmcli.solvers.stochastic.solver import Solver
from fmcli.solvers.trainer import Observer, Task, Trainer

# Non-zeros between two checks of the clock: some 30 ms of work, a hundred times what the check costs.
CHUNK_NONZEROS = 1 << 21


class StochasticTrainer(Trainer):
    """Trains by any solver that goes through the data row by row."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.solver = make_solver(task.spec)

    @property
    def slots(self) -> int:
        return self.solver.slots

    @property
    def updates(self) -> int:
        return self.solver.updates

    def resume(self, updates: int) -> None:
        self.solver.resume(updates)

    def bytes_needed(self) -> int:
        """Bytes that training takes: those of the solver, of an update, and of the rows' numbers in two orders."""
        model, data, rows = self.task.model, self.task.data, len(self.task.rows)
        batch = self.task.spec.values["batch_size"]
        merged = Batch.bytes_needed(model, batch, data.longest) if batch > 1 else 0
        room = Workspace.bytes_needed(model, data.longest) + model.update_needed(batch)
        updates = math.ceil(rows / batch)
        return self.solver.bytes_needed(model, updates) + room + merged + 2 * np.dtype(np.int32).itemsize * rows

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task, self.penalty, self.observer = self.task, penalty, observer
        self.solver.bind(task.model, penalty)
        self.solver.start()
        self.total_weight = task.data.total_weight(task.rows)
        batch = task.spec.values["batch_size"]
        self.loop = Loop(task.model, self.solver, loss, task.data, batch, self.total_weight / len(task.rows))

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Train; the loss of an epoch is the mean of each row's before its own update, the penalty that at its end."""
        for number in range(1, epochs + 1):
            total = self.epoch(number)
            self.solver.end_epoch()
            self.task.model.end_epoch()
            value = self.penalty.value(self.task.model)
            if after(total / self.total_weight, value / (1 if self.solver.averages_weights else self.total_weight)):
                break

    def epoch(self, number: int) -> float:
        """One pass over the rows; the sum of their weighted losses."""
        task, every = self.task, self.observer.every
        order = task.rows.copy()
        if task.spec.values["shuffle"]:
            generator(task.spec, SHUFFLE_STREAM, task.epochs_before + number).shuffle(order)
        batch = task.spec.values["batch_size"]
        step = max(1, CHUNK_NONZEROS * task.data.rows // max(task.data.nnz, task.data.rows) // batch) * batch
        every = math.ceil(every / batch) * batch if every else len(order) + 1
        total = weight = 0.0
        start = 0
        while start < len(order):
            stop = min(len(order), (start // step + 1) * step, (start // every + 1) * every)
            total = self.loop.run(order, start, stop, total)
            if not np.isfinite(total):
                raise diverged(task.spec, f"the loss is no longer a finite number in epoch {number}")
            weight += task.data.total_weight(order[start:stop])
            if stop % every == 0:
                self.observer.loss(number, stop, total / weight if weight else math.nan)
            self.observer.rows(number, stop)
            start = stop
        return total


def make_solver(spec: Spec) -> Solver:
    """The solver of a spec, not bound to a model yet."""
    entry = spec.solver_entry
    solver: Solver = entry.load()(**spec.keywords(entry))
    return solver
