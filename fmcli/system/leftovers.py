"""Temporary files beside outputs: locked while their writer lives, so that the next run can tell whose writer is gone.

A killed process (SIGKILL, the kernel out of memory) cannot remove its file. The lock on a file ends with its writer,
whatever ended it; a run that writes to the same folder removes the files whose locks it gets. It looks only at files of
its own user that were made under the same kernel, for between hosts not every file system passes locks on; the name
says which kernel that was.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
import zlib
from contextlib import suppress
from functools import cache

# A number that every start of a kernel draws anew.
BOOT = "/proc/sys/kernel/random/boot_id"
NAME = re.compile(r"\.fmcli-([0-9a-f]{8})-[0-9a-f]{16}\.tmp")


def new_name(folder: str) -> str:
    """The path of a temporary file that does not exist yet."""
    return os.path.join(folder, f".fmcli-{kernel()}-{secrets.token_hex(8)}.tmp")


def create_locked(path: str) -> int:
    """Create a file that no other run removes as long as the descriptor, which is returned, is open, under whatever
    name. Raises OSError where that fails."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with suppress(OSError):  # of a file system without locks, where no run removes anything
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another run may have found and removed it before it was locked.
            if _is_file(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def remove_leftovers(folder: str) -> None:
    """Remove the temporary files of runs that were killed. What cannot be looked at or removed stays."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = NAME.fullmatch(entry.name)
            if found and found[1] == kernel():
                _remove_unlocked(entry.path)


@cache
def kernel() -> str:
    """Eight digits that tell the running kernel from others."""
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
            with suppress(OSError):  # of a file that is locked, too
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_file(path, descriptor):
                    os.unlink(path)
    finally:
        os.close(descriptor)


def _is_file(path: str, descriptor: int) -> bool:
    """Whether a path names the file that a descriptor has open."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
