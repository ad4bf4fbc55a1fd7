"""Training: from rows and a spec to a trained model. What is above the compiled epoch lives here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli._core.data import Dataset
from fmcli._core.loop import Trainer
from fmcli._core.loss import Loss
from fmcli._core.model import Model
from fmcli._core.penalty import Penalty
from fmcli.errors import BadInputError, DivergedError
from fmcli.memory import require
from fmcli.registry import LOSSES, MODELS, SOLVERS
from fmcli.specs import Spec

# Non-zeros between two looks at the clock and at Ctrl-C: some 30 ms of work, a hundred times what the look costs.
CHUNK_NONZEROS = 1 << 21
# Streams of random numbers drawn from one seed.
START_STREAM, SHUFFLE_STREAM = 0, 1
# How much smaller a step to try after divergence.
STEP_BACK = 10


@dataclass(frozen=True)
class Epoch:
    """One epoch's figures. `loss` is of each sample before its own update; `penalty` is of the epoch's end."""

    number: int
    loss: float
    penalty: float
    seconds: float

    @property
    def objective(self) -> float:
        return self.loss + self.penalty


@dataclass(frozen=True)
class Plan:
    """A run before it begins: what it will train, and what that takes.

    spec : the spec, its loss chosen.
    labels : the two label values that stand for -1 and +1; None where labels are numbers.
    bytes : memory for parameters, solver state and the order of rows.
    """

    spec: Spec
    model: Model
    labels: tuple[float, float] | None
    bytes: int


@dataclass(frozen=True)
class Trained:
    """A trained model.

    seen : bool (features), whether the feature occurred in the training data.
    epochs : figures of every epoch run.
    """

    plan: Plan
    seen: NDArray[np.bool_]
    epochs: list[Epoch]

    def sparsity(self) -> float:
        """Share of exact zeros among linear weights and factors (models.md section 4)."""
        zeros = total = 0
        for name, array in self.plan.model.parameters.items():
            if name != "bias":
                zeros += array.size - np.count_nonzero(array)
                total += array.size
        return zeros / total if total else 0.0


def plan(data: Dataset, spec: Spec) -> Plan:
    """Fit a spec to data without allocating anything.

    Raises BadInputError where the labels do not fit the loss.
    """
    loss, labels = choose_loss(data.label, spec.loss)
    model = MODELS[spec.model].load()(data.features, 1, **spec.keywords(MODELS[spec.model]))
    slots = SOLVERS[spec.solver].load()(**spec.keywords(SOLVERS[spec.solver])).slots
    order = np.dtype(np.int32).itemsize * data.rows
    return Plan(replace(spec, loss=loss), model, labels, model.bytes_needed(slots) + order)


def train(
    data: Dataset,
    plan: Plan,
    *,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    on_rows: Callable[[int, int], None] = lambda epoch, rows: None,
) -> Trained:
    """Train a plan's model on the data it was made for.

    Parameters
    ----------
    on_epoch : called after every epoch.
    on_rows : called several times a second with the epoch (from 1) and the rows of it that are done.

    Raises
    ------
    NotEnoughMemoryError
        Found before anything is allocated.
    DivergedError
        A loss or a parameter is no longer finite.
    """
    spec, model = plan.spec, plan.model
    require(plan.bytes, "training")
    loss: Loss = LOSSES[spec.loss or ""].load()()
    solver = SOLVERS[spec.solver].load()(**spec.keywords(SOLVERS[spec.solver]))
    penalty = Penalty(**{name: spec.values[name] for name in ("l1_w", "l1_v", "l2_w", "l2_v")})
    if plan.labels:
        data = data.with_labels(np.where(data.label == plan.labels[1], 1.0, -1.0))

    seen = np.zeros(data.features, dtype=np.bool_)
    seen[data.index] = True
    model.allocate(solver.slots)
    model.start(seen, spec.values["init_std"], generator(spec, START_STREAM))
    if "bias" in model.parameters:
        model.parameters["bias"][...] = loss.best_constant(data.label, data.weight)
    solver.bind(model, penalty)
    solver.start()

    trainer = Trainer(model, solver, loss, data)
    weight = data.rows if data.weight is None else data.weight.sum()
    epochs = []
    for number in range(1, spec.values["epochs"] + 1):
        begin = time.perf_counter()
        total = run_epoch(trainer, data, spec, number, on_rows)
        solver.end_epoch(number)
        value = penalty.value(model) / (1 if solver.averages_weights else weight)
        epochs.append(Epoch(number, total / weight, value, time.perf_counter() - begin))
        on_epoch(epochs[-1])
    if not all(np.isfinite(array).all() for array in model.parameters.values()):
        raise diverged(spec, "a parameter is no longer a finite number")
    return Trained(plan, seen, epochs)


def run_epoch(trainer: Trainer, data: Dataset, spec: Spec, number: int, on_rows: Callable[[int, int], None]) -> float:
    """One pass over the data; the sum of its weighted losses."""
    order = np.arange(data.rows, dtype=np.int32)
    if spec.values["shuffle"]:
        generator(spec, SHUFFLE_STREAM, number).shuffle(order)
    chunk = max(1, CHUNK_NONZEROS * data.rows // max(data.nnz, data.rows))
    total = 0.0
    for start in range(0, data.rows, chunk):
        stop = min(start + chunk, data.rows)
        total += trainer.run(order, start, stop)
        if not np.isfinite(total):
            raise diverged(spec, f"the loss is no longer a finite number in epoch {number}")
        on_rows(number, stop)
    return total


def generator(spec: Spec, *stream: int) -> np.random.Generator:
    """The random numbers of one purpose: independent of how many any other has used."""
    return np.random.default_rng([spec.values["seed"], *stream])


def diverged(spec: Spec, what: str) -> DivergedError:
    """The error for numbers that left the finite range, with a step size to try."""
    name = "alpha" if "alpha" in spec.values else "learning_rate"
    step = spec.values[name]
    return DivergedError(
        f"training diverged: {what}; try a smaller step: --{name.replace('_', '-')} {step / STEP_BACK:g} "
        f"(it was {step:g}), or scale the values of the features"
    )


def choose_loss(label: NDArray[np.float64], name: str | None) -> tuple[str, tuple[float, float] | None]:
    """The loss for these labels, and their two values where the loss wants two.

    Raises BadInputError where the labels do not fit the loss that is named, or all are the same.
    """
    first = label[0]
    others = label[label != first]
    if not others.size and name != "squared":
        raise BadInputError(
            f"every label is {first:g}: there is nothing to learn from one value; check the file, or say "
            "--loss squared to fit it as a number"
        )
    if name == "squared" or (name is None and (others != others[0]).any()):
        return "squared", None
    third = others[others != others[0]]
    if third.size:
        raise BadInputError(
            f"loss {name} takes labels of two values, but here are {first:g}, {others[0]:g} and {third[0]:g}; "
            "say --loss squared to fit them as numbers"
        )
    low, high = sorted((float(first), float(others[0])))
    return "logistic", (low, high)


def summary(trained: Trained, data: Dataset) -> dict[str, Any]:
    """The figures of a finished run that its model file keeps."""
    last = trained.epochs[-1] if trained.epochs else None
    return {
        "rows": data.rows,
        "nonzeros": data.nnz,
        "features": int(trained.seen.sum()),
        "parameters": trained.plan.model.parameter_count,
        "epochs": len(trained.epochs),
        "loss": last and last.loss,
        "penalty": last and last.penalty,
        "objective": last and last.objective,
        "sparsity": trained.sparsity(),
    }
