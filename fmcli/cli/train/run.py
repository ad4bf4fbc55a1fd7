"""A run of fmcli train: the rows are read, the model is trained, and it is saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fmcli.choosing.automatic import few_of_class, memory_of_whole
from fmcli.choosing.fitting import Events, OnEpoch, fit
from fmcli.choosing.request import SearchResult
from fmcli.cli.flags import flag_of
from fmcli.cli.output import Lines, Log, open_lines
from fmcli.cli.rows.table_options import print_schema
from fmcli.cli.train.log import (
    log_best_epoch,
    log_comparison,
    log_divergence,
    log_plan,
    log_quick_search,
    log_refit,
    log_refitted,
    log_trials,
    memory_needed,
    sizes,
)
from fmcli.cli.train.progress import Progress
from fmcli.cli.train.rows import Planned, completed_plan, plan_rows
from fmcli.cli.train.saving import bad_lines, save
from fmcli.cli.train.start import log_start
from fmcli.cli.train.tables import with_tables
from fmcli.errors import DivergedError, NothingNewError, UsageError
from fmcli.model_file.container import save as save_file
from fmcli.solvers.trainer import Observer
from fmcli.system.memory import available, human_bytes
from fmcli.training.checkpoint import Checkpointer
from fmcli.training.setup.item_ranking import without_users
from fmcli.training.several.ensemble import at_once
from fmcli.training.several.refit import refits
from fmcli.training.trained import summary

if TYPE_CHECKING:
    from fmcli.cli.train.request import Request
    from fmcli.data.faults import BadLines
    from fmcli.training.planning import Plan
    from fmcli.training.trained import Trained


def train_request(log: Log, request: Request, bad: BadLines, keeper: Checkpointer) -> None:
    """Read the data, train the model, and save it."""
    if request.cluster is None:
        request = with_tables(log, request)
        if not schema_printed(request):
            train_here(log, request, bad, keeper)
        return
    from fmcli.cli.train.cluster import plan_on_cluster

    with request.cluster.connected(log) as cluster:
        keeper.signals = cluster.deferring
        request = with_tables(log, request, cluster)
        if schema_printed(request):
            return
        train_rows(log, request, bad, keeper, lambda: plan_on_cluster(log, request, bad, cluster))
        sent, received = human_bytes(cluster.sent), human_bytes(cluster.received)
        log.line(f"sent {sent} of parameters to workers, received {received} of sums")


def schema_printed(request: Request) -> bool:
    """Print what the columns are, if that is all that is asked for. Returns whether it is. Raises UsageError."""
    if request.choices.print_schema:
        if request.settings.table is None:
            raise UsageError("--print-schema needs a table")
        print_schema(request.settings.table)
    return bool(request.choices.print_schema)


def train_here(log: Log, request: Request, bad: BadLines, keeper: Checkpointer) -> None:
    """Train the model on this machine, and save it."""
    if request.choices.online:
        from fmcli.cli.train.online import run_online

        run_online(log, request, bad)
    else:
        log.detail(f"{request.settings.threads} threads")
        train_rows(log, request, bad, keeper, lambda: plan_rows(log, request, bad))


def train_rows(
    log: Log, request: Request, bad: BadLines, keeper: Checkpointer, prepared: Callable[[], Planned]
) -> None:
    """Train the model on the rows of a plan, which `prepared` returns, and save it."""
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
        events = RunLog(log, lines, request)

        def finish(trained: Trained, training: dict[str, Any], *, diverged: bool) -> None:
            facts = {"diverged": diverged, **bad_lines(bad)}
            if continued := trained.continued or trained.validated.continued:
                facts["resumed"] = dict(zip(("epoch", "row"), continued, strict=True))
            ends = keeper if diverged or not trained.out_of_time else None
            save(log, events.progress, trained, training, planned.format, request, begin, facts, ends)

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


class RunLog(Events):
    """Writes the events of a run to the log, and as lines of JSON.

    progress : of the run that chooses the epoch.
    again : whether the run of all rows has begun.
    """

    progress: Progress
    again = False

    def __init__(self, log: Log, lines: Lines, request: Request) -> None:
        self._log, self._lines, self._request = log, lines, request

    def comparing(self, plan: Plan) -> None:
        log_comparison(self._log, plan)

    def compared(self, searched: SearchResult) -> None:
        log_trials(self._log, searched.trials)

    def planned(self, plan: Plan, searched: SearchResult, *, again: bool) -> None:
        log_planned(self._log, plan, searched, again=again)
        if self._request.settings.refit and not again:
            self._log.warning("no rows are held out, so that --refit has no effect")
        if (members := self._request.choices.ensemble) > 1:
            log_members(self._log, plan, members)
        self.progress = Progress(self._log, self._lines, plan, self._request.choices.log_every)
        log_start(self.progress, plan, self._request)
        for trial in searched.trials:
            self.progress.trial(trial)

    def observed(self, plan: Plan, *, again: bool, member: int = 0) -> tuple[OnEpoch, Observer]:
        kind, every = "refit" if again else "epoch", self._request.choices.log_every
        progress = Progress(self._log, self._lines, plan, every, kind, member) if again or member else self.progress
        return progress.epoch, progress

    def chosen(self, trained: Trained, *, again: bool) -> None:
        log_best_epoch(self._log, trained, again)

    def refitting(self, plan: Plan) -> None:
        self.again = True
        log_refit(self._log, plan)

    def refitted(self, trained: Trained) -> None:
        log_refitted(self._log, trained)


def log_planned(log: Log, plan: Plan, searched: SearchResult, *, again: bool) -> None:
    """Log the run, the trials before it, and warnings about its rows."""
    log_plan(log, plan, again)
    for warning in filter(None, (few_of_class(plan), without_users(plan.source, flag_of))):
        log.warning(warning)
    log_quick_search(log, searched)


def log_members(log: Log, plan: Plan, members: int) -> None:
    """Log the members of an ensemble."""
    first = plan.spec.values["seed"]
    log.line(
        f"{members} models with the seeds {first} to {first + members - 1}, {at_once(plan, members)} at a time; "
        "predictions are the means of theirs"
    )
