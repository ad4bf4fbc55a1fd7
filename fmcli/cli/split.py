"""fmcli split: split the rows of a file at random."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction

import click

from fmcli.cli.options import LogChoice, SectionCommand, logging_options, option
from fmcli.cli.prepared import check_paths, log_written, seed_option, written_to
from fmcli.errors import UsageError

FEWEST = 2  # outputs
LONGEST_QUOTE = 40  # characters of a line


def positive_shares(value: str) -> tuple[Fraction, ...]:
    """Return the type of --shares: positive numbers with slashes between them."""
    try:
        found = tuple(map(Fraction, value.split("/")))
    except (ValueError, ZeroDivisionError):
        found = ()
    if not found or min(found) <= 0:
        raise click.BadParameter(f"{value!r} is not a list of positive numbers such as 8/2")
    return found


@click.command(
    cls=SectionCommand,
    name="split",
    examples=[
        "# Four fifths of the rows for training, the others for testing.",
        "fmcli split --shares 8/2 all.libsvm train.libsvm test.libsvm",
        "# Five folds of equal size; train on four of them, and validate on the fifth.",
        "fmcli split all.libsvm 1.libsvm 2.libsvm 3.libsvm 4.libsvm 5.libsvm",
        "# Rows from a pipe.",
        "zcat all.libsvm.gz | fmcli split --shares 0.9/0.1 - train.libsvm test.libsvm",
    ],
)
@click.argument("source", metavar="INPUT")
@click.argument("outputs", metavar="OUTPUT OUTPUT [OUTPUT...]", nargs=-1, required=True)
@option(
    "run",
    "--shares",
    type=positive_shares,
    metavar="X/Y[/...]",
    help="The shares of the outputs, relative to their sum. [default: equal shares]",
)
@seed_option
@option("run", "--header", is_flag=True, help="The first line is the header of a table; every output begins with it.")
@logging_options
def command(
    source: str,
    outputs: tuple[str, ...],
    shares: tuple[Fraction, ...] | None,
    seed: int,
    header: bool,
    logging: LogChoice,
) -> None:
    """Split the rows of a file or of standard input (-) at random into two or more files. Each row is written to one of
    them, unchanged and in the order of the input; blank lines and comments are left out.

    Rows are split in chunks of 262,144, which bounds the memory; the shares are exact in each chunk. The log has the
    number of rows and the SHA-256 digest of each output: the same input and seed give the same files."""
    if len(outputs) < FEWEST:
        raise UsageError("split needs two or more outputs, such as train.libsvm test.libsvm")
    if shares is not None and len(shares) != len(outputs):
        raise UsageError(f"--shares has {len(shares)} numbers, but there are {len(outputs)} outputs")
    check_paths([source], outputs)
    from fmcli.prepare.split import split

    with logging.opened() as log:
        with ExitStack() as stack:
            sinks = [stack.enter_context(written_to(path)) for path in outputs]
            found = split(source, sinks, shares or (Fraction(1),) * len(outputs), seed, header)
        if found.skipped:
            log.line(f"left out {found.skipped:,} blank lines and comments")
        if found.header:
            log.warning(
                f"the first line, {found.header[:LONGEST_QUOTE]!r}, looks like the header of a table, but was split "
                "like a row; with --header, every output begins with it"
            )
        for path, sink in zip(outputs, sinks, strict=True):
            log_written(log, path, sink)
            if not sink.rows:
                log.warning(f"{path} has no rows")
