"""The bytes of a model file in memory: a copy, or for a large file a mapping.

A copy does not change if the file is overwritten or truncated while the model is in use. In a mapping, the pages of a
truncated file disappear: a process that touches one gets SIGBUS, for which the command has a handler
(fmcli.system.interrupt). A file that is replaced by renaming another one is safe in either case.
"""

import errno
import mmap
import os
import stat
from typing import BinaryIO

from fmcli.errors import BadInputError, MissingInputError, NotEnoughMemoryError
from fmcli.system.memory import human_bytes

MOST_COPIED = 256 * 1024 * 1024  # bytes of a file


def contents(path: str, begins: bytes, offset: int) -> memoryview:
    """The bytes of a file, which begin at a multiple of 64 bytes in memory and cannot be changed.

    begins, offset : a pipe is read to its end only if it has these bytes there; otherwise only so far.

    Raises MissingInputError, BadInputError for an empty file, and NotEnoughMemoryError.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                data = _piped(file, begins, offset)
            elif status.st_size <= MOST_COPIED:
                data = _copied(file, status.st_size)
            else:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise NotEnoughMemoryError(
                f"{path}: this model needs {human_bytes(os.path.getsize(path))} of address space: "
                "raise the limit that ulimit -v sets"
            ) from error
        raise MissingInputError(f"{path}: cannot be opened: {error.strerror}") from error
    if data is None:
        raise BadInputError(f"{path}: is empty: not an fmcli model")
    return memoryview(data).toreadonly()


def _copied(file: BinaryIO, size: int) -> mmap.mmap | None:
    """The first `size` bytes of a file, or fewer if it ends before; None if there are none."""
    if size == 0:
        return None
    data = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        data.madvise(mmap.MADV_HUGEPAGE)
    filled = 0
    with memoryview(data) as room:
        while filled < size and (count := file.readinto(room[filled:])):  # type: ignore[attr-defined]
            filled += count
    if filled < size:  # the file has become shorter
        data.resize(max(filled, 1))
    return data


def _piped(file: BinaryIO, begins: bytes, offset: int) -> mmap.mmap | None:
    """The bytes of a pipe, or only the first ones if they are not as expected; None if there are none."""
    text = file.read(offset + len(begins))
    if text[offset:] == begins:
        text += file.read()
    if not text:
        return None
    data = mmap.mmap(-1, len(text))
    data.write(text)
    return data
