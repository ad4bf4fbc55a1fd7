"""A run of fmcli train: the rows are read, the model is trained, and it is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fmcli.choosing.look import Looked, few_of_class, look_once
from fmcli.cli.output import Log, open_lines
from fmcli.cli.rows.table_options import print_schema
from fmcli.cli.train.advice import advice, notes, verdict
from fmcli.cli.train.log import (
    figures,
    log_best_epoch,
    log_comparison,
    log_divergence,
    log_looks,
    log_plan,
    log_refit,
    log_refitted,
    log_trials,
    needs,
    sizes,
)
from fmcli.cli.train.progress import Progress
from fmcli.cli.train.rows import Planned, completed_plan, plan_rows
from fmcli.cli.train.sampling import write_test
from fmcli.cli.train.start import log_start
from fmcli.cli.train.tables import with_tables
from fmcli.errors import DivergedError, NothingNewError, UsageError, WorseThanConstantError
from fmcli.model_file.container import save as save_file
from fmcli.system.memory import human_bytes, peak
from fmcli.training import job
from fmcli.training.baseline import compared
from fmcli.training.checkpoint import Keeper
from fmcli.training.saving import keeps_state, save_model
from fmcli.training.several.ensemble import at_once, ensemble_summary, memory_of, train_ensemble
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
    if request.tables.print_schema:
        if request.settings.table is None:
            raise UsageError("--print-schema needs a table")
        print_schema(request.settings.table)
    return request.tables.print_schema


def train_here(log: Log, request: Request, bad: BadLines, keeper: Keeper) -> None:
    """Train the model on this machine, and save it."""
    if request.online:
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
        if not request.dry_run and settings.warm_start and settings.warm_start.file:
            save_file(request.model, settings.warm_start.file)
        return
    if keeper.choices is None:
        log_comparison(log, planned.plan)
    plan, looked = (planned.plan, Looked()) if request.dry_run else look_once(planned.plan, keeper)
    log_trials(log, looked.trials)
    plan, again, format = completed_plan(log, request, planned, plan, bad), refits(plan), planned.format
    log_plan(log, plan, again)
    if too_few := few_of_class(plan):
        log.warning(too_few)
    log_looks(log, looked)
    if settings.refit and not again:
        log.warning("no rows are held out, so that --refit has no effect")
    if request.dry_run:
        read = [*request.inputs, *request.validation.valid, *(table for _, table in request.tables.join)]
        log.table(**sizes(plan), **needs(memory_of(plan, request.members), read))
        return
    if request.members > 1:
        run_ensemble(log, request, plan, format, begin, bad)
        return
    keeper.belongs_to(plan, again)
    with open_lines(request.written.log_json) as lines:
        progress, second = Progress(log, lines, plan, request.written.log_every), None
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
                second = Progress(log, lines, all_rows, request.written.log_every, "refit")
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
    first = plan.spec.values["seed"]
    together = at_once(plan, request.members)
    log.line(
        f"{request.members} models with the seeds {first} to {first + request.members - 1}, {together} at a time; "
        "predictions are the means of theirs"
    )
    with open_lines(request.written.log_json) as lines:

        def observing(member: int, plan: Plan, again: bool) -> tuple[Callable[[Epoch], None], Progress]:
            progress = Progress(log, lines, plan, request.written.log_every, "refit" if again else "epoch", member)
            return progress.epoch, progress

        progress = Progress(log, lines, plan)
        log_start(progress, plan, request)
        trained, members = train_ensemble(plan, request.members, observing)
        training = ensemble_summary(trained, members)
        save(log, progress, trained, training, format, request, begin, bad_lines(bad))


def bad_lines(bad: BadLines) -> dict[str, object]:
    """Return how many lines were skipped, for the summary; empty unless bad lines are skipped."""
    return {"bad_lines": bad.count} if bad.skip else {}


def save(
    log: Log,
    progress: Progress,
    trained: Trained,
    training: dict[str, Any],
    format: str,
    request: Request,
    begin: float,
    facts: Mapping[str, object],
    keeper: Keeper | None = None,
) -> None:
    """Write the model. Then report its figures (`training`), further facts for the summary, and warnings, the last of
    which says whether the model is no better than a constant.

    keeper : keeps the run's state, which is no longer needed at the end.

    Raises WorseThanConstantError if the model is worse than a constant, and is not written because of that.
    """
    comparison = compared(trained, training)
    worse = comparison and comparison.worse
    output = None if worse and request.validation.fail_worse else request.model
    if output is not None:
        log.progress(f"writing {output}")
        keep = request.written.keep_state
        if keep is None:
            keep = request.members == 1 and keeps_state(trained.plan)
        save_model(output, trained, training, format, keep_state=keep)
        facts = {**facts, **write_test(log, trained, request.sampling.test_output)}
    took, memory = time.perf_counter() - begin, peak()
    facts = {**facts, "worse_than_constant": worse, "seconds": took, "peak_memory": memory, "model": output}
    progress.summary({**training, **facts})
    for note in notes(trained):
        log.line(note)
    for warning in advice(trained):
        log.warning(warning)
    written = {"model": output} if output is not None else {}
    log.table(
        **sizes(trained.plan, trained),
        **figures({**training, **facts}),
        seconds=f"{took:.3f}",
        peak_memory=human_bytes(memory),
        **written,
    )
    if keeper is not None:
        keeper.done()
    if comparison is None or not comparison.no_better:
        return
    if output is None:
        raise WorseThanConstantError(f"no model is written: {verdict(trained, comparison)}")
    log.warning(verdict(trained, comparison))
