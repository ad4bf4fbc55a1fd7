"""fmcli inspect: show the properties of a model, and what it has learned."""

from __future__ import annotations

import click

from fmcli.cli.options import LogChoice, SectionCommand, check_files, logging_options, option
from fmcli.cli.output import Log, write_report
from fmcli.cli.report import as_json, section

TOP = 10


@click.command(
    cls=SectionCommand,
    name="inspect",
    examples=[
        "# The properties of the model, its training, and what it learned.",
        "fmcli inspect train.libsvm.fm",
        "# Longer lists, as JSON.",
        "fmcli inspect --top 50 --json train.libsvm.fm",
        "# Verify all checksums of the file.",
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
    help=f"Length of each list of features, in decreasing order of absolute values. [default: {TOP}; >= 0]",
)
@option(
    "run",
    "--verify",
    is_flag=True,
    help="Verify all checksums; by default only that of the header if a model is larger than 256 MB.",
)
@option("output", "--json", is_flag=True, help="Print one JSON object; undefined values are null.")
@logging_options
def command(model: str, top: int, verify: bool, json: bool, logging: LogChoice) -> None:
    """Show the kind of a model, its options, training summary and arrays, and what it has learned about features."""
    check_files([model])
    with logging.opened() as log:
        run(log, model, top, verify, json)


def run(log: Log, path: str, top: int, verify: bool, json: bool) -> None:
    """Load the model, inspect it, and write the figures."""
    from fmcli.data.sources import size_on_disk
    from fmcli.inspect.inspection import inspect_model, views

    subject = inspect_model(path, top=top, verify=verify)
    size = size_on_disk(path)
    if subject.verified:
        log.line(f"{path}: {size:,} bytes, all checksums match")
    else:
        log.line(f"{path}: {size:,} bytes, the checksum of the header matches; use --verify to check the rest")
    found = list(views(subject))
    if json:
        write_report(as_json({view.name: figures for view, figures in found}))
    else:
        write_report("".join(section(figures, view.title) for view, figures in found))
