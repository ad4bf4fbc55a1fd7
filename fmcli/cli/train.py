"""fmcli train: from examples to a model file."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.options import (
    SectionCommand,
    check_files,
    format_option,
    logging_options,
    option,
    registered,
    threads_option,
)
from fmcli.cli.output import Log, clock, seconds
from fmcli.errors import UsageError
from fmcli.files import probe_output
from fmcli.registry import DEFAULT_MODEL, DEFAULT_SOLVER, LOSSES, MODELS, SOLVERS
from fmcli.specs import Spec, make_spec

if TYPE_CHECKING:
    from fmcli.data import Table
    from fmcli.training import Epoch, Plan, Trained

ENDING = ".fm"
USUAL_SOLVERS = ", ".join(
    [DEFAULT_SOLVER, *(f"{kind.name} {kind.solver}" for kind in MODELS.values() if kind.solver != DEFAULT_SOLVER)]
)


@click.command(
    cls=SectionCommand,
    name="train",
    short_help="Learn a model from examples.",
    examples=[
        "fmcli train train.libsvm                        writes train.libsvm.fm",
        "fmcli train -m shfm -s ftrl --l1 1 train.libsvm",
        "fmcli train -k 16 -e 20 -r 0.1 -o best.fm part1.ffm.gz part2.ffm.gz",
        "zcat day*.gz | fmcli train -o day.fm -",
    ],
    lists={
        title: [(piece.name, piece.help) for piece in table.values()]
        for title, table in (("Models", MODELS), ("Solvers", SOLVERS), ("Losses", LOSSES))
    },
    misread={"-v": "-v is the validation file, which this version does not take yet; --verbose says more"},
)
@click.argument("inputs", metavar="TRAIN...", nargs=-1, required=True)
@option("model", "-m", "--model", default=DEFAULT_MODEL, metavar="NAME", help=f"Model kind. [default: {DEFAULT_MODEL}]")
@registered("model")
@option("penalty", "--loss", metavar="NAME", help="Loss. [default: logistic for two label values, else squared]")
@registered("penalty")
@option("solver", "-s", "--solver", metavar="NAME", help=f"Solver. [default: {USUAL_SOLVERS}]")
@registered("solver")
@registered("run")
@format_option()
@threads_option()
@option("run", "--dry-run", is_flag=True, help="Read, say what training would take, and end.")
@option(
    "output",
    "-o",
    "--output",
    metavar="MODEL",
    help="Model file; an older one is replaced. [default: the first input's name with .fm, in the current folder]",
)
@logging_options
def command(
    inputs: tuple[str, ...],
    model: str,
    solver: str | None,
    loss: str | None,
    format: str,
    threads: int | None,
    dry_run: bool,
    output: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Learn a model from examples in libsvm or ffm text, which may be compressed. "-" is standard input; several files
    are read as one."""
    teach(model, solver)
    spec = make_spec(model, solver, loss, {name: value for name, value in options.items() if value is not None})
    output = output_path(inputs, output)
    check_files(inputs, output)
    if not dry_run:
        probe_output(output)
    with Log(quiet=quiet, verbose=verbose) as log:
        run(log, inputs, spec, output, format, threads, dry_run)


def teach(model: str, solver: str | None) -> None:
    """Say what letters mean here to who knows them from another tool. Raises UsageError."""
    if model not in MODELS and (os.sep in model or "." in model or os.path.isfile(model)):
        raise UsageError(f"-m is the model kind; the model file is -o: -o {model}")
    if solver is not None and solver.isdecimal():
        raise UsageError(f"-s is the solver; threads are -j: -j {solver}")


def output_path(inputs: tuple[str, ...], output: str | None) -> str:
    """The model file: as named, or named after the first input. Raises UsageError where neither gives a file."""
    if output == "-":
        raise UsageError("a model cannot be written to standard output; name a file with -o")
    if output is not None:
        return output
    if inputs[0] == "-":
        raise UsageError("standard input gives the model no name; name its file with -o")
    return os.path.basename(inputs[0].rstrip(os.sep)) + ENDING


def run(
    log: Log, inputs: tuple[str, ...], spec: Spec, output: str, format: str, threads: int | None, dry_run: bool
) -> None:
    """Read, train and save."""
    from fmcli import training
    from fmcli.data import read
    from fmcli.machine import cpu_count
    from fmcli.prediction import save_model

    begin = time.perf_counter()
    threads = threads or cpu_count()
    log.detail(f"{threads} threads")
    log.progress(f"reading {inputs[0]}")
    table = read(inputs, format=format, threads=threads)
    say_read(log, inputs, table, time.perf_counter() - begin)
    plan = training.plan(table.dataset, spec)
    say_plan(log, plan, spec)
    if dry_run:
        log.table(**sizes(table, plan), **needs(table, plan))
        return
    progress = Progress(log, spec.values["epochs"], table.dataset.rows)
    trained = training.train(plan, on_epoch=progress.epoch, on_rows=progress.rows)
    log.progress(f"writing {output}")
    save_model(output, trained, training.summary(trained), table.format)
    log.table(
        **sizes(table, plan, trained),
        sparsity=f"{trained.sparsity():.4f}",
        **({"loss": f"{trained.epochs[-1].loss:.6f}"} if trained.epochs else {}),
        seconds=f"{time.perf_counter() - begin:.3f}",
        model=output,
    )


def say_read(log: Log, inputs: tuple[str, ...], table: Table, took: float) -> None:
    """What was read, and what is odd about it."""
    others = f" and {len(inputs) - 1} more" if len(inputs) > 1 else ""
    data = table.dataset
    log.line(
        f"read {inputs[0]}{others}: {data.rows:,} rows, {data.nnz:,} non-zeros, {data.features:,} features, "
        f"{table.format}, {seconds(took)}, {table.bytes / 1e6 / max(took, 1e-9):.0f} MB/s"
    )
    if table.repeated_rows:
        rows = "1 row has" if table.repeated_rows == 1 else f"{table.repeated_rows:,} rows have"
        log.warning(f"{rows} an index more than once; the values of such an index were added")


def say_plan(log: Log, plan: Plan, asked: Spec) -> None:
    """What will be trained, and why so."""
    spec = plan.spec
    if plan.labels.values:
        reason = f"the labels have two values, {plan.labels.values[0]:g} and {plan.labels.values[1]:g}"
    else:
        reason = "the labels have more than two values"
    log.line(f"loss {spec.loss}: {reason if asked.loss is None else 'as asked for'}")
    log.line(f"model {spec.model}, solver {spec.solver}, {plan.model.parameter_count:,} parameters")
    for name, value in spec.values.items():
        log.detail(f"{name} {value}")


def sizes(table: Table, plan: Plan, trained: Trained | None = None) -> dict[str, str]:
    """Figures of data and model."""
    data = table.dataset
    features = f"{data.features:,}"
    if trained is not None and not trained.seen.all():
        features += f" ({int(trained.seen.sum()):,} occur)"
    return {
        "rows": f"{data.rows:,}",
        "non_zeros": f"{data.nnz:,}",
        "features": features,
        "parameters": f"{plan.model.parameter_count:,}",
    }


def needs(table: Table, plan: Plan) -> dict[str, str]:
    """What training would take: bytes beyond the rows, which are in memory already, and what can be had."""
    from fmcli.memory import available, human_bytes

    return {"memory": f"{human_bytes(plan.bytes)} needed", "available": human_bytes(available())}


class Progress:
    """Epochs as lines of the log, and their rows as its progress line."""

    def __init__(self, log: Log, epochs: int, rows: int) -> None:
        self._log, self._epochs, self._rows = log, epochs, rows
        self._begin = time.perf_counter()

    def epoch(self, epoch: Epoch) -> None:
        """Say the figures of an epoch."""
        self._log.line(
            f"epoch {epoch.number:>{len(str(self._epochs))}}  loss {epoch.loss:.6f}  penalty {epoch.penalty:.6f}  "
            f"{seconds(epoch.seconds)}"
        )

    def rows(self, epoch: int, rows: int) -> None:
        """Say how far an epoch is, how fast it goes and how long all will take."""
        if self._log.due():
            done = (epoch - 1) * self._rows + rows
            speed = done / (time.perf_counter() - self._begin)
            left = (self._epochs * self._rows - done) / speed
            self._log.progress(
                f"epoch {epoch}/{self._epochs}  {100 * rows // self._rows} %  {speed:,.0f} rows/s  {clock(left)} left"
            )
