"""A run of fmcli train: the rows are read, the model is trained, and it is saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fmcli.choosing.look import Looked, few_of_class, look_once, memory_of_whole
from fmcli.cli.flags import flag_of
from fmcli.cli.output import Log, open_lines
from fmcli.cli.rows.table_options import print_schema
from fmcli.cli.train.log import (
    log_best_epoch,
    log_comparison,
    log_divergence,
    log_looks,
    log_plan,
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
from fmcli.system.memory import available, human_bytes
from fmcli.training import job
from fmcli.training.checkpoint import Keeper
from fmcli.training.setup.item_ranking import without_users
from fmcli.training.several.ensemble import at_once, ensemble_summary, train_ensemble
from fmcli.training.several.learning import learn
from fmcli.training.several.refit import refit, refits, whole
from fmcli.training.trained import summary

if TYPE_CHECKING:
    from fmcli.cli.train.request import Request
    from fmcli.data.faults import BadLines
    from fmcli.training.planning import Plan
    from fmcli.training.trained import Epoch, Trained


def train_request(log: Log, request: Request, bad: BadLines, keeper: Keeper) -> None:
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


def train_here(log: Log, request: Request, bad: BadLines, keeper: Keeper) -> None:
    """Train the model on this machine, and save it."""
    if request.choices.online:
        from fmcli.cli.train.online import run_online

        run_online(log, request, bad)
    else:
        log.detail(f"{request.settings.threads} threads")
        train_rows(log, request, bad, keeper, lambda: plan_rows(log, request, bad))


def train_rows(log: Log, request: Request, bad: BadLines, keeper: Keeper, prepared: Callable[[], Planned]) -> None:
    """Train the model on the rows of a plan, which `prepared` returns, and save it."""
    begin = time.perf_counter()
    settings = request.settings
    try:
        planned = prepared()
    except NothingNewError as error:
        log.warning(f"{error}: the model is as it was")
        if not request.choices.dry_run and settings.warm_start and settings.warm_start.file:
            save_file(request.model, settings.warm_start.file)
        return
    if keeper.choices is None:
        log_comparison(log, planned.plan)
    plan, looked = (planned.plan, Looked()) if request.choices.dry_run else look_once(planned.plan, keeper)
    log_trials(log, looked.trials)
    plan, again, format = completed_plan(log, request, planned, plan, bad), refits(plan), planned.format
    log_plan(log, plan, again)
    for warning in filter(None, (few_of_class(plan), without_users(plan.source, flag_of))):
        log.warning(warning)
    log_looks(log, looked)
    if settings.refit and not again:
        log.warning("no rows are held out, so that --refit has no effect")
    if request.choices.dry_run:
        needed = memory_needed(memory_of_whole(plan, request.choices.ensemble), request)
        log.table(**sizes(plan), memory=f"{human_bytes(needed)} needed", available=human_bytes(available()))
        return
    if request.choices.ensemble > 1:
        run_ensemble(log, request, plan, format, begin, bad)
        return
    keeper.belongs_to(plan, again)
    with open_lines(request.choices.log_json) as lines:
        progress, second = Progress(log, lines, plan, request.choices.log_every), None
        log_start(progress, plan, request)
        for trial in looked.trials:
            progress.trial(trial)

        def finish(trained: Trained, *, diverged: bool) -> None:
            facts = {"diverged": diverged, **bad_lines(bad)}
            if continued := trained.continued or trained.validated.continued:
                facts["resumed"] = dict(zip(("epoch", "row"), continued, strict=True))
            ends = keeper if diverged or not trained.out_of_time else None
            save(log, progress, trained, summary(trained), format, request, begin, facts, ends)

        try:
            if plan.newcomers:
                finish(learn(plan, progress.epoch, progress, keeper), diverged=False)
                return
            trained = job.train(plan, progress.epoch, progress, keeper)
            log_best_epoch(log, trained, again)
            if again:
                all_rows = whole(trained)
                log_refit(log, all_rows)
                second = Progress(log, lines, all_rows, request.choices.log_every, "refit")
                trained = refit(trained, all_rows, second.epoch, second, keeper)
                log_refitted(log, trained)
        except DivergedError as error:
            if error.trained is not None:
                log_divergence(log, error.trained, second is not None)
                finish(error.trained, diverged=True)
            keeper.done()
            raise
        finish(trained, diverged=False)


def run_ensemble(log: Log, request: Request, plan: Plan, format: str, begin: float, bad: BadLines) -> None:
    """Train the members of an ensemble, and save them."""
    first, members = plan.spec.values["seed"], request.choices.ensemble
    together = at_once(plan, members)
    log.line(
        f"{members} models with the seeds {first} to {first + members - 1}, {together} at a time; "
        "predictions are the means of theirs"
    )
    with open_lines(request.choices.log_json) as lines:

        def observing(member: int, plan: Plan, again: bool) -> tuple[Callable[[Epoch], None], Progress]:
            progress = Progress(log, lines, plan, request.choices.log_every, "refit" if again else "epoch", member)
            return progress.epoch, progress

        progress = Progress(log, lines, plan)
        log_start(progress, plan, request)
        trained, members = train_ensemble(plan, request.choices.ensemble, observing)
        training = ensemble_summary(trained, members)
        save(log, progress, trained, training, format, request, begin, bad_lines(bad))
