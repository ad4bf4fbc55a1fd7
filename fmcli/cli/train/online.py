"""fmcli train --online: one pass over rows that are not kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fmcli.cli.output import LEAST_SECONDS, Log, open_lines
from fmcli.cli.train.log import log_plan, log_read
from fmcli.cli.train.progress import Progress
from fmcli.cli.train.rows import known_labels, log_skipped, read_valid, reading_of
from fmcli.cli.train.run import bad_lines, save
from fmcli.cli.train.start import log_start
from fmcli.data.labels import NUMBERS, Names, listed_texts, sorted_names
from fmcli.data.sources import name_of
from fmcli.data.stored.cache import Facts
from fmcli.data.stored.caching import text_rows
from fmcli.data.weights import weigh_labels
from fmcli.errors import BadInputError
from fmcli.training.several.online import train_online
from fmcli.training.trained import summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fmcli.cli.train.request import Request
    from fmcli.data.dataset import Dataset
    from fmcli.data.faults import BadLines
    from fmcli.data.pieces import TextRows
    from fmcli.data.weights import Weighting
    from fmcli.training.planning import Plan


class StreamProgress(Progress):
    """Progress on rows whose number is not known."""

    def rows(self, epoch: int, rows: int) -> None:
        if self._log.due():
            speed = rows / max(time.perf_counter() - self._begin, LEAST_SECONDS)
            self._log.progress(f"{rows:,} rows  {speed:,.0f} rows/s")


class StreamRows:
    """The rows of a stream. Their first segment determines what labels there are, and their weights.

    facts : about the rows so far.
    names : what labels 0, 1, .. stand for; NUMBERS: labels are numbers.
    """

    def __init__(self, source: str, weighting: Weighting | None) -> None:
        self.facts, self.names = Facts(), NUMBERS
        self._source, self._weighting = source, weighting
        self._places: NDArray[np.float64] | None = None
        self._of_labels: dict[float, float] | None = None

    def counted(self, pieces: Iterable[TextRows]) -> Iterator[TextRows]:
        """Yield the pieces that have rows, which are counted."""
        for piece in pieces:
            self.facts.take(piece.facts)
            if piece.data.rows:
                self.facts.add(piece.data)
                yield piece

    def change(self, data: Dataset) -> tuple[Dataset, Names]:
        """Return a segment whose labels are the places of their sorted names, with weights; and these names."""
        found = self.facts.names
        if found:
            if self._places is None:
                self.names, self._places = sorted_names([name.encode() for name in found], self._source)
            if data.label.max() >= len(self._places):
                raise BadInputError(
                    f"{self._source}: the first rows have the labels {listed_texts(self.names)} only, but a later one "
                    f"has {found[len(self._places)]}; begin with rows of all labels"
                )
            data = data.changed(label=self._places[data.label.astype(np.intp)])
        if self._weighting and self._of_labels is None:
            weight = np.ones(data.rows) if data.weight is None else data.weight
            self._of_labels = self._weighting.of_labels(data.label, weight, self.names)
        return weigh_labels(data, self._of_labels) if self._of_labels else data, self.names


def run_online(log: Log, request: Request, bad: BadLines) -> None:
    """Train on the rows of the inputs as they are read, and save the model."""
    begin = time.perf_counter()
    settings = request.settings
    valid = read_valid(log, request, request.format, bad, known_labels(request))
    rows = StreamRows(name_of(request.inputs[0]), request.weighting)
    pieces = text_rows(request.inputs, reading_of(request, shuffled=False), settings.threads, bad)
    with open_lines(request.written.log_json) as lines, closing(pieces):
        shown: list[Progress] = []

        def on_plan(plan: Plan) -> Progress:
            log_plan(log, plan, again=False)
            shown.append(StreamProgress(log, lines, plan, request.written.log_every))
            log_start(shown[0], plan, request)
            return shown[0]

        stream = rows.counted(pieces)
        trained = train_online(replace(settings, stream=True), stream, rows.change, on_plan, valid)
        rows.facts.features = trained.plan.data.dimension
        log_read(log, request.inputs, rows.facts, time.perf_counter() - begin)
        log_skipped(log, bad.count)
        shown[0].epoch(trained.epochs[0])
        log.line(f"the metrics of training rows are those of the last {len(trained.plan.rows):,} rows")
        format = rows.facts.format
        facts = {"diverged": False, **bad_lines(bad)}
        save(log, shown[0], trained, summary(trained), format, request, begin, facts)
