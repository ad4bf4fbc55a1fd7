"""Files of other programs: their bytes; and their lines and numbers as text, with positions for
messages."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import BadInputError
from fmcli.model_file.check import MOST_FEATURES
from fmcli.model_file.contents import contents
from fmcli.models.layout import REAL_TYPE
from fmcli.system.memory import require_if_large
from fmcli.text import quote

PIECE_BYTES = 1 << 20
LONGEST_LINE = 64 << 20
# The fewest bytes of a number in text, including its separator.
BYTES_OF_NUMBER = 2
# The largest parameter of a model.
LARGEST = float(np.finfo(REAL_TYPE).max)
COUNT = re.compile(rb"[0-9]{1,10}\Z")
TOKEN = re.compile(rb"\S+")


def file_bytes(path: str) -> memoryview:
    """Return the bytes of a file. Raises the errors of `contents`."""
    return contents(path, lambda head: 2 * len(head) or PIECE_BYTES)


class LineReader:
    """The lines of a text, one after the other, without blanks and carriage returns at the ends.

    name : the name of the file in messages.
    line : the current line; None after the last line.
    number : the number of the current line.
    """

    line: bytes | None

    def __init__(self, name: str, data: memoryview) -> None:
        require_if_large(len(data) // BYTES_OF_NUMBER * REAL_TYPE.itemsize * 2, f"reading {name}")
        self.name, self.number = name, 0
        self._rest = _lines(name, data)
        self.next()

    def next(self) -> None:
        """Go to the next line. Raises BadInputError if it is too long."""
        self.line = next(self._rest, None)
        self.number += 1

    def begins(self, text: bytes) -> bool:
        """Return whether the current line begins with a text."""
        return self.line is not None and self.line.startswith(text)

    def refuse(self, expected: str, found: bytes | None = None, column: int = 1) -> NoReturn:
        """Raise BadInputError for a part of the current line (None: all of it), or because the file has ended."""
        where = f"{self.name}:{self.number}"
        if self.line is None:
            raise BadInputError(f"{where}: the file ends here, expected {expected}; it is truncated")
        found = self.line if found is None else found
        raise BadInputError(f"{where}:{column}: found {quote(found)}, expected {expected}")

    def numbers(self, count: int | None, name: bytes = b"", least: int = 0) -> list[float]:
        """Return the numbers of the current line after its name, and go to the next line. Raises BadInputError for
        another name, another count of numbers (None: at least `least`), or a number that cannot be a parameter."""
        line = self.line
        numbers = "numbers" if count is None else "one number" if count == 1 else f"{count} numbers"
        expected = f"{name.strip().decode()} and {numbers}" if name else numbers
        if line is None or not line.startswith(name):
            self.refuse(expected)
        tokens = line[len(name) :].split()
        try:
            values = list(map(float, tokens))
        except ValueError:
            values = [math.nan]
        if b"_" in line[len(name) :] or not all(-LARGEST <= value <= LARGEST for value in values):
            self._refuse_number(line, len(name))
        if len(values) != count if count is not None else len(values) < least:
            self.refuse(expected)
        self.next()
        return values

    def count(self, name: bytes, least: int, most: int = MOST_FEATURES) -> int:
        """Return the integer of the current line, such as "n 12", and go to the next line. Raises BadInputError unless
        the line has this form and the integer is within bounds."""
        words = (self.line or b"").split()
        number = int(words[1]) if len(words) == 2 and words[0] == name and COUNT.match(words[1]) else -1
        if not least <= number <= most:
            self.refuse(f"{name.decode()} and a whole number from {least} to {most}")
        self.next()
        return number

    def end(self, of: str) -> None:
        """Raise BadInputError unless only empty lines are left. of : the contents of the lines before, for the
        message."""
        while self.line is not None:
            if self.line:
                self.refuse(f"the end of the file after {of}")
            self.next()

    def _refuse_number(self, line: bytes, start: int) -> NoReturn:
        for found in TOKEN.finditer(line, start):
            try:
                value = float(found.group())
            except ValueError:
                value = math.nan
            if b"_" in found.group() or not -LARGEST <= value <= LARGEST:
                self.refuse(f"a number of at most {LARGEST:.2g}", found.group(), found.start() + 1)
        raise AssertionError("every number of the line is valid")


def growing() -> array[float]:
    """Return an empty array of parameters, to be extended."""
    return array(REAL_TYPE.char)


def parameters(values: array[float], *shape: int) -> NDArray[Any]:
    """Return the parameters of a growing array, in a shape whose first axis may be -1."""
    return np.frombuffer(values, dtype=REAL_TYPE).reshape(shape)


def _lines(name: str, data: memoryview) -> Iterator[bytes]:
    rest, number = b"", 0
    for start in range(0, len(data), PIECE_BYTES):
        *whole, rest = (rest + bytes(data[start : start + PIECE_BYTES])).split(b"\n")
        for line in whole:
            yield line.rstrip()
        number += len(whole)
        if len(rest) > LONGEST_LINE:
            raise BadInputError(f"{name}:{number + 1}: the line is longer than {LONGEST_LINE >> 20} MiB")
    if rest:
        yield rest.rstrip()
