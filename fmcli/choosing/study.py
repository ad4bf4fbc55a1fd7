"""Study files: the trials of a search as lines of JSON, from which it goes on after its process has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from fmcli.base.finite import finite
from fmcli.choosing.entrants import Reached, TrialRecord
from fmcli.errors import BadInputError, OutputError, UsageError
from fmcli.training.checkpoint import differences, different

STUDY, TRIAL = "study", "trial"
WAY_OUT = "remove it to begin again, or give another name"
# What a search depends on beside its usual run, with the names in messages; and what follows from all that.
OF_SEARCH = {
    "ranges": "the ranges of options",
    "folds": "the numbers of folds",
    "sampler": "the samplers",
    "path": "the paths",
}
FOLLOWING = {"rivals": "the kinds and solvers", "stretched": "the folds"}


def trial_event(trial: TrialRecord) -> dict[str, Any]:
    """Return what a trial has reached in the epochs that it was asked for, as a line of a study and of a log."""
    reached = trial.reached
    return finite(
        {
            "event": TRIAL,
            "trial": trial.number,
            "model": trial.model,
            "solver": trial.solver,
            "options": dict(trial.options),
            "asked": trial.asked,
            "rows": trial.rows,
            "epochs": reached.epochs,
            "metric": trial.metric,
            "value": reached.value,
            "best_epoch": list(reached.best),
            "ended": reached.ended,
            "sparsity": reached.sparsity,
        }
    )


class Study:
    """The trials so far, in a file that each new one is added to at once.

    Parameters
    ----------
    path : the file; None: trials are not kept.
    identity : all that the trials depend on, but for their number; it has figures of JSON only.

    Raises UsageError if the file is the study of another search, BadInputError if it is no study, and OutputError.
    """

    def __init__(self, path: str | None, identity: Mapping[str, Any]) -> None:
        self._known: dict[tuple[int, int, int], Reached] = {}
        self._file: BinaryIO | None = None
        if path is None:
            return
        try:
            text = Path(path).read_bytes() if Path(path).exists() else b""
            whole = text[: text.rfind(b"\n") + 1]  # a process that was killed may leave a part of a line
            if whole:
                self._read(path, whole, identity)
            self._file = open(path, "r+b" if text else "wb")  # noqa: SIM115 (closed by __exit__)
            self._file.seek(len(whole))
            self._file.truncate()
            if not whole:
                self._write({"event": STUDY, **identity})
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from error

    def __enter__(self) -> Study:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def trials(self) -> int:
        """How many trials were known at the beginning, or are now."""
        return len({number for number, *_ in self._known})

    def known(self, number: int, asked: int, rows: int) -> Reached | None:
        """Return what a trial has reached in so many epochs on so many rows, if it is known."""
        return self._known.get((number, asked, rows))

    def add(self, trial: TrialRecord) -> None:
        """Keep what a trial has reached."""
        key = trial.number, trial.asked, trial.rows
        if key not in self._known:
            self._known[key] = trial.reached
            if self._file is not None:
                self._write(trial_event(trial))

    def _write(self, event: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(f"{json.dumps(event, allow_nan=False)}\n".encode())
        self._file.flush()

    def _read(self, path: str, text: bytes, identity: Mapping[str, Any]) -> None:
        """Read the trials of a file, if it is the study of this search."""
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                event = json.loads(line)
                if number == 1:
                    if event.pop("event") != STUDY:
                        raise ValueError
                    require_same(path, event, identity)
                    continue
                key = int(event[TRIAL]), int(event["asked"]), int(event["rows"])
                value, best = event["value"], tuple(map(int, event["best_epoch"]))
                value = None if value is None else float(value)
                reached = Reached(int(event["epochs"]), value, best, event["ended"], float(event["sparsity"]))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise BadInputError(f"{path}:{number}: is not a line of a study; {WAY_OUT}") from error
            self._known[key] = reached


def require_same(path: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Compare what two searches depend on. Raises UsageError, which names what differs, unless they are the same."""
    wanted = json.loads(json.dumps(wanted))
    if found == wanted:
        return
    another = f"{path} is the study of another search"
    if found.keys() != wanted.keys():
        raise UsageError(f"{another}, by another version of fmcli; {WAY_OUT}")
    of_run = wanted.keys() - OF_SEARCH.keys() - FOLLOWING.keys()
    before, now = ({name: one[name] for name in of_run} for one in (found, wanted))
    data, choices = differences(before, now, derived=True)
    if own := different(OF_SEARCH, found, wanted):
        reason = f"{own} differ"
    elif choices:
        reason = choices
    elif data:
        reason = f"{data} have changed"
    else:
        reason = f"{different(FOLLOWING, found, wanted)} differ"
    raise UsageError(f"{another}: {reason}; {WAY_OUT}")
