"""Remote files, read through fsspec. Import this module only for remote files."""

from __future__ import annotations

import re
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import Any

from fmcli.errors import MissingInputError, TransferError, UsageError
from fmcli.system.addresses import without_secrets

OVER_HTTP = re.compile(r"(?:.*::)?(https?)://")
INSTALL = "pip install 'fsspec[http]'"
READ_BYTES = 1 << 22  # bytes to read at a time
READ_AHEAD = 2  # chunks of READ_BYTES that wait for the reader
# Seconds without data after which an HTTP connection counts as broken. The whole transfer has no time limit.
PATIENCE = 60.0


class RemoteFile:
    """A remote file that another thread reads ahead.

    size : the size in bytes; None if the file system does not know it.

    Raises UsageError if a package is missing, MissingInputError if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.name = without_secrets(path)
        try:
            file_system, place = find(path)
            # HTTP: one request for the whole file. Not every server sends parts, and parts may be of different
            # versions.
            parts = {"block_size": 0} if "https" in file_system.protocol else {}
            self._file = file_system.open(place, "rb", **parts)
        except UsageError:
            raise
        except Exception as error:
            raise MissingInputError(f"cannot read {self.name}: {_reason(error)}") from error
        self.size: int | None = getattr(self._file, "size", None)
        self._received = 0
        self._rest = memoryview(b"")
        self._chunks: Queue[bytes | Exception] = Queue(READ_AHEAD)
        self._closed = False
        # A daemon does not keep the process alive: a server may be silent for a long time.
        Thread(target=self._read_ahead, daemon=True).start()

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._closed = True
        with suppress(Empty):  # the thread must not wait for room
            while True:
                self._chunks.get_nowait()

    def readinto(self, room: memoryview) -> int:
        """Read some bytes. Returns their number, 0 at the end. Raises TransferError."""
        if not self._rest:
            chunk = self._chunks.get()
            if isinstance(chunk, Exception):
                self._chunks.put(chunk)  # for the next call
                raise self._broken(_reason(chunk)) from chunk
            if not chunk:
                self._chunks.put(chunk)
                if self.size is not None and self._received < self.size:
                    raise self._broken(f"its size is {self.size:,}")
            self._received += len(chunk)
            self._rest = memoryview(chunk)
        count = min(len(self._rest), len(room))
        room[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def read(self, size: int = -1) -> bytes:
        """Read this number of bytes, or fewer at the end; all bytes if it is negative. Raises TransferError."""
        data = bytearray()
        while size < 0 or len(data) < size:
            part = bytearray(READ_BYTES if size < 0 else size - len(data))
            count = self.readinto(memoryview(part))
            if count == 0:
                break
            data += memoryview(part)[:count]
        return bytes(data)

    def _read_ahead(self) -> None:
        chunk: bytes | Exception = b"more"
        with suppress(Exception), self._file:
            while chunk and not (isinstance(chunk, Exception) or self._closed):
                try:
                    chunk = self._file.read(READ_BYTES)
                except Exception as error:
                    chunk = error
                self._chunks.put(chunk)

    def _broken(self, reason: str) -> TransferError:
        return TransferError(f"{self.name}: the transfer ended after {self._received:,} bytes: {reason}; try again")


def remote_size(path: str) -> int:
    """Return the size of a remote file in bytes; 0 if it is unknown."""
    try:
        file_system, place = find(path)
        return int(file_system.info(place).get("size") or 0)
    except Exception:
        return 0


def find(path: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path of the file in it. Raises UsageError."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UsageError(
            f"cannot read {without_secrets(path)}: remote files are read with fsspec, which is not installed; "
            + INSTALL
        ) from error
    over_http = OVER_HTTP.match(path)
    try:
        options: dict[str, Any] = {over_http[1]: {"client_kwargs": _http_options()}} if over_http else {}
        file_system, place = url_to_fs(path, **options)
    except ImportError as error:
        remedy = INSTALL if over_http else "install this package beside fmcli"
        raise UsageError(f"cannot read {without_secrets(path)}: {_reason(error)}; {remedy}") from error
    except ValueError as error:  # an unknown protocol
        raise UsageError(f"cannot read {without_secrets(path)}: {_reason(error)}") from error
    return file_system, place


def _http_options() -> dict[str, Any]:
    """Return options of an HTTP client that uses the proxies of the environment."""
    from aiohttp import ClientTimeout

    return {"timeout": ClientTimeout(total=None, sock_connect=PATIENCE, sock_read=PATIENCE), "trust_env": True}


def _reason(error: Exception) -> str:
    """Return the reason of an error on one line."""
    if isinstance(error, FileNotFoundError):  # HTTP file systems raise this for every error, with its cause
        return _reason(error.__cause__) if isinstance(error.__cause__, Exception) else "no such file"
    status, message = getattr(error, "status", None), getattr(error, "message", None)
    text = f"status {status}, {message}" if status and message else str(error) or type(error).__name__
    return without_secrets(" ".join(text.split()).rstrip("."))
