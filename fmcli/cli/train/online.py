"""fmcli train --online: one pass over rows that are not kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fmcli.cli.train.events import RunLog
from fmcli.cli.train.log import log_read
from fmcli.cli.train.rows import Planned, log_ignored, log_skipped, read_valid, reading_of
from fmcli.data.stored.caching import text_rows
from fmcli.data.text.sources import name_of
from fmcli.training.setup.rows import weigh_by_label
from fmcli.training.setup.streamed import Segments, StreamedRows
from fmcli.training.several.online import prepare_stream

if TYPE_CHECKING:
    from fmcli.choosing.fitting import OnEpoch
    from fmcli.cli.output import Log
    from fmcli.cli.train.request import Request
    from fmcli.data.text.faults import BadLines
    from fmcli.solvers.trainer import Observer
    from fmcli.training.planning import Plan
    from fmcli.training.trained import Trained


class StreamLog(RunLog):
    """Writes the events of a pass over a stream, whose rows have been read when its only epoch ends."""

    def __init__(self, *run: Any, segments: Segments, bad: BadLines) -> None:
        super().__init__(*run)
        self._segments, self._bad = segments, bad

    def observed(self, plan: Plan, *, again: bool, member: int = 0) -> tuple[OnEpoch, Observer]:
        return lambda epoch: None, self.progress

    def chosen(self, trained: Trained, *, again: bool) -> None:
        log, request = self.log, self.request
        facts = replace(self._segments.facts, features=trained.plan.data.dimension)
        log_read(log, request.inputs, facts, time.perf_counter() - self.begin)
        log_skipped(log, self._bad.count)
        log_ignored(log, request)
        self.progress.epoch(trained.epochs[0])
        log.line(f"training metrics are measured on the last {len(trained.plan.rows):,} rows")


@contextmanager
def segments_of(request: Request, bad: BadLines) -> Iterator[Segments]:
    """Yield the segments of the inputs, which end with the context."""
    settings = request.settings
    pieces = text_rows(request.inputs, reading_of(request, shuffled=False), settings.threads, bad)
    with closing(pieces):
        yield Segments(pieces, name_of(request.inputs[0]), settings.spec.values["batch_size"], settings.threads)


def plan_stream(log: Log, request: Request, bad: BadLines, segments: Segments) -> Planned:
    """Return the plan of the run on the first segment, which the others follow."""
    read = StreamedRows(segments)
    unweighted = read_valid(log, request, request.choices.format, bad, read.names)
    rows, valid, _ = weigh_by_label(read, unweighted, request.weighting)
    plan = prepare_stream(replace(request.settings, stream=True), rows, valid)
    return Planned(plan, segments.facts.format, None, unweighted)
