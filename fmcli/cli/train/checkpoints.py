"""The options of train that keep a run in a file, and continue it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fmcli.cli.files import CheckpointFile
from fmcli.cli.options import gathered, option, positive
from fmcli.errors import UsageError
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.training.checkpoint import Keeper

# Seconds between two checkpoints: a killed run loses no more work, and writing a gigabyte takes some hundredths of it.
EVERY = 600


@dataclass(frozen=True)
class CheckpointChoice:
    """The choices of a command.

    checkpoint : its path; None: there is none.
    checkpoint_every : seconds between two checkpoints; None: the usual time.
    resume : whether to continue the run of the checkpoint, if it exists.
    """

    checkpoint: str | None
    checkpoint_every: float | None
    resume: bool

    def check(self) -> None:
        """Raise UsageError if the checkpoint would overwrite a file."""
        if self.checkpoint == "-":
            raise UsageError("a checkpoint cannot be written to standard output; give a file name with --checkpoint")
        if self.checkpoint is not None and not self.resume and os.path.lexists(self.checkpoint):
            raise UsageError(
                f"{self.checkpoint} exists: --resume continues its run; remove it to train from the beginning, "
                "or name another file with --checkpoint"
            )

    @contextmanager
    def opened(self, log: Log, *, dry: bool = False) -> Iterator[Keeper]:
        """Open the keeper of the command's runs, which keeps nothing if the command does not train (`dry`). While it is
        open, no other command uses the checkpoint.

        Raises BusyError if another command uses it now, and the errors of Checkpoint.read.
        """
        from fmcli.training.checkpoint import Checkpoint, Keeper

        if self.checkpoint is None or dry:
            yield Keeper()
            return
        from fmcli.system.lock import locked

        with locked(self.checkpoint):
            checkpoint = Checkpoint(self.checkpoint, self.checkpoint_every or EVERY, warn=log.warning, written=log.line)
            if self.resume and os.path.exists(self.checkpoint):
                checkpoint.read()
            elif self.resume:
                log.line(f"there is no checkpoint {self.checkpoint} yet: training from the beginning")
            yield checkpoint


checkpoint_options = gathered(
    "checkpoint",
    CheckpointChoice,
    option(
        "run",
        "--checkpoint",
        type=CheckpointFile(),
        metavar="FILE",
        help="Keep the progress of training in this file, for --resume: from time to time (if the solver is not "
        "stochastic: after an epoch), and before SIGTERM or Ctrl-C end the run; a second signal ends it at once. The "
        "file is removed when the model has been written, unless --max-seconds ended the run.",
    ),
    option(
        "run",
        "--checkpoint-every",
        type=positive,
        metavar="SECONDS",
        help=f"Time between two checkpoints. [default: {EVERY}; > 0]",
    ),
    option(
        "run",
        "--resume",
        is_flag=True,
        help="Continue the run of --checkpoint; the model file will be the same as without an interruption. Data and "
        "options must be the same. If there is no checkpoint, train from the beginning.",
    ),
)
