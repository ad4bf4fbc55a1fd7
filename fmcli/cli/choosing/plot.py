"""fmcli plot: draw the logs of runs as SVG."""

from __future__ import annotations

import click

from fmcli.cli.choices import with_choices
from fmcli.cli.files import FIGURE, InputFile, check_files
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, option
from fmcli.cli.output import open_sink
from fmcli.cli.rows.prepared import output_option
from fmcli.drawing.logs import KINDS
from fmcli.errors import UsageError
from fmcli.registry.choices import Choices
from fmcli.registry.run_choices import METRIC_NAMES


@click.command(
    cls=SectionCommand,
    name="plot",
    examples=[
        "# Learning curves of two runs with --log-json.",
        "fmcli plot -o curves.svg fm.json ffm.json",
        "# Reports of evaluate --json --calibration.",
        "fmcli plot -o calibration.svg fm-report.json ffm-report.json",
    ],
)
@click.argument("files", type=InputFile(), metavar="FILE...", nargs=-1, required=True)
@option(
    "run",
    "--show",
    type=click.Choice(list(KINDS)),
    metavar="NAME",
    names=KINDS,
    help="What to draw: " + "; ".join(f"{name}: {text}" for name, text in KINDS.items()) + ". [default: learning, or "
    "calibration for reports of it]",
)
@option(
    "run",
    "-x",
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    names=("loss", *METRIC_NAMES),
    help="Metric to draw, in a panel of its own; may be repeated. [default: all that the files have]",
)
@output_option(FIGURE)
@with_choices(*LOGGING)
def command(
    files: tuple[str, ...], show: str | None, metrics: tuple[str, ...], output: str | None, choices: Choices
) -> None:
    """Draw figures from the logs of train --log-json or cv --log-json, or from reports of evaluate --json
    --calibration, as SVG. Folds are averaged."""
    from fmcli.drawing.curves import svg
    from fmcli.drawing.logs import figure, read

    if len(set(files)) < len(files):
        raise UsageError("a file is given twice")
    check_files()
    with log_of(choices) as log:
        drawn = svg(figure({path: read(path) for path in files}, show, metrics))
        with open_sink(output) as sink:
            sink.write(drawn.encode())
        if output is not None:
            log.line(f"{output}: {len(drawn):,} bytes")
