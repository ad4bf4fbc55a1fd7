"""The options of train for the files that it writes."""

from __future__ import annotations

from dataclasses import dataclass

import click

from fmcli.cli.options import gathered, option
from fmcli.errors import UsageError
from fmcli.system.addresses import base_name

ENDING = ".fm"


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

    def path(self, inputs: tuple[str, ...]) -> str:
        """Return the path of the model file: as given, or derived from the first input. Raises UsageError if there is
        no name."""
        if self.output == "-":
            raise UsageError("a model cannot be written to standard output; give a file name with -o")
        if self.output is not None:
            return self.output
        if inputs[0] == "-":
            raise UsageError("standard input does not give the model a file name; use -o FILE")
        return base_name(inputs[0]) + ENDING


output_options = gathered(
    "written",
    OutputChoice,
    option(
        "output",
        "-o",
        "--output",
        metavar="MODEL",
        help="Model file; an existing file is replaced. [default: the first input's name with .fm, in the current "
        "folder]",
    ),
    option(
        "output",
        "--keep-state/--no-keep-state",
        default=None,
        help="Save the state of a stochastic solver in the model, so that -i continues with steps of the same size. "
        "[default: yes, if it takes at most 16 MiB, or with -i 256 MiB]",
    ),
    option(
        "output",
        "--log-json",
        metavar="FILE",
        help="Write the figures of each epoch and of the model as lines of JSON.",
    ),
    option(
        "output",
        "--log-every",
        type=click.IntRange(min=1),
        metavar="N",
        help="Print the running mean loss every N rows (whole batches). [default: never; >= 1]",
    ),
)
