"""A lock file beside another file, so that only one run at a time uses that file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fmcli.errors import BusyError, OutputError
from fmcli.system.interrupt import Temporary
from fmcli.system.leftovers import names

# The ending of the lock file. The file itself cannot be locked, because each new version of it is another file.
ENDING = ".lock"


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file, which need not exist. On a file system without locks, nothing is locked.

    The lock file is removed after the block, and by signals. That of a killed run stays, but is not locked any more.

    Raises BusyError if another process has it, OutputError if there can be no lock file.
    """
    beside = os.path.realpath(path) + ENDING
    descriptor = _lock(path, beside)
    with Temporary(beside):
        try:
            yield
        finally:
            with suppress(OSError):
                os.unlink(beside)
            os.close(descriptor)


def _lock(path: str, beside: str) -> int:
    while True:
        try:
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise OutputError(f"{path}: its lock file {beside} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise BusyError(f"{path}: another run is using it; wait until it has ended") from error
        except OSError:  # the file system has no locks
            return descriptor
        if names(beside, descriptor):  # else the run that had the lock has removed the file
            return descriptor
        os.close(descriptor)
