"""The identity of an input, to avoid repeating work on it. Only excerpts of a large input are read."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from typing import Any

from fmcli.errors import MissingInputError
from fmcli.system.addresses import is_remote, without_secrets

# Up to SAMPLES excerpts of EXCERPT bytes of a local file are compared, at equal distances from its beginning to its
# end; smaller files are compared as a whole. For an address, only the first and last bytes are compared.
SAMPLES, EXCERPT = 256, 1 << 16
# The names that file systems use for versions of files and times of their last changes.
VERSIONS = (
    *("ETag", "etag", "Content-MD5", "md5Hash", "md5", "Digest", "VersionId", "version_id"),
    *("Last-Modified", "LastModified", "last_modified", "mtime", "modified", "updated"),
)


def identity(path: str) -> dict[str, Any] | None:
    """Return the identity of an input: its name, size, time of last change, and a checksum of excerpts. None if they
    are not known, as for a pipe. Raises MissingInputError if a local file cannot be read."""
    if is_remote(path):
        return remote_identity(path)
    if not can_be_read_again(path):
        return None
    status = os.stat(path)
    try:
        with open(path, "rb") as file:
            excerpts = checksum(file, status.st_size, SAMPLES)
    except OSError as error:
        raise MissingInputError(f"cannot read {path}: {error.strerror or error}") from error
    return {"name": os.path.basename(path), "size": status.st_size, "changed": status.st_mtime_ns, "excerpts": excerpts}


def remote_identity(path: str) -> dict[str, Any] | None:
    """Return the identity of an address; None unless its file system knows the file's version or time of last change.
    The first and last bytes are compared if parts of the file can be read."""
    from fmcli.system.remote import find

    try:
        file_system, place = find(path)
        info = file_system.info(place)
        versions = {name: str(info[name]) for name in VERSIONS if info.get(name)}
        if not versions:
            versions = {"modified": str(file_system.modified(place))}
    except Exception:  # a file that cannot be read: reading it later says why
        return None
    size, ends = info.get("size"), None
    with suppress(Exception), file_system.open(place, "rb", block_size=EXCERPT) as file:
        ends = checksum(file, size, excerpts=2)
    return {"name": without_secrets(path), "size": size, "changed": versions, "excerpts": ends}


def checksum(file: Any, size: int, excerpts: int) -> int:
    """Return the CRC-32 of excerpts of an open file of this size, including the first and the last bytes."""
    found, last = 0, max(1, min(excerpts - 1, size // EXCERPT))
    for number in range(last + 1):
        file.seek(max(0, size - EXCERPT) * number // last)
        found = zlib.crc32(file.read(EXCERPT), found)
    return found


def can_be_read_again(path: str) -> bool:
    """Return whether an input is a file, local or remote, rather than a pipe."""
    return is_remote(path) or (path != "-" and os.path.isfile(path))
