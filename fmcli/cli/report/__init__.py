"""fmcli report: its options, and the sections of the page."""

from fmcli.cli.report.command import command

__all__ = ["command"]
