"""Stochastic training: epochs row by row or in rounds of rows, each in a new random order."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fmcli.base.state_dict import real_number, require_names, whole_number
from fmcli.data.shards.observed_rows import DrawnPairs
from fmcli.data.shards.paired_rows import PairedRows
from fmcli.losses.loss import Loss
from fmcli.penalties.penalty import Penalty
from fmcli.registry.specs import Spec
from fmcli.solvers.remote import RemoteRows
from fmcli.solvers.stochastic.epochs import KindOfEpochs
from fmcli.solvers.stochastic.pairs import DrawnEpochs, PairEpochs
from fmcli.solvers.stochastic.round_epochs import RoundEpochs
from fmcli.solvers.stochastic.rows import RowEpochs
from fmcli.solvers.stochastic.solver import Solver
from fmcli.solvers.trainer import Observer, RunState, Task, Trainer

# Non-zeros between two checks of the clock: some 30 ms of work, a hundred times what the check costs.
CHUNK_NONZEROS = 1 << 21


class StochasticTrainer(Trainer):
    """Trains by any stochastic solver, with a step for each row, batch or round."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.solver = make_solver(task.spec)
        self.number, self.done, self.total, self.weight = 1, 0, 0.0, 0.0
        self.kind_of_epochs: KindOfEpochs = RowEpochs
        if isinstance(task.source, RemoteRows):
            self.kind_of_epochs = task.source.kind_of_epochs
        elif task.spec.values["round_size"] > 1:
            self.kind_of_epochs = RoundEpochs
        elif isinstance(task.source, PairedRows):
            self.kind_of_epochs = PairEpochs
        elif isinstance(task.source, DrawnPairs):
            self.kind_of_epochs = DrawnEpochs

    @property
    def slots(self) -> int:
        return self.solver.slots

    @property
    def updates(self) -> int:
        return int(self.epochs.seen) if isinstance(self.epochs, RoundEpochs) else self.solver.updates

    def resume(self, updates: int) -> None:
        if isinstance(self.epochs, RoundEpochs):
            self.epochs.seen = updates
        else:
            self.solver.resume(updates)

    @property
    def row(self) -> int:
        return self.done

    def state(self) -> RunState:
        place = {"number": np.array(self.number), "done": np.array(self.done)}
        sums = {"total": np.array(self.total), "weight": np.array(self.weight)}
        return {**self.solver.state(), **place, **sums, "updates": np.array(self.updates)}

    def load_state(self, state: RunState, epochs: int) -> None:
        require_names(state, self.state())
        self.number = whole_number(state, "number", epochs + 1, epochs + 1)
        self.done = whole_number(state, "done", 0, self.task.source.visits - 1)
        self.total, self.weight = real_number(state, "total"), real_number(state, "weight")
        updates = whole_number(state, "updates")
        self.solver.load_state(state)
        self.resume(updates)

    def bytes_needed(self) -> int:
        """Return the bytes that training needs: for the solver, for its steps, and for the rows' numbers in three
        orders: increasing, and as in two epochs."""
        model, source, batch = self.task.model, self.task.source, self.task.spec.values["batch_size"]
        updates = sum(math.ceil(rows / batch) for rows in source.sizes)
        steps = self.kind_of_epochs.bytes_needed(self.task)
        orders = 3 * np.dtype(np.int32).itemsize * max(source.sizes)
        return int(self.solver.bytes_needed(model, updates)) + steps + orders + source.shard_bytes

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task, self.penalty, self.observer = self.task, penalty, observer
        self.solver.bind(task.model, penalty)
        self.solver.start()
        self.total_weight = task.source.total_weight
        mean_weight = self.total_weight / task.source.visits
        self.epochs = self.kind_of_epochs(task, self.solver, loss, mean_weight)

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Train; the loss of an epoch is the mean of each row's before its own step, the penalty that at its end."""
        with ThreadPoolExecutor(self.task.threads) as pool:
            while self.number <= epochs:
                self.epochs.begin(self.number, pool, self.number == epochs, self.done)
                try:
                    total, weight = self.epoch(self.number)
                finally:
                    self.epochs.end()
                self.number, self.done, self.total, self.weight = self.number + 1, 0, 0.0, 0.0
                self.solver.end_epoch()
                self.task.model.end_epoch()
                value = self.penalty.value(self.task.model)
                if after(total / weight, value / (1 if self.solver.averages_weights else self.total_weight)):
                    break

    def epoch(self, number: int) -> tuple[float, float]:
        """Return one pass over the rows, or over as many as the deadline allows.

        Returns the sums of their weighted losses and of their weights.
        """
        data, rows, unit, every = self.task.data, self.task.source.visits, self.epochs.unit, self.observer.every
        step = max(1, CHUNK_NONZEROS * data.rows // max(data.nnz, data.rows) // unit) * unit
        before = self.observer.before
        every = math.ceil(every / unit) * unit if every else before + rows + 1
        while self.done < rows:
            start = self.done
            stop = min(rows, (start // step + 1) * step, ((before + start) // every + 1) * every - before)
            self.done, trained, self.total = self.epochs.advance(stop, self.total)
            self.weight += trained
            if not np.isfinite(self.total):
                break  # diverged: the check after the epoch raises the error
            if (before + self.done) // every > (before + start) // every:
                self.observer.loss(number, self.done, self.total / self.weight if self.weight else math.nan)
            self.observer.rows(number, self.done)
            if self.done < rows:
                self.partial = self.task.late()
                self.pause(self.partial)
                if self.partial:
                    return self.total, self.weight
        return self.total, self.total_weight


def make_solver(spec: Spec) -> Solver:
    """Return the solver of a spec, not bound to a model yet."""
    entry = spec.solver_entry
    solver: Solver = entry.load()(**spec.keywords(entry))
    return solver
