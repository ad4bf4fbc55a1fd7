"""Stochastic training: epochs row by row, in a new order each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model, Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.registry.remedies import diverged
from fmcli.registry.streams import SHUFFLE_STREAM, generator
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.loop import Trainer
from fmcli.solvers.stochastic.solver import Solver

if TYPE_CHECKING:
    from fmcli.registry.specs import Spec
    from fmcli.training.job import Plan

# Non-zeros between two looks at the clock: some 30 ms of work, a hundred times what the look costs.
CHUNK_NONZEROS = 1 << 21


class Stochastic:
    """A row solver's course through a plan's rows.

    Parameters
    ----------
    plan : with its model allocated for the solver and started.
    solver : Solver, not bound yet; goes on with the earlier model's state where the plan says so.
    on_rows, on_loss, every : as training.train has them.
    """

    def __init__(
        self,
        plan: Plan,
        solver: Solver,
        loss: Loss,
        penalty: Penalty,
        on_rows: Callable[[int, int], None],
        on_loss: Callable[[int, int, float], None],
        every: int | None,
    ) -> None:
        self.plan, self.solver, self.penalty = plan, solver, penalty
        self.on_rows, self.on_loss, self.every = on_rows, on_loss, every
        solver.bind(plan.model, penalty)
        if plan.earlier and plan.resumes:
            plan.earlier.restore_state(plan.model, solver)
        else:
            solver.start()
        weight, rows = plan.data.weight, len(plan.rows)
        self.total_weight = float(rows) if weight is None else float(weight[plan.rows].sum())
        batch = plan.spec.values["batch_size"]
        self.trainer = Trainer(plan.model, solver, loss, plan.data, batch, self.total_weight / rows)

    @staticmethod
    def bytes_needed(spec: Spec, model: Model, solver: Solver, data: Dataset, rows: int) -> int:
        """Bytes that training takes: what the solver and an update need, and the rows' numbers in two orders."""
        batch = spec.values["batch_size"]
        merged = Batch.bytes_needed(model, batch, data.longest) if batch > 1 else 0
        room = Workspace.bytes_needed(model, data.longest) + model.update_needed(batch)
        updates = math.ceil(rows / batch)
        return solver.bytes_needed(model, updates) + room + merged + 2 * np.dtype(np.int32).itemsize * rows

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Train; `after` is called with the mean loss, each sample's before its own update, and the penalty at the end
        of every epoch and tells whether to stop.

        Raises DivergedError where the loss is no longer finite.
        """
        if self.plan.spec.values["shuffle"] and epochs > 1:
            self.plan.data.visited_at_random()
        for number in range(1, epochs + 1):
            total = self.epoch(number)
            self.solver.end_epoch()
            self.plan.model.end_epoch()
            value = self.penalty.value(self.plan.model)
            if after(total / self.total_weight, value / (1 if self.solver.averages_weights else self.total_weight)):
                break

    def epoch(self, number: int) -> float:
        """One pass over the rows; the sum of their weighted losses."""
        plan, every = self.plan, self.every
        order = plan.rows.copy()
        if plan.spec.values["shuffle"]:
            generator(plan.spec, SHUFFLE_STREAM, plan.epochs_before + number).shuffle(order)
        batch = plan.spec.values["batch_size"]
        step = max(1, CHUNK_NONZEROS * plan.data.rows // max(plan.data.nnz, plan.data.rows) // batch) * batch
        every = math.ceil(every / batch) * batch if every else len(order) + 1
        total = weight = 0.0
        start = 0
        while start < len(order):
            stop = min(len(order), (start // step + 1) * step, (start // every + 1) * every)
            total = self.trainer.run(order, start, stop, total)
            if not np.isfinite(total):
                raise diverged(plan.spec, f"the loss is no longer a finite number in epoch {number}")
            weight += stop - start if plan.data.weight is None else float(plan.data.weight[order[start:stop]].sum())
            if stop % every == 0:
                self.on_loss(number, stop, total / weight if weight else math.nan)
            self.on_rows(number, stop)
            start = stop
        return total
