"""fmcli report: write a page about a model, its errors on labeled rows, and the logs of runs."""

from __future__ import annotations

import click

from fmcli.cli.choices import AS_IN_TRAINING, with_choices
from fmcli.cli.evaluate.options import metric_option, ranking_options
from fmcli.cli.evaluate.request import EvaluateRequest
from fmcli.cli.files import FIGURE, MODEL, InputFile, check_files, kind_of
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, given, option, output_option
from fmcli.cli.output import open_sink
from fmcli.drawing.logs import KINDS
from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.registry.choices import Choices
from fmcli.registry.modes import check_modes

GROUPS = {"help": "Column or field of the groups of rows, as in evaluate. [default: qid:N after the label]"}


@click.command(
    cls=SectionCommand,
    name="report",
    examples=[
        "# A model, its errors on new rows, and how it was trained.",
        "fmcli report -o report.html train.csv.fm test.csv --log run.json",
        "# How many of the items that users chose are among their best, with a model of observed pairs.",
        "fmcli report -o report.html pairs.csv.fm new.csv --over items.csv",
        "# The logs of two runs beside each other.",
        "fmcli report -o curves.html --log fm.json ffm.json",
    ],
)
@click.argument("paths", type=InputFile(), metavar="[MODEL [DATA...]]", nargs=-1)
@option(
    "run",
    "--log",
    "logs",
    type=InputFile(),
    metavar="FILE...",
    multiple=True,
    help="A log of train, cv or tune (--log-json), a study, or the output of evaluate --json --calibration. Without a "
    "MODEL, the files that follow are logs, too.",
)
@option(
    "run",
    "--show",
    type=click.Choice(list(KINDS)),
    metavar="NAME",
    names=KINDS,
    help="With --log: what to draw: " + ", ".join(KINDS) + ". [default: what each file has]",
)
@metric_option("run", "With --log: a metric to draw; may be repeated. [default: all that the files have]")
@ranking_options(
    over="Rank the items in FILE for each user of DATA, as evaluate --over does.",
    seen="With --over: leave out a user's items in FILE, as evaluate --seen does; may be repeated.",
    relevant="With --over: rows with a label of at least X are relevant. [default: a positive label, or the larger of "
    "two]",
)
@option("output", "--svg", is_flag=True, help="With --log: write only the figure, as SVG.")
@output_option(FIGURE)
@with_choices("format", "join", "threads", *LOGGING, group_field=GROUPS, missing_values=AS_IN_TRAINING)
def command(
    paths: tuple[str, ...],
    logs: tuple[str, ...],
    show: str | None,
    metrics: tuple[str, ...],
    over: str | None,
    seen: tuple[str, ...],
    relevant: float | None,
    svg: bool,
    output: str | None,
    choices: Choices,
) -> None:
    """Write one HTML file about a MODEL that a browser shows without a network: what it is, what it has learned and,
    with the labeled rows of DATA, how good it is and where it is wrong. With --log, also how it was trained; or only
    that, of several runs beside each other."""
    check_modes(given())
    if logs and not (paths and kind_of(paths[0]) == MODEL):
        paths, logs = (), (*logs, *paths)
    model, *inputs = paths or (None,)
    if not paths and not logs:
        raise UsageError("missing argument 'MODEL', or logs of runs with --log")
    if len(set(logs)) < len(logs):
        raise UsageError("a file is given twice")
    if svg and model:
        raise UsageError("--svg draws logs, and not a model", svg=LEAVE_OUT)
    if over is not None and not inputs:
        raise UsageError("--over ranks items for the users of DATA; give these rows after the MODEL")
    if relevant is not None and over is None:
        raise UsageError("--relevant needs --over; give both, or leave --relevant out")
    check_files()
    from fmcli.cli.report.sections import written
    from fmcli.drawing import curves
    from fmcli.drawing.logs import figure, read

    request = EvaluateRequest(model, tuple(inputs), choices, over=over, seen=seen, relevant=relevant)
    with log_of(choices) as log:
        events = {path: read(path) for path in logs}
        draw = show, metrics
        drawn = curves.svg(figure(events, *draw)) if svg else written(log, request, events, draw)
        with open_sink(output) as sink:
            sink.write(drawn.encode())
        if output is not None:
            log.line(f"{output}: {len(drawn.encode()):,} bytes")
