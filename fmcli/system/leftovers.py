"""Temporary files in the folder of an output. A writer locks its file, so the next run can remove stale files.

A killed process (SIGKILL, or the kernel's out-of-memory killer) cannot remove its file, but its lock is released. A run
that writes to the same folder removes the files that it can lock. It considers only files of its own user that were
created under the same kernel, because not every file system shares locks between hosts. The file name identifies the
kernel.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import zlib
from contextlib import suppress
from functools import cache

# A random number that is new after each boot.
BOOT = "/proc/sys/kernel/random/boot_id"
NAME = re.compile(r"\.fmcli-([0-9a-f]{8})-[0-9a-f]{16}\.tmp")


def new_name(folder: str) -> str:
    """Return the path of a temporary file that does not exist yet."""
    return os.path.join(folder, f".fmcli-{kernel()}-{os.urandom(8).hex()}.tmp")


def create_locked(path: str) -> int:
    """Create a file that no other run removes, even if it is renamed, while the returned descriptor is open. Raises
    OSError if this fails."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with suppress(OSError):  # a file system without locks; no run removes anything there
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another run may have removed the file before it was locked.
            if names(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def remove_leftovers(folder: str) -> None:
    """Remove the temporary files of killed runs. Files that cannot be opened or removed stay."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = NAME.fullmatch(entry.name)
            if found and found[1] == kernel():
                _remove_unlocked(entry.path)


@cache
def kernel() -> str:
    """Return eight digits that identify the running kernel."""
    try:
        with open(BOOT, "rb") as file:
            identity = file.read()
    except OSError:
        identity = os.uname().nodename.encode()
    return f"{zlib.crc32(identity):08x}"


def _remove_unlocked(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            with suppress(OSError):  # also raised for a locked file
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if names(path, descriptor):
                    os.unlink(path)
    finally:
        os.close(descriptor)


def names(path: str, descriptor: int) -> bool:
    """Return whether a path names the file that the descriptor has open."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
