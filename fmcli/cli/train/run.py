"""A run of fmcli train: the rows are read, the model is trained, and it is saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fmcli.choosing.automatic import memory_of_whole
from fmcli.choosing.fitting import fit
from fmcli.choosing.request import SearchResult
from fmcli.cli.output import Lines, Log, open_lines
from fmcli.cli.rows.table_options import print_schema
from fmcli.cli.train.events import RunLog, log_planned
from fmcli.cli.train.log import log_divergence, memory_needed, sizes
from fmcli.cli.train.readings import with_readings
from fmcli.cli.train.rows import Planned, completed_plan, plan_rows
from fmcli.cli.train.saving import bad_lines, save
from fmcli.cli.train.tables import with_tables
from fmcli.errors import DivergedError, NothingNewError, UsageError
from fmcli.model_file.container import save as save_file
from fmcli.system.memory import available, human_bytes
from fmcli.training.checkpoint import Checkpointer
from fmcli.training.several.refit import refits
from fmcli.training.trained import summary

if TYPE_CHECKING:
    from fmcli.cli.cluster import ClusterAddress
    from fmcli.cli.train.request import Request
    from fmcli.data.text.faults import BadLines
    from fmcli.training.trained import Trained


def train_request(log: Log, request: Request, bad: BadLines, keeper: Checkpointer) -> None:
    """Read the data, train the model, and save it."""
    if request.cluster is not None:
        train_on_cluster(log, request, request.cluster, bad, keeper)
        return
    asked, request = request, with_tables(log, request)
    if schema_printed(request):
        return
    log.detail(f"{request.settings.threads} threads")
    if not request.choices.online:
        train_rows(log, request, bad, keeper, lambda: with_readings(plan_rows(log, request, bad), asked, bad))
        return
    from fmcli.cli.train.online import StreamLog, plan_stream, segments_of

    with segments_of(request, bad) as segments:
        events = partial(StreamLog, segments=segments, bad=bad)
        train_rows(log, request, bad, keeper, lambda: plan_stream(log, request, bad, segments), events)


def train_on_cluster(log: Log, request: Request, address: ClusterAddress, bad: BadLines, keeper: Checkpointer) -> None:
    """Train the model on the workers of a cluster, and save it."""
    from fmcli.cli.train.cluster import plan_on_cluster

    with address.connected(log) as cluster:
        keeper.signals = cluster.deferring
        request = with_tables(log, request, cluster)
        if schema_printed(request):
            return
        train_rows(log, request, bad, keeper, lambda: plan_on_cluster(log, request, bad, cluster))
        sent, received = human_bytes(cluster.sent), human_bytes(cluster.received)
        log.line(f"sent {sent} of parameters to workers, received {received} of sums")


def schema_printed(request: Request) -> bool:
    """Print the columns if nothing else is asked for. Returns whether it did. Raises UsageError."""
    if request.choices.print_schema:
        if request.settings.table is None:
            raise UsageError("--print-schema needs a table")
        print_schema(request.settings.table)
    return bool(request.choices.print_schema)


def train_rows(
    log: Log,
    request: Request,
    bad: BadLines,
    keeper: Checkpointer,
    prepared: Callable[[], Planned],
    events_of: Callable[[Log, Lines, Request, float], RunLog] = RunLog,
) -> None:
    """Train the model on the rows of a plan, which `prepared` returns, and save it. events_of : writes its events."""
    begin, settings, choices = time.perf_counter(), request.settings, request.choices
    try:
        planned = prepared()
    except NothingNewError as error:
        log.warning(f"{error}: the model is as it was")
        if not choices.dry_run and settings.warm_start and settings.warm_start.file:
            save_file(request.model, settings.warm_start.file)
        return
    if choices.dry_run:
        plan = completed_plan(log, request, planned, planned.plan, bad)
        log_planned(log, plan, SearchResult(), again=refits(plan))
        needed = memory_needed(memory_of_whole(plan, choices.ensemble), request)
        log.table(**sizes(plan), memory=f"{human_bytes(needed)} needed", available=human_bytes(available()))
        return
    with open_lines(choices.log_json) as lines:
        events = events_of(log, lines, request, begin)

        def finish(trained: Trained, training: dict[str, Any], *, diverged: bool) -> None:
            facts = {"diverged": diverged, **bad_lines(bad)}
            if continued := trained.continued or trained.validated.continued:
                facts["resumed"] = dict(zip(("epoch", "row"), continued, strict=True))
            ends = keeper if diverged or not trained.out_of_time else None
            save(events, trained, training, planned.format, facts, ends)

        try:
            trained, training = fit(
                planned.plan,
                events,
                choices.ensemble,
                completed=lambda plan: completed_plan(log, request, planned, plan, bad),
                keeper=keeper,
            )
        except DivergedError as error:
            if error.trained is not None:
                log_divergence(log, error.trained, events.again)
                finish(error.trained, summary(error.trained), diverged=True)
            keeper.done()
            raise
        finish(trained, training, diverged=False)
