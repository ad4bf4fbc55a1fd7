"""fmcli train: its options and their checks, the rows, the run, and the log."""

from fmcli.cli.train.command import command

__all__ = ["command"]
