"""fmcli tune: the search for a kind, a solver and options of train."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.choosing.searched import SEARCHED, Searched, TuneCommand, in_words
from fmcli.cli.options import gathered, option
from fmcli.cli.output import Log, clock, open_lines, write_report
from fmcli.cli.report import section
from fmcli.cli.train.command import COMPONENTS, Asked, train_options
from fmcli.cli.train.command import command as train_command
from fmcli.cli.train.log import log_looks
from fmcli.cli.train.progress import epoch_event
from fmcli.cli.train.rows import plan_rows
from fmcli.cli.train.tables import with_tables
from fmcli.errors import UsageError
from fmcli.registry.modes import TUNE
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import SAMPLERS
from fmcli.registry.solvers import SOLVERS
from fmcli.system.blas import one_blas_thread
from fmcli.text import shell_word

if TYPE_CHECKING:
    from fmcli.choosing.entrants import Entrant
    from fmcli.choosing.search import Found
    from fmcli.choosing.study import Study
    from fmcli.cli.train.request import Request
    from fmcli.data.faults import BadLines
    from fmcli.training.planning import Plan

TRIALS, SHOWN, FEWEST_FOLDS = 50, 10, 2


@dataclass(frozen=True)
class SearchChoice:
    """How much is tried, and on which rows it is compared; see the options."""

    trials: int | None
    sampler: str
    folds: int | None
    study: str | None


search_options = gathered(
    "search",
    SearchChoice,
    option(
        "run",
        "--trials",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"Number of trials: the usual options, other kinds and solvers, and options that are drawn. The trials, "
        f"and the result, are the same for any number of threads. [default: {TRIALS}, or with --max-seconds as many as "
        "the time lets; >= 1]",
    ),
    option(
        "run",
        "--sampler",
        type=click.Choice(list(SAMPLERS)),
        default="near",
        metavar="NAME",
        names=SAMPLERS,
        help="How options are drawn: " + "; ".join(f"{name}: {text}" for name, text in SAMPLERS.items()) + ". "
        "[default: near]",
    ),
    option(
        "validation",
        "--folds",
        type=click.IntRange(min=1),
        metavar="K",
        help="Compare on K folds of the rows, each of which is held out in turn; 1 holds out rows once. [default: 5, "
        "fewer of more than 1,000 rows, 1 of more than 5,000; >= 1]",
    ),
    option(
        "output",
        "--study",
        metavar="FILE",
        help="Add each trial to this file, in JSON; if it has trials of the same search, go on after them.",
    ),
)


@click.command(
    cls=TuneCommand,
    name=TUNE,
    examples=[
        "# Kinds, solvers and options, with all defaults.",
        "fmcli tune train.libsvm",
        "# Options of some kinds, for two minutes; the best one is trained.",
        "fmcli tune -m fm,ffm -k 4,8,16 --l2 1e-6..1e-1 --max-seconds 120 --refit train.ffm",
    ],
    lists=COMPONENTS,
)
@search_options
@train_options
def command(asked: Asked, search: SearchChoice) -> None:
    """Search for a kind of model, a solver and options that predict rows better that training has not seen, and print
    the command that trains the best model. The options are those of train; an option may have several values, as A,B,C,
    or a range, as A..B.

    First, the usual options of several kinds and solvers are compared; then options are drawn for the best ones. Trials
    that are worse end early. Files of test data are never read."""
    context = click.get_current_context()
    searched: Searched = context.meta[SEARCHED]
    begin = time.perf_counter()
    if search.folds and searched.valid:
        raise UsageError("--folds and -v cannot be combined: both give validation data; leave one of them out")
    if search.folds and asked.validation.holdout:
        raise UsageError("--folds and --holdout cannot be combined: both say what is held out; leave one of them out")
    if search.sampler == "tpe":
        from fmcli.choosing.proposals import load_optuna

        load_optuna()  # before any rows are read
    seconds = asked.max_seconds
    asked = replace(asked, max_seconds=None)
    if search.folds and search.folds >= FEWEST_FOLDS:
        from fmcli.training.held import Held

        asked = replace(asked, validation=replace(asked.validation, holdout=Held(1 / search.folds)))
    request = asked.request(TUNE)
    others = tuple(searched.kinds[1:]) if searched.kinds else request.settings.rivals
    # With a rival, even if it is the same, as many rows are held out as a comparison needs.
    request = replace(request, settings=replace(request.settings, rivals=others or (request.settings.spec,)))
    with asked.logging.opened() as log:
        with planned(log, request, asked.bad_lines.rule(log)) as plan:
            words = run(log, request, plan, searched, search, None if seconds is None else begin + seconds)
        write_report(" ".join(map(shell_word, ["fmcli", "train", *words])) + "\n")
        if searched.refit or (searched.refit is None and searched.output):
            own = [] if searched.threads is None else ["-j", searched.threads]
            output = [] if searched.output is None else ["-o", searched.output]
            log.line("training it on all rows")
            assert context.parent
            with train_command.make_context("train", [*own, *output, *words], parent=context.parent) as training:
                train_command.invoke(training)


@contextmanager
def planned(log: Log, request: Request, bad: BadLines) -> Iterator[Plan]:
    """Yield the plan of the usual run, on this machine or on a cluster, where a run has all workers."""
    if request.cluster is None:
        yield plan_rows(log, with_tables(log, request), bad).plan
        return
    from fmcli.cli.train.cluster import plan_on_cluster

    with request.cluster.connected(log) as cluster:
        yield plan_on_cluster(log, with_tables(log, request, cluster), bad, cluster).plan


def run(
    log: Log, request: Request, plan: Plan, searched: Searched, search: SearchChoice, deadline: float | None
) -> list[str]:
    """Search, and return the arguments of the command that trains the best model."""
    from fmcli.choosing.entrants import Conduct
    from fmcli.choosing.look import Looked, with_values
    from fmcli.choosing.plans import can_compare
    from fmcli.choosing.search import Tuning, compare
    from fmcli.choosing.study import Study

    if not can_compare(plan):
        raise UsageError("options are compared on held-out rows, and there are none; give -v FILE, or more rows")
    identity = {**identity_of(plan, searched, folds := folds_for(plan, search.folds)), "sampler": search.sampler}
    plan, values = with_values(plan, deadline)
    log_looks(log, Looked(values=values))
    trials = search.trials or (TRIALS if deadline is None else None)
    with (
        Study(search.study, identity) as study,
        open_lines(request.written.log_json) as lines,
        one_blas_thread(),
    ):
        log_begin(log, plan, folds, trials, study)
        progress = Progress(log, study, lines, trials, deadline)
        conduct = Conduct(study.known, deadline)
        found = compare(plan, Tuning(trials, searched.ranges, folds, conduct, progress.trial, search.sampler))
    log_end(log, found, deadline)
    return words_for(found.chosen, searched)


def folds_for(plan: Plan, asked: int | None) -> int:
    """Return on how many folds trials are compared. Raises UsageError if rows cannot be divided."""
    from fmcli.choosing.plans import most_folds

    if asked is None:
        return most_folds(plan)
    if asked >= FEWEST_FOLDS and (plan.settings.hold_out.in_order or not plan.source.divides):
        raise UsageError("rows in order of time, or on a cluster, are held out once; leave out --folds")
    return asked


def identity_of(plan: Plan, searched: Searched, folds: int) -> dict[str, Any]:
    """Return all that the trials of a search depend on, but for their number."""
    from fmcli.training.checkpoint import identity

    rivals = [[one.model, one.solver] for one in plan.settings.rivals]
    return {
        **identity(plan, refits=False),
        "ranges": {name: [one.low, one.high, list(one.choices)] for name, one in searched.ranges.items()},
        "rivals": rivals,
        "folds": folds,
    }


def log_begin(log: Log, plan: Plan, folds: int, trials: int | None, study: Study) -> None:
    """Log what is searched."""
    assert plan.validation is not None
    rows = f"{plan.validation.data.rows:,} {'held-out' if plan.validation.held_out else 'validation'} rows"
    log.line(
        (f"{trials} trials" if trials else "trials until the time is over")
        + f", compared by {plan.validation.chooser} on {rows}"
        + (f" of each of {folds} folds" if folds > 1 else "")
    )
    if study.trials:
        log.line(f"the study has {study.trials} of them already")
    if trials is None:
        log.line("how many there are, and so the result, depends on the speed of the machine")


class Progress:
    """Logs the trials of a search, and keeps them."""

    def __init__(self, log: Log, study: Study, lines: Any, trials: int | None, deadline: float | None) -> None:
        self._log, self._study, self._lines, self._trials, self._deadline = log, study, lines, trials, deadline
        self._begin, self._seen = time.perf_counter(), set[int]()
        self._best: Entrant | None = None
        self._best_rank = float("inf")

    def trial(self, entrant: Entrant, asked: int) -> None:
        """Take what a trial has reached."""
        from fmcli.choosing.study import trial_event

        self._study.add(entrant, asked)
        for fold, epoch in entrant.news:
            self._lines(json.dumps(epoch_event(epoch, trial=entrant.number, fold=fold + 1), allow_nan=False))
        self._lines(json.dumps(trial_event(entrant, asked), allow_nan=False))
        self._seen.add(entrant.number)
        value = "failed" if entrant.reached.value is None else f"{entrant.chooser} {entrant.reached.value:.6g}"
        better = entrant.rank() < self._best_rank
        if better:
            self._best, self._best_rank = entrant, entrant.rank()
        best = "" if self._best is None else f"best {self._best.reached.value:.6g}"
        if better or self._log.verbose:
            self._log.line(
                f"trial {entrant.number:>3}  {described(entrant)}  {entrant.reached.epochs} epochs  {value}"
                + ("  the best so far" if better else "")
            )
        elif self._log.due():
            self._log.progress(f"trial {entrant.number}  {value}  {best}{self._left()}")

    def _left(self) -> str:
        now = time.perf_counter()
        if self._deadline is not None:
            left = self._deadline - now
        else:
            assert self._trials is not None
            left = (now - self._begin) / len(self._seen) * max(0, self._trials - len(self._seen))
        return f"  {clock(max(0.0, left))} left"


def described(entrant: Entrant) -> str:
    """Return the kind, the solver and the drawn options of a trial."""
    return " ".join([entrant.plan.spec.model, entrant.plan.spec.solver, *options_of(entrant)])


def options_of(entrant: Entrant, ranges: Iterable[str] = ()) -> list[str]:
    """Return the words of the options that a look or the search has chosen, or of which only some values were asked
    for."""
    spec, words = entrant.plan.spec, list[str]()
    for name in sorted({*(spec.given - entrant.plan.settings.spec.given), *entrant.settings, *ranges}):
        if name in OPTIONS:
            flag = OPTIONS[name].flags[0] if OPTIONS[name].flags else OPTIONS[name].flag
            words += [flag, in_words(spec.values[name])]
    return words


def log_end(log: Log, found: Found, deadline: float | None) -> None:
    """Log the best trials, and which one is taken."""
    if found.late:
        log.line("the time is over, so that the result depends on the speed of the machine")
    rows = [
        {
            "trial": one.number,
            "model": one.model,
            "solver": one.solver,
            "epochs": one.epochs,
            "trainings": round(one.trainings, 1),
            found.chosen.chooser: one.value,
            "options": " ".join(f"{name}={in_words(value)}" for name, value in one.settings.items()) or "usual",
            "": "taken" if one.chosen else "",
        }
        for place, one in enumerate(found.rivals)
        if place < SHOWN or one.chosen or one.number == 0
    ]
    for line in section(rows).splitlines():
        log.line(line.rstrip())
    if found.chosen.number == 0:
        log.line("no trial is clearly better than the usual options, which are taken")


def words_for(chosen: Entrant, searched: Searched) -> list[str]:
    """Return the arguments of the command that trains a trial on all rows: for as many epochs as were best, unless
    other rows choose them."""
    import numpy as np

    spec = chosen.plan.spec
    solver = ["-s", spec.solver] if spec.solver in SOLVERS else []
    epochs: list[str] = []
    if spec.solver_entry.stops_early and not searched.valid and chosen.reached.best:
        epochs = ["--holdout", "0", "-e", str(max(1, int(np.median(chosen.reached.best))))]
    return [
        "-m",
        spec.model,
        *solver,
        *options_of(chosen, searched.ranges),
        *epochs,
        "--no-look",
        *searched.repeated,
        *searched.inputs,
    ]
