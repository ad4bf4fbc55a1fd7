"""The memory that a training run needs: the sum of its components' `bytes_needed`, known before any is allocated."""

from __future__ import annotations

import math
from dataclasses import replace

from fmcli.data.counts import occurrences
from fmcli.data.dataset import Dataset
from fmcli.errors import NotEnoughMemoryError
from fmcli.models.model import Model
from fmcli.models.workspace import Workspace
from fmcli.records import dataclass
from fmcli.registry.build import build_trainer
from fmcli.registry.options import MEGABYTE
from fmcli.scoring.metrics import Outcome
from fmcli.solvers.coordinate import past
from fmcli.solvers.stochastic.round_epochs import round_bytes
from fmcli.system.memory import human_bytes
from fmcli.training.draws import draws_bytes
from fmcli.training.planning import Plan
from fmcli.training.setup.memory import held_bytes
from fmcli.training.setup.settings import state_bytes
from fmcli.training.validation import Validation, compares_last, measured_at_most


@dataclass(frozen=True)
class MemoryNeed:
    """The most memory that a run needs, including its rows; `held` bytes of it are in use already."""

    total: int
    held: int

    def or_of(self, other: MemoryNeed) -> MemoryNeed:
        """Return the memory of two runs, one after the other."""
        return MemoryNeed(max(self.total, other.total), max(self.held, other.held))

    def of_runs(self, together: int, shared: int, kept: int = 0) -> MemoryNeed:
        """Return the memory of several runs, `together` at a time: `shared` bytes are in memory once, and all runs that
        have ended leave `kept` bytes."""
        return MemoryNeed(shared + together * (self.total - shared) + kept, self.held)


def need_of(plan: Plan) -> MemoryNeed:
    """Return the memory that a run needs: its rows, and the additional memory of training and saving.

    The epochs (with a copy of the best one; in a refit, with the first run's model, and a copy if it compares), the
    evaluation on the training rows, and what the model file gets (the count of features, and what an update needs to
    know of the rows) come one after the other, so only the largest of the three counts.
    """
    model, data, spec, warm_start = plan.model, plan.data, plan.spec, plan.warm_start
    trainer = build_trainer(plan.task)
    parameters = model.bytes_needed(trainer.slots)
    epochs, validation = trainer.bytes_needed(), plan.validation
    draws = draws_bytes(plan)
    copy = copied_bytes(plan)
    if plan.compares_last:
        epochs += copy
    if validation is not None:
        epochs += scoring_bytes(model, validation.data, validation, validation.count)
        refitted = validation.held_out and plan.settings.refits(spec, plan.source)
        # The first run's model keeps its solver's state during the refit.
        epochs += max(0 if draws else copy, parameters + (copy if compares_last(spec) else 0) if refitted else 0)
    seen = 2 * model.features
    counting = occurrences.bytes_needed(model.features, resumed=warm_start is not None)
    earlier = plan.earlier
    keeping = counting
    if plan.settings.keeps_past(spec, model):
        before = earlier.keeping_needed(model, spec.values["epochs"]) if earlier else 0
        keeping += past.bytes_needed(model, data, before, shards=not plan.source.in_memory)
    known = sum(array.nbytes for array in warm_start.arrays.values()) + parameters // 4 if warm_start else 0
    known += earlier.nbytes if earlier else 0
    needed = parameters + draws + seen + known + max(epochs, measuring_bytes(model, data, plan.evaluation), keeping)
    held = plan.held
    if plan.tested is not None:
        held += int(plan.tested.data.nbytes)
        needed += plan.tested.scoring_bytes
    return MemoryNeed(held + needed + plan.beside, held=held)


def copied_bytes(plan: Plan) -> int:
    """Return bytes of the copy of the best epoch, with the state of the solver if the model file may have it."""
    keeps = plan.settings.may_keep_state(plan.spec, plan.model, plan.slots)
    return int(plan.model.bytes_needed(plan.slots if keeps else 0))


def with_copy(plan: Plan) -> Plan:
    """Return a plan whose model is copied as it is in its file, while it is in memory."""
    kept = plan.slots if plan.settings.may_keep_state(plan.spec, plan.model, plan.slots) else 0
    return replace(plan, beside=state_bytes(plan.model, 1 + kept) + draws_bytes(plan))


def paused_bytes(plan: Plan) -> int:
    """Return bytes with which a run that has paused goes on: its parameters and state, and its best epoch."""
    return int(plan.model.bytes_needed(plan.slots)) + copied_bytes(plan)


def scoring_bytes(model: Model, data: Dataset, evaluation: Validation, rows: int) -> int:
    """Return the bytes that scoring this number of rows and computing metrics need."""
    rooms = evaluation.threads * Workspace.bytes_needed(model, data.longest, gradients=False)
    return rooms + Outcome.bytes_needed(rows, model.columns)


def measuring_bytes(model: Model, data: Dataset, evaluation: Validation) -> int:
    """Return bytes that scoring the rows by which a trained model is measured, and computing metrics, need."""
    return scoring_bytes(model, data, evaluation, measured_at_most(data))


def require_room(plan: Plan, memory: int) -> int:
    """Return how many bytes the rows of a plan that are in memory at a time, and what measures them, take. Raises
    NotEnoughMemoryError for more than `memory`."""
    validation, data = plan.validation, [plan.data]
    measures = [measuring_bytes(plan.model, plan.data, plan.evaluation)]
    if validation is not None:
        data.append(validation.data)
        measures.append(scoring_bytes(plan.model, validation.data, validation, validation.count))
    training = plan.source.shard_bytes
    if plan.spec.values.get("round_size", 1) > 1:
        training += round_bytes(plan.task)
    needed = held_bytes(data) + max(training, *measures)
    if needed > memory:
        held = " and the held-out rows" if plan.validation else ""
        raise NotEnoughMemoryError(
            f"the shards of rows{held} need {human_bytes(needed)} of memory, more than the {human_bytes(memory)} for "
            "rows",
            memory=math.ceil(needed / MEGABYTE),
        )
    return needed
