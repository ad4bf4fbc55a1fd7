"""Output of a command, with the number of rows written and a hash of their bytes."""

import hashlib
from collections.abc import Callable

BUFFER_BYTES = 1 << 16


class Written:
    """Writes lines in large pieces.

    rows : the number of rows so far.
    """

    def __init__(self, write: Callable[[bytes | memoryview], object]) -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self._buffer = bytearray()
        self.rows = 0

    def header(self, text: bytes | memoryview) -> None:
        """Write a line that does not count as a row."""
        self._buffer += text
        if len(self._buffer) >= BUFFER_BYTES:
            self.flush()

    def lines(self, text: bytes | memoryview, rows: int) -> None:
        """Write whole lines; each counts as a row."""
        self.rows += rows
        if len(text) < BUFFER_BYTES:
            self.header(text)
        else:
            self.flush()
            self._pass_on(text)

    def flush(self) -> None:
        """Pass on the contents of the buffer."""
        piece = bytes(self._buffer)
        self._buffer.clear()
        self._pass_on(piece)

    def _pass_on(self, piece: bytes | memoryview) -> None:
        self._hash.update(piece)
        self._write(piece)

    @property
    def digest(self) -> str:
        """The SHA-256 digest of all bytes passed on, in hexadecimal digits."""
        return self._hash.hexdigest()
