"""A run of fmcli train that is kept in a file, and continued."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fmcli.errors import UsageError
from fmcli.registry.run_choices import CHECKPOINT_SECONDS

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.registry.choices import Choices
    from fmcli.training.checkpoint import Checkpointer


def check(choices: Choices) -> None:
    """Raise UsageError if the checkpoint would overwrite a file."""
    path = choices.checkpoint
    if path == "-":
        raise UsageError("a checkpoint cannot be written to standard output; give a file name with --checkpoint")
    if path is not None and not choices.resume and os.path.lexists(path):
        raise UsageError(
            f"{path} exists: --resume continues its run; remove it to train from the beginning, or name another file "
            "with --checkpoint"
        )


@contextmanager
def opened(log: Log, choices: Choices) -> Iterator[Checkpointer]:
    """Open the keeper of the command's runs, which keeps nothing if the command does not train. While it is open, no
    other command uses the checkpoint.

    Raises BusyError if another command uses it now, and the errors of Checkpoint.read.
    """
    from fmcli.training.checkpoint import Checkpoint, Checkpointer

    path = choices.checkpoint
    if path is None or choices.dry_run:
        yield Checkpointer()
        return
    from fmcli.system.lock import locked

    with locked(path):
        every = choices.checkpoint_every or CHECKPOINT_SECONDS
        checkpoint = Checkpoint(path, every, warn=log.warning, written=log.line)
        if choices.resume and os.path.exists(path):
            checkpoint.read()
        elif choices.resume:
            log.line(f"there is no checkpoint {path} yet: training from the beginning")
        yield checkpoint
