"""What recognises an input, so that work on it need not be done again: no more of it is read than its ends."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from typing import Any

from fmcli.errors import MissingInputError
from fmcli.system.addresses import is_remote, without_secrets

ENDS = 1 << 16  # bytes at each end of an input that are compared
# What file systems call the versions of files and the times of their last changes.
VERSIONS = (
    *("ETag", "etag", "Content-MD5", "md5Hash", "md5", "Digest", "VersionId", "version_id"),
    *("Last-Modified", "LastModified", "last_modified", "mtime", "modified", "updated"),
)


def identity(path: str) -> dict[str, Any] | None:
    """What recognises an input: its name and size, when it was changed, and a checksum of its ends. None if that is not
    known, as for a pipe. Raises MissingInputError if a local file cannot be read."""
    if is_remote(path):
        return remote_identity(path)
    if not can_be_read_again(path):
        return None
    status = os.stat(path)
    try:
        with open(path, "rb") as file:
            ends = checksum_of_ends(file, status.st_size)
    except OSError as error:
        raise MissingInputError(f"cannot read {path}: {error.strerror or error}") from error
    return {
        "name": os.path.basename(path),
        "size": status.st_size,
        "changed": status.st_mtime_ns,
        "ends": ends,
    }


def remote_identity(path: str) -> dict[str, Any] | None:
    """The same of an address, whose file system must know a version of the file, or when it was changed. The ends are
    compared if parts of the file can be read."""
    from fmcli.system.remote import find

    try:
        file_system, place = find(path)
        info = file_system.info(place)
        versions = {name: str(info[name]) for name in VERSIONS if info.get(name)}
        if not versions:
            versions = {"modified": str(file_system.modified(place))}
    except Exception:  # if the file cannot be read, reading it says why
        return None
    size, ends = info.get("size"), None
    with suppress(Exception), file_system.open(place, "rb", block_size=ENDS) as file:
        ends = checksum_of_ends(file, size)
    return {"name": without_secrets(path), "size": size, "changed": versions, "ends": ends}


def checksum_of_ends(file: Any, size: int) -> int:
    """CRC-32 of the first and the last bytes of an open file."""
    ends = file.read(ENDS)
    file.seek(max(0, size - ENDS))
    return zlib.crc32(ends + file.read(ENDS))


def can_be_read_again(path: str) -> bool:
    """Whether an input is a file, local or remote, rather than a pipe."""
    return is_remote(path) or (path != "-" and os.path.isfile(path))
