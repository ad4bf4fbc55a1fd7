"""The tasks of workers: score the rows of an extent of the inputs.

Tasks run the same code as one machine. A task returns its text buffers' line reports, because only the client knows the
lines before the extent. It also returns its error: an error in an earlier extent may come first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property, partial
from glob import glob, has_magic
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

import fmcli
from fmcli.data.tables.reading import By, TableSource
from fmcli.data.text.chunks import Piece
from fmcli.data.text.formats import RowGroups, Stream, detected
from fmcli.data.text.line_counter import LineReport, Record, StoppedError
from fmcli.data.text.sources import FileRange, extents, name_of
from fmcli.errors import FmcliError, MissingInputError, NotEnoughMemoryError, OutputError, UsageError
from fmcli.kernels.simd import REAL
from fmcli.model_file.container import ModelFile
from fmcli.models.layout import allocate
from fmcli.records import dataclass
from fmcli.scoring.evaluation import labeled_scores, outcome_of, require_known
from fmcli.scoring.extra_outputs import ExtraOutputs
from fmcli.scoring.prediction import Counts, each_chunk, predicted_lines
from fmcli.scoring.scorer import OutputType, Scorer, scorer_of
from fmcli.scoring.summary import Summary, summary_of
from fmcli.system.addresses import is_remote
from fmcli.system.files import atomic_output

# The version and the number type: results depend on both.
BUILD = f"fmcli {fmcli.__version__} ({REAL})"

T = TypeVar("T")
U = TypeVar("U")


class SharedModel:
    """A model file on its way to workers. Each worker makes one scorer of it."""

    def __init__(self, path: str, file: ModelFile) -> None:
        self.path, self.file = path, file
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[SharedModel], tuple[str, ModelFile]]:
        return SharedModel, (self.path, self.file)

    @property
    def scorer(self) -> Scorer:
        """The model, ready to score rows."""
        with self._lock:
            return self._scorer

    @cached_property
    def _scorer(self) -> Scorer:
        tensors = {}
        for name, array in self.file.tensors.items():
            tensors[name] = allocate(array.size, array.dtype)[: array.size].reshape(array.shape)  # aligned
            np.copyto(tensors[name], array)
        self.file = ModelFile(self.file.meta, tensors)  # one copy only
        return scorer_of(self.path, self.file)


@dataclass(frozen=True)
class RowReading:
    """How rows are read.

    format : libsvm or ffm.
    labeled, stream, refuse_unseen : as in `score_chunks`.
    skip : whether lines with errors are skipped.
    joined, by : as in `Scorer.tables`.
    missing : as in Scorer.
    build : BUILD of the client.
    """

    format: str
    labeled: bool
    skip: bool
    stream: Stream
    refuse_unseen: bool = False
    build: str = BUILD
    joined: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    by: By | None = None


@dataclass(frozen=True)
class TaskResult(Generic[T]):
    """The result of a task.

    reports : the line reports of each text buffer.
    result : the result for the rows before an error.
    error : the error that ended the task.
    """

    reports: list[LineReport]
    counts: Counts
    result: T
    error: FmcliError | None


@dataclass(frozen=True)
class Survey:
    """The extents of the inputs, in order, and how each is read.

    format, stream : as in Request.
    """

    extents: list[FileRange]
    format: str
    stream: Stream


def survey(model: SharedModel, paths: Sequence[str], size: int, request: RowReading) -> Survey | FmcliError:
    """Split the inputs (paths or patterns) into extents of at most `size` bytes. An error is
    returned."""
    try:
        require_build(request.build)
        files, scorer = all_matching(paths), model.scorer
        stream, needs_fields = request.stream, scorer.needs_fields
        if request.format == "auto":
            first, *others = replace(scorer, missing=request.missing).tables(files, request.joined, request.by)
            files = [first, *(one.at(one, opens=False) if isinstance(one, TableSource) else one for one in others)]
            if isinstance(first, TableSource) and stream.row_groups is not None:
                stream = replace(stream, row_groups=RowGroups(optional=stream.row_groups.optional))
        found = [extent for file in files for extent in extents(file, size)]
        format, stream = detected(files, request.format, needs_fields, scorer.path, stream, request.labeled)
        return Survey(found, format, stream)
    except (FmcliError, MemoryError) as error:
        return told(error, "")


def predicted(
    model: SharedModel, extent: FileRange, request: RowReading, output: OutputType, with_spread: bool
) -> TaskResult[bytes]:
    """Return the lines of the predictions for an extent."""

    def finish(pieces: Sequence[tuple[bytes, int]], counts: Counts) -> bytes:
        counts.not_finite += sum(not_finite for _, not_finite in pieces)
        return b"".join(lines for lines, _ in pieces)

    return _scored(
        model, extent, request, lambda scorer: predicted_lines(scorer, output, ExtraOutputs(with_spread)), finish
    )


def written(
    model: SharedModel, extent: FileRange, request: RowReading, output: OutputType, with_spread: bool, path: str
) -> TaskResult[bytes]:
    """Write the prediction lines of an extent to a file, completely or not at all. The result is empty."""
    scored = predicted(model, extent, request, output, with_spread)
    if scored.error is not None:
        return scored
    error: FmcliError | None = None
    try:
        with atomic_output(path) as file:
            file.write(scored.result)
    except OutputError as failed:
        error = told(failed, str(extent))
    return TaskResult(scored.reports, scored.counts, b"", error)


def evaluated(
    model: SharedModel, extent: FileRange, request: RowReading, metrics: Sequence[str], with_table: bool
) -> TaskResult[Summary | None]:
    """Return the summary of the labels and scores of an extent; None if it has no rows."""

    def finish(pieces: Sequence[Any], counts: Counts) -> Summary | None:
        if not pieces:
            return None
        outcome = outcome_of(model.scorer, pieces, counts, request.stream.label_weights)
        return summary_of(outcome, metrics, model.scorer, with_table)

    return _scored(model, extent, request, labeled_scores, finish)


def _scored(
    model: SharedModel,
    extent: FileRange,
    request: RowReading,
    work: Callable[[Scorer], Callable[[Piece], T]],
    finish: Callable[[list[T], Counts], U],
) -> TaskResult[U]:
    record, counts, pieces = Record(request.skip, blank_is_row=not request.labeled), Counts(), []
    error: FmcliError | None = None
    try:
        require_build(request.build)
        scorer = model.scorer
        chunks = each_chunk(
            scorer,
            [extent],
            work(scorer),
            format=request.format,
            threads=1,
            labeled=request.labeled,
            counts=counts,
            stream=request.stream,
            refuse_unseen=request.refuse_unseen,
            check=partial(require_known, scorer.labels) if request.labeled else None,
            counter=record,
        )
        with suppress(StoppedError):
            for piece in chunks:
                pieces.append(piece)
        return TaskResult(record.reports, counts, finish(pieces, counts), None)
    except (FmcliError, MemoryError) as failed:
        error = told(failed, str(extent))
    return TaskResult(record.reports, counts, finish(pieces, counts), error)


def require_build(build: str) -> None:
    """Raise UsageError unless `build` (the client's) is the build of this worker."""
    if build != BUILD:
        raise UsageError(f"it has {BUILD}, but {build} runs the command; install the same one")


def matching(path: str) -> list[str]:
    """Return the files that a pattern matches, sorted by name; a path that is not a pattern is returned as it is."""
    if is_remote(path) or not has_magic(path) or os.path.lexists(path):
        return [path]
    files = sorted(glob(path))
    if not files:
        raise MissingInputError(f"no file matches {name_of(path)}")
    return files


def all_matching(paths: Sequence[str]) -> list[str]:
    """Return the files of some inputs, which may be patterns."""
    return [file for path in paths for file in matching(path)]


def of_files(function: Callable[..., T], paths: Sequence[str], *more: Any, build: str = BUILD) -> T:
    """Call `function` with the files of some inputs, on a worker: this machine may not see them."""
    try:
        require_build(build)
        return function(all_matching(paths), *more)
    except (FmcliError, MemoryError) as error:
        raise told(error, "") from error


def told(error: FmcliError | MemoryError, extent: str) -> FmcliError:
    """Return the error with the worker and the extent, unless it names a line of the input."""
    if isinstance(error, MemoryError):
        error = NotEnoughMemoryError("there is not enough memory; give the workers more, or fewer threads")
    if isinstance(error, (MissingInputError, NotEnoughMemoryError, OutputError, UsageError)):
        of = f", {extent}" if extent else ""
        located = type(error)(f"worker {_worker()}{of}: {error.marked}", **error.options)
        return located
    return error


def _worker() -> str:
    from distributed import get_worker

    return str(get_worker().address)
