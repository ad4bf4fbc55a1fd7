"""fmcli inspect: what a model is and what it has learned."""

from __future__ import annotations

from pathlib import Path

import click

from fmcli.cli.options import SectionCommand, check_files, logging_options, option
from fmcli.cli.output import Log, write_report
from fmcli.cli.report import as_json, section

TOP = 10


@click.command(
    cls=SectionCommand,
    name="inspect",
    short_help="Say what a model is and what it has learned.",
    examples=[
        "# What it is, what it was trained on, what it learned.",
        "fmcli inspect train.libsvm.fm",
        "# More of what it learned, for a program.",
        "fmcli inspect --top 50 --json train.libsvm.fm",
        "# All of the file is compared with its checksums.",
        "fmcli inspect --verify large.fm",
    ],
)
@click.argument("model", metavar="MODEL")
@option(
    "run",
    "--top",
    type=click.IntRange(min=0),
    default=TOP,
    metavar="N",
    help=f"Features in a list, those of the largest absolute values. [default: {TOP}; >= 0]",
)
@option("run", "--verify", is_flag=True, help="Check all of the file; else only the header of models above 256 MB.")
@option("output", "--json", is_flag=True, help="One JSON object; what is undefined is null.")
@logging_options
def command(model: str, top: int, verify: bool, json: bool, quiet: int, verbose: bool) -> None:
    """Write a model's kind, options, training summary, arrays, and what it learned about which feature."""
    check_files([model])
    with Log(quiet=quiet, verbose=verbose) as log:
        run(log, model, top, verify, json)


def run(log: Log, path: str, top: int, verify: bool, json: bool) -> None:
    """Load, look, write."""
    from fmcli.inspect.inspection import inspect_model, views

    subject = inspect_model(path, top=top, verify=verify)
    size = Path(path).stat().st_size
    if subject.verified:
        log.line(f"{path}: {size:,} bytes, all of which match their checksums")
    else:
        log.line(f"{path}: {size:,} bytes, whose header matches its checksum; --verify checks the rest")
    found = list(views(subject))
    if json:
        write_report(as_json({view.name: figures for view, figures in found}))
    else:
        write_report("".join(section(figures, view.title) for view, figures in found))
