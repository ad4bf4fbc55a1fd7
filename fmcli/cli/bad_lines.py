"""What becomes of lines with errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmcli.errors import UsageError

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.data.text.faults import BadLines
    from fmcli.registry.choices import Choices

BAD_LINES = ("on_bad_line", "max_bad_lines")


def rule_of(choices: Choices, log: Log) -> BadLines:
    """Return the rule. Raises UsageError if the choices contradict each other."""
    if choices.on_bad_line == "error" and choices.max_bad_lines:
        raise UsageError("with --on-bad-line error, no line is skipped; leave out --max-bad-lines")
    from fmcli.data.text.faults import BadLines

    return BadLines(skips(choices), choices.max_bad_lines, log.warning, may_skip=True)


def skips(choices: Choices) -> bool:
    """Return whether lines with errors are skipped."""
    return choices.on_bad_line == "skip" or bool(choices.max_bad_lines)
