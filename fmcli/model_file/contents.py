"""The bytes of a model file in memory: a copy, or a mapping of a large local file.

A copy does not change if the file is overwritten or truncated while the model is in use. In a mapping, the pages of a
truncated file disappear: a process that touches one gets SIGBUS, which the command handles (fmcli.system.interrupt).
Replacing a file by renaming another one is safe in either case.
"""

import errno
import mmap
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from fmcli.data.text.sources import size_on_disk
from fmcli.errors import BadInputError, MissingInputError, NotEnoughMemoryError
from fmcli.system.addresses import is_remote
from fmcli.system.memory import human_bytes, require_if_large

MOST_COPIED = 256 * 1024 * 1024  # bytes; larger files are mapped


Wanted = Callable[[memoryview], int]


class Bytes(Protocol):
    """A file that is read from its start."""

    def read(self, size: int = -1, /) -> bytes: ...
    def readinto(self, room: memoryview, /) -> int: ...


def contents(path: str, wanted: Wanted) -> memoryview:
    """Return the bytes of a file. They begin at a multiple of 64 bytes in memory and are read-only.

    wanted : returns the number of bytes of a pipe to read, given its first bytes; called until they are all read.

    Raises MissingInputError, BadInputError for an empty file, NotEnoughMemoryError, and for a remote file UsageError
    and TransferError.
    """
    try:
        data = _downloaded(path, wanted) if is_remote(path) else _local(path, wanted)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise NotEnoughMemoryError(
                f"{path}: this model needs {human_bytes(size_on_disk(path))} of address space: "
                "raise the limit that ulimit -v sets"
            ) from error
        raise MissingInputError(f"{path}: cannot be opened: {error.strerror}") from error
    if data is None:
        raise BadInputError(f"{path}: is empty: not an fmcli model")
    return memoryview(data).toreadonly()


def aligned(pieces: Iterable[bytes | memoryview], size: int) -> memoryview:
    """Return a copy of a file's pieces, `size` bytes in all, aligned and read-only like the result of `contents`."""
    memory = _memory(max(1, size))  # a mapping cannot be empty
    for piece in pieces:
        memory.write(piece)
    return memoryview(memory).toreadonly()


def _local(path: str, wanted: Wanted) -> mmap.mmap | None:
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return _piped(file, path, wanted)
        if status.st_size <= MOST_COPIED:
            return _copied(file, status.st_size)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _downloaded(path: str, wanted: Wanted) -> mmap.mmap | None:
    from fmcli.system.remote import RemoteFile

    with RemoteFile(path) as file:
        if file.size is None:
            return _piped(file, path, wanted)
        require_if_large(file.size, f"reading {path}")
        return _copied(file, file.size)


def _copied(file: Bytes, size: int, head: mmap.mmap | None = None) -> mmap.mmap | None:
    """Return the first `size` bytes of a file whose head has been read; fewer if the file ends earlier, and None if it
    is empty."""
    if size == 0:
        return None
    data = _memory(size)
    filled = data.write(head) if head else 0
    with memoryview(data) as room:
        while filled < size and (count := file.readinto(room[filled:])):
            filled += count
    if filled == 0:
        return None
    if filled < size:  # the file has become shorter, or the pipe has ended
        data.resize(filled)
    return data


def _piped(file: Bytes, path: str, wanted: Wanted) -> mmap.mmap | None:
    """Return the wanted number of bytes of a pipe; None if it has none."""
    data: mmap.mmap | None = None
    read, size = 0, wanted(memoryview(b""))
    while read < size:
        require_if_large(size, f"reading {path}")
        data = _copied(file, size, data)
        if data is None or len(data) < size:
            break
        read, size = size, wanted(memoryview(data))
    return data


def _memory(size: int) -> mmap.mmap:
    """Return memory in huge pages if possible, because scores read it in random order. It is private, because many
    systems have no huge pages for shared memory, the default of `mmap`."""
    data = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without huge pages
            data.madvise(mmap.MADV_HUGEPAGE)
    return data
