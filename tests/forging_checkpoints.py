"""Forged checkpoints: valid ones with random changes and correct checksums, and a check that fmcli handles them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from forging import Outcome, Parts, as_bytes, change_array, check_text, near, some_value
from modelfiles import rows

from fmcli.choosing.automatic import choose_once
from fmcli.data.dataset import Dataset
from fmcli.errors import BadInputError, FmcliError, UsageError
from fmcli.model_file.container import CHECKPOINT, ModelFile, load
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic import round_epochs
from fmcli.solvers.stochastic import trainer as stochastic
from fmcli.training import job
from fmcli.training.checkpoint import CHOICES, RUN, Checkpoint, identity
from fmcli.training.planning import Plan
from fmcli.training.prepared import prepared_model
from fmcli.training.several.refit import refit, refits, whole

MOST_CHANGES = 3
INTEGERS = (0, 1, -1, 2, 3, 5, 7, 11, 12, 13, 2**20, 2**31, 2**53, 2**53 + 1, 2**62, -(2**63))
FLOATS = (0.0, -1.0, 1e-320, 1e300, np.inf, -np.inf, np.nan)
HELD_OUT = {"holdout": 0.3, "patience": 1}
# Solver, model, loss, options, settings, and after how many pauses the checkpoint was written.
RUNS = (
    ("adagrad", "fm", "squared", {}, {}, 5),
    ("sgd", "linear", "squared", {"schedule": "invscaling", "batch_size": 3}, {}, 3),
    ("fobos", "glfm", "squared", {"adaptive": False, "l2": 0.1}, {}, 7),
    ("fobos", "fm", "softmax", {"adaptive": True, "l1": 0.1}, {}, 6),
    ("ftrl", "fm", "squared", {"round_size": 2}, {}, 9),
    ("adagrad", "llfm", "squared", {"anchors": 3}, {}, 2),
    ("adagrad", "llfm", "squared", {"anchors": 3}, HELD_OUT, 30),
    ("adagrad", "ffm", "squared", {}, {**HELD_OUT, "refit": False}, 3),
    ("fobos", "fm", "squared", {}, HELD_OUT, 13),
    ("cd", "fm", "squared", {"l1_from_epoch": 2}, {**HELD_OUT, "refit": False}, 2),
    ("mcmc", "fm", "squared", {"burn_in": 0, "draws": 2}, {**HELD_OUT, "refit": False}, 2),
    ("lbfgs", "fm", "squared", {}, {}, 2),
)
EPOCHS = 3
# Sizes with which a few rows have several pauses and rounds.
SMALL = ((stochastic, "CHUNK_NONZEROS", 3), (round_epochs, "SAMPLES_BEFORE", 2))


class Killed(BaseException):
    """The process has ended."""


class Dying(Checkpoint):
    """The checkpoint of a process that dies after a number of pauses."""

    left = 0

    def pause(self, ends: bool) -> None:
        self.left -= 1
        if self.left == 0:
            self.write()
            raise Killed


@cache
def data(fielded: bool) -> Dataset:
    return rows() if fielded else rows().changed(field=None)


def plan_of(number: int) -> Plan:
    """The plan of a run."""
    solver, model, loss, options, settings, _ = RUNS[number]
    ranked = {} if model == "linear" else {"rank": 2}
    spec = make_spec(model, solver, loss, {"epochs": EPOCHS, **ranked, **options})
    spec = replace(spec, values={**spec.values, "clip": False})  # as when the fuzzer has found some
    return job.plan(data(model == "ffm"), spec, **settings)


def train(plan: Plan, keeper: Checkpoint) -> None:
    """Train, and again on all rows if the run does, as the command."""
    plan, _ = choose_once(plan, keeper)
    keeper.belongs_to(plan, refits(plan))
    trained = job.train(plan, keeper=keeper)
    if refits(plan):
        refit(trained, whole(trained), keeper=keeper)


def use_small_sizes() -> None:
    for module, name, size in SMALL:
        setattr(module, name, size)


def corpus() -> list[bytes]:
    """A checkpoint of each run, with small sizes."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint")
        for number, run in enumerate(RUNS):
            keeper = Dying(str(path), np.inf)
            keeper.left = run[-1]
            try:
                train(plan_of(number), keeper)
            except Killed:
                found.append(path.read_bytes())
    assert len(found) == len(RUNS)
    return found


# ---- Changes, in place. ----


def change_identity(rng: random.Random, file: ModelFile, files: list[Any]) -> None:
    """Put another value into what says which run a checkpoint belongs to."""
    if rng.random() < 0.1:
        file.meta[rng.choice((RUN, CHOICES, "other"))] = some_value(rng)
        return
    entry = rng.choice((RUN, RUN, CHOICES))
    if type(file.meta.get(entry)) is not dict or not file.meta[entry]:
        return
    file.meta[entry] = table = dict(file.meta[entry])
    if type(table.get("options")) is dict and rng.random() < 0.5:
        table["options"] = table = dict(table["options"]) or {rng.choice(sorted(OPTIONS)): some_value(rng)}
    name = rng.choice(sorted(table, key=str))
    what = rng.random()
    if what < 0.4:
        table[name] = some_value(rng)
    elif what < 0.8:
        table[name] = near(rng, table[name])
    else:
        table[str(some_value(rng))[:300]] = table.pop(name)


def change_number(rng: random.Random, file: ModelFile, files: list[Any]) -> None:
    """Put another number into an array, mostly a small one."""
    if not file.tensors:
        return
    small = [name for name, array in file.tensors.items() if 0 < array.size <= 3]
    name = rng.choice(sorted(small if small and rng.random() < 0.7 else file.tensors))
    array = file.tensors[name] = file.tensors[name].copy()
    if array.size:
        with np.errstate(all="ignore"):
            integers = array.dtype.kind in "iu"
            old = array.reshape(-1)[place := rng.randrange(array.size)]
            changed = rng.choice(INTEGERS if integers else FLOATS)
            if rng.random() < 0.5:
                changed = old.item() + rng.choice((-1, 1))
            if integers:
                changed = min(max(changed, np.iinfo(array.dtype).min), np.iinfo(array.dtype).max)
            array.reshape(-1)[place] = np.array(changed).astype(array.dtype)


def take_from_another(rng: random.Random, file: ModelFile, files: list[Any]) -> None:
    """Take an array or all arrays of another checkpoint, or rename one."""
    other = rng.choice(files)
    what = rng.random()
    if what < 0.5:
        name = rng.choice(sorted(other.tensors))
        file.tensors[name] = other.tensors[name]
    elif what < 0.6:
        file.tensors = dict(other.tensors)
    elif file.tensors:
        old = rng.choice(sorted(file.tensors))
        run, _, rest = old.partition(".")
        name = rng.choice((f"1.{rest}", f"{run}.{rest}.1", f"x.{rest}", "0.trainer.visited.9", "0.best.snapshot.0"))
        file.tensors[name] = file.tensors.pop(old)


CHANGES: tuple[Callable[[random.Random, ModelFile, list[Any]], None], ...] = (
    change_identity,
    change_number,
    change_number,
    change_number,
    take_from_another,
    change_array,
)


def changed(rng: random.Random, parts: Parts, files: list[Any]) -> bytes:
    """The bytes of a checkpoint with some changes."""
    file = ModelFile(dict(parts.meta), dict(parts.tensors), kind=parts.kind)
    for _ in range(rng.randint(1, MOST_CHANGES)):
        rng.choice(CHANGES)(rng, file, files)
    return as_bytes(rng, file, parts)


# ---- The use of a forged checkpoint. ----


@cache
def known_run(number: int) -> tuple[Plan, dict[str, Any]]:
    """The plan of a run, and its identity."""
    plan = plan_of(number)
    return plan, identity(plan, refits(plan))


def likely_run(found: Any) -> Plan:
    """The plan of the run to which an identity in a file belongs, or is most similar."""
    entries = found if type(found) is dict else {}

    def similarity(number: int) -> int:
        return sum(entries.get(name) == value for name, value in known_run(number)[1].items())

    plan, _ = known_run(max(range(len(RUNS)), key=similarity))
    return replace(plan, model=prepared_model(plan.spec, plan.source, plan.transform, plan.warm_start))


def use(path: str) -> Outcome:
    """Continue the run of a checkpoint. Return what happened.

    An exception other than FmcliError is a hit, that is, a bug.
    """
    keeper = Checkpoint(path, np.inf)
    try:
        keeper.read()
        train(likely_run(load(path, kind=CHECKPOINT).meta.get(RUN)), keeper)
    except (BadInputError, UsageError) as error:
        return Outcome("refused", check_text(str(error)))
    except FmcliError as error:
        return Outcome(f"continued, then {type(error).__name__}", check_text(str(error)))
    return Outcome("continued")
