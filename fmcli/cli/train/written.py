"""The options of train for the files that it writes."""

from __future__ import annotations

import click

from fmcli.cli.files import LOG, MODEL, OutputFile
from fmcli.cli.options import gathered, option
from fmcli.records import dataclass


@dataclass(frozen=True)
class OutputChoice:
    """The files that a run writes.

    output : of the model; None: named after the first input.
    keep_state : whether the model file has the state of the solver; None: if it is small.
    log_json : of the figures as JSON; None: there is none.
    log_every : the number of rows after which the running mean loss is printed; None: never.
    """

    output: str | None
    keep_state: bool | None
    log_json: str | None
    log_every: int | None


output_options = gathered(
    "written",
    OutputChoice,
    option(
        "output",
        "-o",
        "--output",
        type=OutputFile(MODEL),
        metavar="MODEL",
        help="Model file; an existing file is replaced. [default: the first input's name with .fm, in the current "
        "folder]",
    ),
    option(
        "output",
        "--keep-state/--no-keep-state",
        default=None,
        help="Save what -i needs in the model: the state of a stochastic solver, so that it continues with steps of "
        "the same size; of one with --init-strength, the summary of the rows. [default: yes, if it takes at most 256 "
        "MiB]",
    ),
    option(
        "output",
        "--log-json",
        type=OutputFile(LOG),
        metavar="FILE",
        help="Write the figures of each epoch and of the model as lines of JSON. A file is in place when the command "
        'ends, also with an error; "-", standard output, and a pipe get each line at once.',
    ),
    option(
        "output",
        "--log-every",
        type=click.IntRange(min=1),
        metavar="N",
        help="Print the running mean loss every N rows (whole batches). [default: never; >= 1]",
    ),
)
