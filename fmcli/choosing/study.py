"""Study files: the trials of a search as lines of JSON, from which it goes on after its process has ended."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from fmcli.base.finite import finite
from fmcli.base.json_files import check_file, parse
from fmcli.base.rules import BOOLEAN, COUNT, MEASURE, NAME_LIST, TABLE, TEXT, fault, list_of, null_or, one_of, within
from fmcli.choosing.candidates import TrialRecord, TrialResult
from fmcli.errors import BadInputError, BusyError, OutputError, UsageError
from fmcli.training.checkpoint import differences, different

STUDY, TRIAL = "study", "trial"
NEWLINE, BEGIN = b"\n", b'{"event": "trial", '  # the beginning of the line of a trial
ANOTHER = "give another name"
WAY_OUT = "remove it to begin again, or give another name"
# The properties that determine a search, besides its default run, with their names in messages; and derived ones.
OF_SEARCH = {
    "ranges": "the ranges of options",
    "folds": "the numbers of folds",
    "sampler": "the samplers",
    "path": "the paths",
}
FOLLOWING = {"alternatives": "the kinds and solvers", "stretched": "the folds"}
# The entries of the first line (the search compares only the texts of its other entries), and the entries of a trial.
HEADER = {"event": one_of(STUDY)}
OF_RUN = {"options": TABLE, "given": NAME_LIST}
TRIAL_ENTRIES = {
    "event": one_of(TRIAL),
    "trial": COUNT,
    "model": TEXT,
    "solver": TEXT,
    "options": TABLE,
    "asked": COUNT,
    "rows": COUNT,
    "epochs": COUNT,
    "metric": TEXT,
    "value": null_or(MEASURE),
    "best_epoch": list_of(COUNT),
    "ended": BOOLEAN,
    "sparsity": within(0, 1),
}


def trial_event(trial: TrialRecord) -> dict[str, Any]:
    """Return the result of a trial after the requested epochs, as a line of a study and of a log."""
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
    """The trials so far, in a file that each new one is added to at once. While it is open, no other run uses the file.

    Bytes are only appended, each line by one call, to a file that is a study or empty. If the last line is cut short,
    because a run was killed when the disk was full, the next line is the rest of it: a search that goes on repeats it.

    Parameters
    ----------
    path : the file; None: trials are not kept.
    identity : all that the trials depend on, but for their number; it has figures of JSON only.

    Raises UsageError if the file is the study of another search, BadInputError if it is no study, BusyError if another
    run uses it, and OutputError.
    """

    def __init__(self, path: str | None, identity: Mapping[str, Any]) -> None:
        self._known: dict[tuple[int, int, int], TrialResult] = {}
        self._descriptor: int | None = None
        self._cut = b""  # the beginning of a line at the end of the file
        if path is None:
            return
        self._path = path
        check_file(path, "a study")  # before it is opened, which may wait for a writer
        with _naming(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with _naming(path):
                _lock(path, self._descriptor)
                with open(self._descriptor, "rb", closefd=False) as file:
                    text = file.read()
            self._begin(path, text, identity)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Study:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def trials(self) -> int:
        """How many trials were known at the beginning, or are now."""
        return len({number for number, *_ in self._known})

    def known(self, number: int, asked: int, rows: int) -> TrialResult | None:
        """Return the result of a trial after `asked` epochs on `rows` rows, if it is known."""
        return self._known.get((number, asked, rows))

    def add(self, trial: TrialRecord) -> None:
        """Keep the result of a trial."""
        key = trial.number, trial.asked, trial.rows
        if key not in self._known:
            self._known[key] = trial.reached
            if self._descriptor is not None:
                self._write(line_of(trial_event(trial)))

    def _begin(self, path: str, text: bytes, identity: Mapping[str, Any]) -> None:
        """Read the study, or begin it."""
        header = line_of({"event": STUDY, **identity})
        whole = text[: text.rfind(b"\n") + 1]
        self._cut = text[len(whole) :]
        if not whole and not header.startswith(text):
            raise BadInputError(f"{path}: is not a study; {ANOTHER}")
        if not whole:
            self._write(header)
            return
        self._read(path, whole, identity)
        if self._cut[: len(BEGIN)] != BEGIN[: len(self._cut)]:
            raise BadInputError(f"{path}:{whole.count(NEWLINE) + 1}: is not a line of a study; {ANOTHER}")

    def _write(self, line: bytes) -> None:
        """Append a line; the file may have its beginning. The beginning of another trial, which the search has not
        repeated, is removed."""
        assert self._descriptor is not None
        with _naming(self._path):
            if not line.startswith(self._cut):
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - len(self._cut))
                self._cut = b""
            rest = line[len(self._cut) :]
            while rest:  # a full disk may take a part
                rest = rest[os.write(self._descriptor, rest) :]
        self._cut = b""

    def _read(self, path: str, text: bytes, identity: Mapping[str, Any]) -> None:
        """Read the trials of a file, if it is the study of this search."""
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                event = parse(line.decode())
            except ValueError as error:
                raise BadInputError(f"{path}:{number}: is not a line of a study: {error}; {ANOTHER}") from error
            first = number == 1
            if wrong := fault(event, HEADER, OF_RUN, others=True) if first else fault(event, TRIAL_ENTRIES, {}):
                raise BadInputError(f"{path}:{number}: is not a line of a study: {wrong}; {ANOTHER}")
            if first:
                del event["event"]
                require_same(path, event, identity)
                continue
            key = event[TRIAL], event["asked"], event["rows"]
            value, best = event["value"], tuple(event["best_epoch"])
            self._known[key] = TrialResult(event["epochs"], value, best, event["ended"], event["sparsity"])


def line_of(event: Mapping[str, Any]) -> bytes:
    """Return an event as a line of JSON."""
    return f"{json.dumps(event, allow_nan=False)}\n".encode()


def _lock(path: str, descriptor: int) -> None:
    """Lock a file until it is closed. On a file system without locks, it is not locked. Raises BusyError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError(f"{path}: another run is using it; wait until it has ended") from error
    except OSError:
        return


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn an OSError into an OutputError that names the path."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def require_same(path: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Compare the identities of two searches. Raises UsageError, which names the differences, unless they are equal."""
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
