"""How much a command prints."""

from __future__ import annotations

from fmcli.cli.options import option
from fmcli.cli.output import Log, stamp_lines
from fmcli.registry.choices import Choices

log_time_option = option(
    "output",
    "--log-time",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, parameter, on: stamp_lines(on),
    help="Begin each line of the log, warnings and errors included, with the time (UTC).",
)
# The options of commands that have a log.
LOGGING = ("quiet", "verbose", log_time_option)


def log_of(choices: Choices, *, progress: bool = True) -> Log:
    """Return the log. progress : whether it may show the progress on a terminal."""
    return Log(quiet=choices.quiet, verbose=choices.verbose, progress=progress)
