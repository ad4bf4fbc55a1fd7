"""The events of a run of fmcli train, in the log and as lines of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmcli.choosing.automatic import few_of_class
from fmcli.choosing.fitting import Events, OnEpoch
from fmcli.choosing.request import SearchResult
from fmcli.cli.flags import flag_of
from fmcli.cli.output import Lines, Log
from fmcli.cli.train.log import log_best_epoch, log_plan
from fmcli.cli.train.progress import Progress
from fmcli.cli.train.start import start_event
from fmcli.cli.train.tries import log_comparison, log_quick_search, log_trials
from fmcli.solvers.trainer import Observer
from fmcli.training.setup.item_ranking import without_users
from fmcli.training.several.ensemble import at_once

if TYPE_CHECKING:
    from fmcli.cli.train.request import Request
    from fmcli.training.planning import Plan
    from fmcli.training.trained import Trained


class RunLog(Events):
    """Writes the events of a run to the log, and as lines of JSON.

    begin : the value of time.perf_counter() at which the run begins.
    progress : of the run that chooses the epoch.
    again : whether the run of all rows has begun.
    """

    progress: Progress
    again = False

    def __init__(self, log: Log, lines: Lines, request: Request, begin: float) -> None:
        self.log, self._lines, self.request, self.begin = log, lines, request, begin

    def comparing(self, plan: Plan) -> None:
        log_comparison(self.log, plan)

    def compared(self, searched: SearchResult) -> None:
        log_trials(self.log, searched.trials)

    def planned(self, plan: Plan, searched: SearchResult, *, again: bool) -> None:
        log_planned(self.log, plan, searched, again=again)
        if self.request.choices.refit and not again:
            self.log.warning("no rows are held out, so --refit has no effect")
        if (members := self.request.choices.ensemble) > 1:
            log_members(self.log, plan, members)
        self.progress = Progress(self.log, self._lines, plan, self.request.choices.log_every)
        if self.request.choices.log_json:
            self.progress.start(start_event(plan, self.request))
        for trial in searched.trials:
            self.progress.trial(trial)
        for one in searched.values:
            self.progress.tried(one)

    def observed(self, plan: Plan, *, again: bool, member: int = 0) -> tuple[OnEpoch, Observer]:
        kind, every = "refit" if again else "epoch", self.request.choices.log_every
        progress = Progress(self.log, self._lines, plan, every, kind, member) if again or member else self.progress
        return progress.epoch, progress

    def chosen(self, trained: Trained, *, again: bool) -> None:
        log_best_epoch(self.log, trained, again)

    def refitting(self, plan: Plan) -> None:
        self.again = True

    def refitted(self, trained: Trained) -> None:
        if trained.plan.compares_last and trained.best < len(trained.epochs):
            best = f"it has the best {trained.plan.evaluation.chooser} on the training rows"
            self.log.detail(f"kept epoch {trained.best}: of the last ones, {best}")


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
        f"training {members} models with the seeds {first} to {first + members - 1}, {at_once(plan, members)} at a "
        "time; predictions are their means"
    )
