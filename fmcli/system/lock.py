"""A lock file beside another file, which only one run at a time may use."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from fmcli.errors import BusyError, OutputError, UsageError
from fmcli.system.interrupt import Temporary
from fmcli.system.leftovers import names

# The errno of opening the lock file's name if something other than a file has it.
NO_FILES = (errno.ELOOP, errno.EISDIR, errno.ENXIO)


def lock_of(path: str) -> str:
    """Return the path of a file's lock file. The file itself cannot be locked, because each new version is another
    file."""
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.fmcli-lock")


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file, which need not exist. On a file system without locks, nothing is locked.

    The lock file, possibly left by a killed run, is removed while it is locked: after the context, or by a signal. It
    stays if something has been written to it, or if another run made it and the file system has no locks.

    Raises BusyError if another process holds the lock, UsageError if something other than a lock file has its name, and
    OutputError if no lock file can be made.
    """
    beside = lock_of(path)
    descriptor, ours = _lock(path, beside)
    with Temporary(beside, descriptor) if ours else nullcontext():
        try:
            yield
        finally:
            with suppress(OSError):
                empty = os.fstat(descriptor).st_size == 0
                if ours and empty and names(beside, descriptor):  # otherwise another file is there now
                    os.unlink(beside)
            os.close(descriptor)


def _lock(path: str, beside: str) -> tuple[int, bool]:
    """Return the descriptor of the lock file, and whether it is locked or new."""
    while True:
        descriptor, made = _open(path, beside)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise BusyError(f"{path}: another run is using it; wait until it has ended") from error
        except OSError:  # the file system has no locks
            return descriptor, made
        if names(beside, descriptor):  # otherwise the run that held the lock has removed the file
            return descriptor, True
        os.close(descriptor)


def _open(path: str, beside: str) -> tuple[int, bool]:
    """Return the descriptor of the lock file, and whether it is new. An existing lock file is an empty regular file,
    not a link; any other file is not fmcli's."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            with suppress(FileExistsError):
                return os.open(beside, flags | os.O_CREAT | os.O_EXCL, 0o666), True
            descriptor = os.open(beside, flags)
        except FileNotFoundError as error:
            if not os.path.isdir(os.path.dirname(beside)):
                raise OutputError(f"{path}: cannot be written: its folder does not exist") from error
            continue  # the run that held the lock has removed the file
        except OSError as error:
            if error.errno in NO_FILES:
                raise _foreign(path, beside) from error
            raise OutputError(f"{path}: its lock file {beside} cannot be written: {error.strerror}") from error
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
            return descriptor, False
        os.close(descriptor)
        raise _foreign(path, beside)


def _foreign(path: str, beside: str) -> UsageError:
    return UsageError(
        f"{beside} has the name of the lock file of {path}, but is not an empty regular file; move it, or give {path} "
        "another name"
    )
