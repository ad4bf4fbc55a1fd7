"""fmcli tune: the search for a kind, a solver and options of train."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fmcli.choosing.request import SearchRequest, SearchResult
from fmcli.choosing.study import trial_event
from fmcli.choosing.tuning import chosen_options, tuned, winner_of
from fmcli.cli.bad_lines import rule_of
from fmcli.cli.choosing.searched import SEARCHED, Searched, TuneCommand
from fmcli.cli.files import MODEL, STUDY, CommandFile, OutputFile
from fmcli.cli.flags import option_words
from fmcli.cli.logging import log_of
from fmcli.cli.options import gathered, model_path, option
from fmcli.cli.output import Lines, Log, clock, open_lines, write_report
from fmcli.cli.train.command import COMPONENTS, inputs_argument, training_choices
from fmcli.cli.train.command import command as train_command
from fmcli.cli.train.log import log_memory
from fmcli.cli.train.progress import epoch_event
from fmcli.cli.train.request import Request, request_of
from fmcli.cli.train.rows import plan_rows
from fmcli.cli.train.tables import with_tables
from fmcli.cli.train.tries import log_quick_search, log_trials
from fmcli.records import dataclass
from fmcli.registry.choices import Choices
from fmcli.registry.modes import FOLDS, TUNE
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import SAMPLERS, TRIALS
from fmcli.text import counted, figure, shell_word

if TYPE_CHECKING:
    from fmcli.choosing.candidates import Candidate
    from fmcli.choosing.quick_search import TriedValue
    from fmcli.choosing.search import Search
    from fmcli.data.text.faults import BadLines
    from fmcli.training.planning import Plan


@dataclass(frozen=True)
class SearchChoice:
    """How much is tried, and on which rows it is compared; see the options."""

    trials: int | None
    sampler: str
    path: int | None
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
        "run",
        "--path",
        type=click.IntRange(min=2),
        metavar="N",
        help="In place of a search, train models of N strengths of a penalty, from weak to strong, each from the "
        "parameters of the one before, and show metrics and shares of zeros. The penalty is the option with a range, "
        "or the penalty of a sparse kind. [default: none; >= 2]",
    ),
    option(
        "validation",
        "--folds",
        type=click.IntRange(min=1),
        metavar="K",
        help="Compare on K folds of the rows, each held out in turn; 1 holds out rows once. [default: 5, "
        "1 of more than 50,000 rows; >= 1]",
    ),
    option(
        "output",
        "--study",
        type=OutputFile(STUDY),
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
@inputs_argument
@training_choices
def command(inputs: tuple[str, ...], choices: Choices, search: SearchChoice) -> None:
    """Search for a kind of model, a solver and options that predict rows better that training has not seen, and print
    the command that trains the best model. Options are as in train; an option may have several values, as A,B,C, or a
    range, as A..B.

    First, the usual options of several kinds and solvers are compared; then options are drawn for the best ones. Trials
    that are worse end early. Files of test data are never read."""
    context = click.get_current_context()
    searched: Searched = context.meta[SEARCHED]
    begin = time.perf_counter()
    deadline = None if choices.max_seconds is None else begin + choices.max_seconds
    wanted = SearchRequest(**vars(search), ranges=searched.ranges, deadline=deadline)
    # A single fold is what --holdout says.
    choices = choices.changed(max_seconds=None, holdout=wanted.held or choices.holdout)
    refit = searched.refit or (searched.refit is None and searched.output)
    model = [CommandFile(model_path(searched.output, inputs[0]), OutputFile(MODEL))] if refit and inputs else []
    folds = {FOLDS: search.folds and (search.folds > 1 or searched.valid)}
    request = request_of(inputs, choices, TUNE, beside=folds, files=model)
    others = tuple(searched.kinds[1:]) if searched.kinds else request.settings.alternatives
    # With an alternative, even if it is the same, as many rows are held out as a comparison needs.
    request = replace(request, settings=replace(request.settings, alternatives=others or (request.settings.spec,)))
    with log_of(choices) as log:
        with planned(log, request, rule_of(choices, log)) as (request, plan):
            words = run(log, request, plan, searched, wanted)
        write_report(" ".join(map(shell_word, ["fmcli", "train", *words])) + "\n")
        if refit:
            own = ["-q"] * log.quiet + ([] if searched.threads is None else ["-j", searched.threads])
            output = [] if searched.output is None else ["-o", searched.output]
            log.line("training the best one on all rows")
            assert context.parent
            with train_command.make_context("train", [*own, *output, *words], parent=context.parent) as training:
                train_command.invoke(training)


@contextmanager
def planned(log: Log, request: Request, bad: BadLines) -> Iterator[tuple[Request, Plan]]:
    """Yield the request as its rows were read, and the plan of the usual run, on this machine or on a cluster, where a
    run has all workers."""
    if request.cluster is None:
        request = with_tables(log, request, one_way=True)
        yield request, plan_rows(log, request, bad).plan
        return
    from fmcli.cli.train.cluster import plan_on_cluster

    with request.cluster.connected(log) as cluster:
        request = with_tables(log, request, cluster, one_way=True)
        yield request, plan_on_cluster(log, request, bad, cluster).plan


def run(log: Log, request: Request, plan: Plan, searched: Searched, wanted: SearchRequest) -> list[str]:
    """Search, and return the arguments of the command that trains the best model."""
    with open_lines(request.choices.log_json) as lines:
        progress = TrialLog(log, lines, wanted, request)
        chosen, found = tuned(plan, wanted, progress.begin, progress.trial)
    if found.late:
        log.line("the time is over (--max-seconds): a faster machine may find another result")
    log_trials(log, found.trials, of_path=wanted.path is not None)
    best = winner_of(chosen, searched.ranges)
    solver = [] if best.solver is None else ["-s", best.solver]
    epochs = [] if best.epochs is None else ["--holdout", "0", "-e", str(best.epochs)]
    words = ["-m", best.model, *solver, *option_words(best.options), *epochs, "--no-quick-search"]
    return [*words, *searched.repeated, *searched.inputs]


class TrialLog:
    """Logs the trials of a search."""

    def __init__(self, log: Log, lines: Lines, wanted: SearchRequest, request: Request) -> None:
        self._log, self._lines, self._wanted, self._request = log, lines, wanted, request
        self._begin, self._seen = time.perf_counter(), set[int]()
        self._best = float("inf")
        self._shown = ""

    def begin(self, search: Search, tried: Sequence[TriedValue], known: int) -> None:
        """Log the kinds, solvers and ranges of the search."""
        log_quick_search(self._log, SearchResult(values=tried))
        validation, trials = search.plan.validation, self._wanted.most
        assert validation is not None
        rows = f"{validation.count:,} {'held-out' if validation.held_out else 'validation'} rows"
        self._log.line(
            (f"{trials} trials" if trials else "trials until the time is over")
            + f", compared by {validation.chooser} on {rows}"
            + (f" of each of {search.folds} folds" if search.folds > 1 else "")
            + (", in stretches of consecutive rows" if search.stretched else "")
        )
        for spec in (search.plan.spec, *search.plan.settings.alternatives):
            lacking = [OPTIONS[name].flag for name in self._wanted.ranges if not spec.takes(name)]
            if lacking:
                self._log.line(f"{spec.model} {spec.solver} has no {' and no '.join(lacking)}")
        if known:
            self._log.line(f"{known} of them are in the study already")
        if trials is None:
            self._log.line("a faster machine makes more trials, and may find another result")
        log_memory(self._log, search.memory, self._request)
        self._begin = time.perf_counter()

    def trial(self, candidate: Candidate) -> None:
        """Log the result of a trial."""
        for fold, epoch in candidate.news:
            self._lines(json.dumps(epoch_event(epoch, trial=candidate.number, fold=fold + 1), allow_nan=False))
        took = {"seconds": time.perf_counter() - self._begin}
        self._lines(json.dumps({**trial_event(candidate.record()), **took}, allow_nan=False))
        self._seen.add(candidate.number)
        reached = candidate.reached.value
        value = "failed" if reached is None else f"{candidate.chooser} {figure(reached)}"
        better = candidate.share == 1 and candidate.rank() < self._best
        if better and reached is not None:
            self._best, self._shown = candidate.rank(), f"best {figure(reached)}"
        if better or self._log.verbose:
            spec = candidate.plan.spec
            words = [spec.model, spec.solver, *option_words(chosen_options(candidate, {}))]
            self._log.line(
                f"trial {candidate.number:>3}  {' '.join(words)}  {counted(candidate.reached.epochs, 'epoch')}"
                + (f" of 1/{candidate.share} of the rows" if candidate.share > 1 else "")
                + f"  {value}"
                + ("  best so far" if better else "")
            )
        elif self._log.due():
            self._log.progress(f"trial {candidate.number}  {value}  {self._shown}{self._left()}")

    def _left(self) -> str:
        now = time.perf_counter()
        if self._wanted.deadline is not None:
            left = self._wanted.deadline - now
        else:
            assert self._wanted.most is not None
            left = (now - self._begin) / len(self._seen) * max(0, self._wanted.most - len(self._seen))
        return f"  {clock(max(0.0, left))} left"
