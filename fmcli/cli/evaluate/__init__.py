"""fmcli evaluate: its options, the measuring, the comparison with another model, and the report."""

from fmcli.cli.evaluate.command import command

__all__ = ["command"]
