"""Checkpoints: the progress of a run in a file, from which the run continues after the process has ended.

A checkpoint is a file of the same container as a model (model_file/container.py) and is written as atomically. It has
what the rest of the run depends on: the arrays that training changes, the place in the epoch, the figures of the epochs
so far, and the best epoch. It has no data: the command reads them again, and `identity` says whether they are the same.
Writing one changes nothing in the run, so a run that was continued ends with the same bytes as one that was not.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from textwrap import shorten
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import fmcli
from fmcli.base.rules import are_figures, are_names
from fmcli.base.state_dict import part, under
from fmcli.errors import BadInputError, OutputError, UsageError, called
from fmcli.model_file.container import CHECKPOINT, ModelFile, load, save
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.choices import RUN as RUN_CHOICES
from fmcli.registry.run_choices import OF_THE_RUN
from fmcli.system.interrupt import Deferred
from fmcli.text import one_line
from fmcli.training.planning import Plan

Progress = Mapping[str, NDArray[Any]]

WAY_OUT = "remove it to train from the beginning"
LONGEST_SHOWN = 200  # characters of a value in a message
# The entries of the file for the run that it belongs to, and for the choices made before the run.
RUN, CHOICES = "run", "choices"
# The parts of an identity that are data, with their names in messages.
DATA = {
    "data": "the training data or the weights of rows",
    "validation": "the validation data",
    "tested": "the test rows",
    "init_model": "the model to resume from",
}


# The choices that do not change how a model is trained, or that other entries of an identity cover.
ELSEWHERE = frozenset(
    {"model", "loss", "solver", "init_model", "holdout", "quick_search", "auto", "calibrate", "ensemble", "keep_state"}
    | {"threads", "cache", "memory", "max_seconds"}
    | {choice.name for choice in OF_THE_RUN if choice.absent}
)
# The settings that say which rows are held out.
HELD_OUT = ("holdout", "holdout_last", "holdout_times", "holdout_each")


class Waiting(Protocol):
    """Signals that wait until `end`, as system.interrupt.Deferred."""

    @property
    def signal(self) -> int: ...
    def end(self) -> None: ...


class Checkpointer:
    """Keeps the progress of the runs of a command, which come one after the other; this one keeps nothing.

    signals : makes the signals wait in a `with` block, and ends a run by them.
    choices : the choices made before the runs, as JSON; None: none yet.
    until : the epoch after which the run pauses; None: it goes on.
    """

    signals: Callable[[], AbstractContextManager[Waiting]] = Deferred
    choices: Mapping[str, Any] | None = None
    until: int | None = None

    def kept(self) -> Progress | None:
        """Return the progress from which the next run continues; None: it begins."""
        return None

    def begins(self, progress: Callable[[], Progress]) -> None:
        """Begin the next run; `progress` returns its progress when `pause` is called."""

    def ends(self) -> None:
        """Keep the progress of the run, which has ended."""

    def pause(self, ends: bool) -> None:
        """Take a call of a run where its progress is complete. ends : whether the run ends there, because its time is
        over."""

    def deferring(self) -> AbstractContextManager[None]:
        """In this context, a signal that would end the process waits until the progress has been written."""
        return nullcontext()

    def belongs_to(self, plan: Plan, refits: bool) -> None:
        """Name the run. `refits` : whether the model is trained again on all rows."""

    def checking(self) -> AbstractContextManager[None]:
        """In this context, a ValueError says that the kept progress is not valid."""
        return nullcontext()

    def done(self) -> None:
        """End with the command, so nothing need be kept any more."""


class Checkpoint(Checkpointer):
    """Keeps the progress of runs in a file.

    Parameters
    ----------
    path : the file.
    every : seconds between two checkpoints.
    warn : called with a message if a checkpoint cannot be written. Training goes on, and the last one stays.
    written : called with a message when a checkpoint was written because the process ends.
    """

    def __init__(
        self,
        path: str,
        every: float,
        warn: Callable[[str], None] = lambda text: None,
        written: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.path, self.every, self.warn, self.written = path, every, warn, written
        self._run: dict[str, Any] = {}
        self._file: ModelFile | None = None
        self._kept: list[Progress] = []
        self._progress: list[Callable[[], Progress]] = []
        self._signals: Waiting | None = None
        self._last = time.monotonic()

    def read(self) -> None:
        """Read the file, from which the runs then continue. Raises the errors of `load`."""
        self._file = load(self.path, verify=True, kind=CHECKPOINT)
        self.choices = self._file.meta.get(CHOICES)

    def belongs_to(self, plan: Plan, refits: bool) -> None:
        """Name the run. Raises UsageError if the file that was read is of a run with other options, BadInputError if it
        is of a run on other data."""
        self._run = identity(plan, refits)
        if self._file:
            with self.checking():
                check_same(self.path, checked_identity(self._file.meta, self._run), self._run)
                self._kept = all_progress(self._file.tensors, runs_of(plan, refits))
            self._file = None

    def kept(self) -> Progress | None:
        return self._kept.pop(0) if self._kept else None

    def begins(self, progress: Callable[[], Progress]) -> None:
        self._progress.append(progress)

    def ends(self) -> None:
        progress = self._progress[-1]()
        self._progress[-1] = lambda: progress

    def pause(self, ends: bool) -> None:
        number = self._signals.signal if self._signals else 0
        if not (ends or number or time.monotonic() - self._last >= self.every):
            return
        try:
            self.write()
            if number:
                self.written(f"wrote the checkpoint {self.path}")
        except OutputError as error:
            self.warn(f"no checkpoint was written: {error}")
        self._last = time.monotonic()
        if number and self._signals:
            self._signals.end()

    def write(self) -> None:
        """Write the progress of the runs. Raises OutputError."""
        found = [under(str(number), progress()) for number, progress in enumerate(self._progress)]
        tensors = {name: array for progress in found for name, array in progress.items()}
        save(self.path, ModelFile({RUN: self._run, CHOICES: self.choices}, tensors, kind=CHECKPOINT))

    @contextmanager
    def checking(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise BadInputError(f"{self.path} is not a valid checkpoint: {error}; {WAY_OUT}") from error

    def done(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        with self.signals() as self._signals:
            try:
                yield
            finally:
                self._signals = None


def all_progress(arrays: Progress, most: int) -> list[Progress]:
    """Return the progress of each run of a file, at most `most` runs. Raises ValueError for other names."""
    runs = {name.partition(".")[0] for name in arrays}
    names = [str(number) for number in range(len(runs))]
    if runs != set(names) or not 1 <= len(runs) <= most:
        raise ValueError("its arrays do not fit the run")
    return [part(name, arrays) for name in names]


def runs_of(plan: Plan, refits: bool) -> int:
    """Return how many runs a plan has, one after the other: each draw or member learns new features alone."""
    if plan.new_features and plan.warm_start:
        return int(plan.warm_start.meta.get("draws", 1))
    return 2 if refits else 1


def identity(plan: Plan, refits: bool) -> dict[str, Any]:
    """Return the identity of a run: everything on which the bytes of the model depend. Only a run with the same
    identity can continue it.

    refits : whether the model is trained again on all rows.
    """
    settings, spec, start = plan.settings, plan.spec, plan.warm_start
    found = {
        "program": f"fmcli {fmcli.__version__} ({REAL_TYPE.name})",
        "model": spec.model,
        "solver": spec.solver,
        "loss": spec.loss,
        "options": dict(spec.values),
        "given": sorted(spec.given),
        **{name: getattr(settings, name) for name in HELD_OUT},
        **{one.name: settings.choices.values[one.name] for one in OF_THE_RUN if one.name not in ELSEWHERE},
        "patience": plan.evaluation.patience,
        "refit": refits,
        "data": digest(plan.source.distinguishing, plan.transform.entries()),
        "validation": plan.validation and digest(plan.validation.distinguishing),
        "tested": plan.tested and digest(plan.tested.data.arrays),
        "init_model": start and digest(start.arrays.values(), start.run.options),
    }
    same: dict[str, Any] = json.loads(json.dumps(found))
    return same


def digest(arrays: Iterable[NDArray[Any]], others: Any = None) -> list[Any]:
    """Return numbers that are the same for the same arrays: their sizes, and a checksum."""
    sizes, checksum = [], zlib.crc32(json.dumps(others, sort_keys=True).encode())
    for array in arrays:
        sizes.append(array.size)
        checksum = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, checksum)
    return [*sizes, checksum]


def checked_identity(meta: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the identity in the metadata of a file. Raises ValueError unless it can be compared with this one and
    printed."""
    found = meta.get(RUN)
    if meta.keys() != {RUN, CHOICES} or type(found) is not dict or not are_figures(found):
        raise ValueError("it does not say which run it belongs to")
    options, given = found.get("options", {}), found.get("given", [])
    if type(options) is not dict or not are_names(given):
        raise ValueError("the options of its run are not valid")
    return found


def check_same(path: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Compare two identities. Raises UsageError or BadInputError, which names the differences, unless both are the
    identity of the same run."""
    if found == wanted:
        return
    if found.keys() != wanted.keys():
        raise BadInputError(f"{path} is the checkpoint of another version of fmcli; {WAY_OUT}")
    data, choices = differences(found, wanted)
    if choices:
        raise UsageError(f"{path} is the checkpoint of another run: {choices}. Give the same options, or {WAY_OUT}")
    raise BadInputError(f"{path} is the checkpoint of another run: {data} have changed. Restore them, or {WAY_OUT}")


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any], derived: bool = False) -> tuple[str, str]:
    """Return the data and the choices in which two identities with the same keys differ, in words; "" if none do.

    derived : whether only choices that one of the runs was given are named, even if the data are the same.
    """
    data = different(DATA, found, wanted)
    return data, "; ".join(changes(found, wanted, derived=derived or bool(data)))


def different(names: Mapping[str, str], found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the texts of the names whose values differ."""
    return " and ".join(text for name, text in names.items() if found[name] != wanted[name])


def shown(value: Any) -> str:
    """Return a value for a message, shortened if it is long."""
    return shorten(one_line(str(value)), LONGEST_SHOWN, placeholder=" ...")


def changes(found: Mapping[str, Any], wanted: Mapping[str, Any], derived: bool) -> Iterator[str]:
    """Yield the choices in which two runs differ, in words.

    derived : whether the data differ, from which values follow that neither run was given.
    """
    either = {*found["given"], *wanted["given"]}
    for name in sorted(wanted["options"].keys() | found["options"].keys()):
        before, now = found["options"].get(name), wanted["options"].get(name)
        if before != now and (name in either or not derived):
            yield f"{called(name)} was {shown(before)} and is {shown(now)}"
    given = set(found["given"]) ^ set(wanted["given"])
    for name in sorted(wanted.keys() - {"options", "given"} - DATA.keys()):
        if found[name] != wanted[name]:
            text = called(name) if name in RUN_CHOICES else name
            yield f"{text} was {shown(found[name])} and is {shown(wanted[name])}"
    if given and found["options"] == wanted["options"]:
        names = ", ".join(map(called, sorted(given)))
        yield f"only one of them was given {names}"
