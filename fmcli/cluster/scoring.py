"""predict and evaluate on a cluster.

The inputs are split into extents, which depend only on the files. Workers score them, and the client takes the results
in order, so lines, counts and errors are the same as on one machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cluster import tasks
from fmcli.cluster.connection import Cluster
from fmcli.cluster.residents import itself
from fmcli.cluster.tasks import RowReading, SharedModel, Survey
from fmcli.data.text.faults import BadLines
from fmcli.data.text.line_counter import LineCounter
from fmcli.data.text.sources import FileRange, name_of
from fmcli.errors import OutputError
from fmcli.model_file.container import load
from fmcli.records import dataclass
from fmcli.scoring.prediction import Counts
from fmcli.scoring.scorer import OutputType, Scorer, scorer_of
from fmcli.scoring.summary import Combined, check_combined
from fmcli.system.leftovers import new_name

if TYPE_CHECKING:
    from distributed import Future

# Bytes of text per extent: scoring takes about 0.1 s, so sending a task (some milliseconds) is negligible, and waiting
# results are small. The size decides which rows are summed together, and so the last bits of some metrics.
PART_BYTES = 32 << 20

T = TypeVar("T")


@dataclass
class ExtentProgress:
    """The number of scored extents, and the number of all extents."""

    done: int = 0
    extents: int = 0


def loaded(path: str) -> tuple[Scorer, SharedModel]:
    """Return the model in a file, for this machine and for workers. Raises the errors of `load_model`."""
    file = load(path)
    return scorer_of(path, file), SharedModel(path, file)


class Scoring:
    """The rows of some inputs, to be scored on a cluster.

    bad, counts : as in fmcli.scoring.prediction.
    """

    def __init__(
        self,
        cluster: Cluster,
        model: SharedModel,
        paths: Sequence[str],
        request: RowReading,
        counts: Counts,
        bad: BadLines,
    ) -> None:
        self._cluster, self._paths, self._request = cluster, paths, request
        self._counts = counts
        self._counter = LineCounter(bad, blank_is_row=not request.labeled)
        self._model = cluster.submit(itself, model)
        self.progress = ExtentProgress()

    def predict(self, output: OutputType, with_spread: bool = False) -> Iterator[bytes]:
        """Yield the lines of the predictions for all rows, in order. Raises the errors of fmcli.scoring.prediction and
        of Cluster."""

        def send(extent: FileRange) -> Future:
            return self._cluster.submit(tasks.predicted, self._model, extent, self._settled, output, with_spread)

        return self._each(self._survey.extents, send, lambda extent: extent)

    def write(self, output: OutputType, folder: str, with_spread: bool = False) -> Iterator[None]:
        """Write the prediction lines of each extent to a file in `folder`, which must be missing or empty, and appears
        when all files are complete. This machine and all workers must see it at the same path.

        Raises as `predict`, and OutputError.
        """
        files = [f"part-{number:05d}" for number in range(len(self._survey.extents))]
        with _complete_folder(folder, files) as unfinished:

            def send(numbered: tuple[str, FileRange]) -> Future:
                file, extent = numbered
                path = os.path.join(unfinished, file)
                return self._cluster.submit(
                    tasks.written, self._model, extent, self._settled, output, with_spread, path
                )

            for _ in self._each(
                list(zip(files, self._survey.extents, strict=True)), send, lambda numbered: numbered[1]
            ):
                yield

    def evaluate(self, metrics: Iterable[str], with_table: bool, combined: Combined) -> Iterator[None]:
        """Score labeled rows, and add the summaries of all extents to `combined`, in order, for these metrics. Raises
        the errors of `predict`, NotEnoughMemoryError, and UsageError for a metric that cannot be combined."""
        names = list(metrics)
        check_combined(names)

        def send(extent: FileRange) -> Future:
            return self._cluster.submit(tasks.evaluated, self._model, extent, self._settled, names, with_table)

        for summary in self._each(self._survey.extents, send, lambda extent: extent):
            if summary is not None:
                combined.add(summary)
            yield

    @cached_property
    def _survey(self) -> Survey:
        names = " ".join(map(name_of, self._paths))
        future = self._cluster.submit(tasks.survey, self._model, self._paths, PART_BYTES, self._request)
        found = self._cluster.result(future, f"looking at {names}")
        if not isinstance(found, Survey):
            raise found
        self.progress.extents = len(found.extents)
        return found

    @property
    def _settled(self) -> RowReading:
        """The request with the format and the stream that the survey found."""
        return replace(self._request, format=self._survey.format, stream=self._survey.stream)

    @property
    def grouped(self) -> bool:
        """Whether the rows have groups."""
        return self._survey.stream.row_groups is not None

    def _each(
        self, items: Sequence[T], send: Callable[[T], Future], extent_of: Callable[[T], FileRange]
    ) -> Iterator[Any]:
        results = self._cluster.in_order(items, send, lambda item: f"scoring {extent_of(item)}")
        for item, scored in results:
            self._counts.add(scored.counts)
            error = self._counter.error_in(name_of(extent_of(item).path), scored.reports, scored.error)
            self.progress.done += 1
            yield scored.result
            if error is not None:
                raise error


@contextmanager
def _complete_folder(folder: str, files: Sequence[str]) -> Iterator[str]:
    """Make a hidden folder beside `folder`. At the end, it replaces `folder` if it has all files; otherwise it is
    removed."""
    target = os.path.abspath(folder)
    unfinished = new_name(os.path.dirname(target))
    try:
        os.mkdir(unfinished)
        try:
            yield unfinished
            found = set(os.listdir(unfinished))
            if missing := [file for file in files if file not in found]:
                raise OutputError(
                    f"{folder}: {missing[0]} was written by a worker, but cannot be seen here; name a folder on a file "
                    "system that this machine and all workers share"
                )
            for other in found.difference(files):  # left by workers that were killed
                os.unlink(os.path.join(unfinished, other))
            os.rename(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error
