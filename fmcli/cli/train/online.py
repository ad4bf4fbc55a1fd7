"""fmcli train --online: one pass over rows that are not kept."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from fmcli.cli.output import LEAST_SECONDS, Log, open_lines
from fmcli.cli.train.log import log_plan, log_read
from fmcli.cli.train.progress import Progress
from fmcli.cli.train.rows import log_ignored, log_skipped, read_valid, reading_of
from fmcli.cli.train.saving import bad_lines, save
from fmcli.cli.train.start import log_start
from fmcli.data.sources import name_of
from fmcli.data.stored.caching import text_rows
from fmcli.training.setup.rows import weigh_by_label
from fmcli.training.setup.streamed import Segments, StreamedRows
from fmcli.training.several.online import train_online
from fmcli.training.trained import summary

if TYPE_CHECKING:
    from fmcli.cli.train.request import Request
    from fmcli.data.faults import BadLines
    from fmcli.training.planning import Plan


class StreamProgress(Progress):
    """Progress on rows whose number is not known."""

    def rows(self, epoch: int, rows: int) -> None:
        if self._log.due():
            speed = rows / max(time.perf_counter() - self._begin, LEAST_SECONDS)
            self._log.progress(f"{rows:,} rows  {speed:,.0f} rows/s")


def run_online(log: Log, request: Request, bad: BadLines) -> None:
    """Train on the rows of the inputs as they are read, and save the model."""
    begin = time.perf_counter()
    settings = replace(request.settings, stream=True)
    pieces = text_rows(request.inputs, reading_of(request, shuffled=False), settings.threads, bad)
    unit = settings.spec.values["batch_size"]
    segments = Segments(pieces, name_of(request.inputs[0]), unit, settings.threads)
    with open_lines(request.choices.log_json) as lines, closing(pieces):
        shown: list[Progress] = []

        def on_plan(plan: Plan) -> Progress:
            log_plan(log, plan, again=False)
            shown.append(StreamProgress(log, lines, plan, request.choices.log_every))
            log_start(shown[0], plan, request)
            return shown[0]

        rows, valid = StreamedRows(segments), None
        if request.valid:
            valid = read_valid(log, request, request.choices.format, bad, rows.names)
        rows, valid, _ = weigh_by_label(rows, valid, request.weighting)
        trained = train_online(settings, rows, on_plan, valid)
        facts = replace(segments.facts, features=trained.plan.data.dimension)
        log_read(log, request.inputs, facts, time.perf_counter() - begin)
        log_skipped(log, bad.count)
        log_ignored(log, request)
        shown[0].epoch(trained.epochs[0])
        log.line(f"the metrics of training rows are those of the last {len(trained.plan.rows):,} rows")
        ends = {"diverged": False, **bad_lines(bad)}
        save(log, shown[0], trained, summary(trained), facts.format, request, begin, ends)
