"""The lines of text inputs, one at a time."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fmcli.data.sources import Input, buffers

BUFFER_BYTES = 1 << 22


class Line(NamedTuple):
    """A line, without its line break.

    name : the name of its input.
    number : its number in the input, from 1.
    end : the bytes of the input's text before the next line.
    """

    name: str
    number: int
    text: bytes
    end: int = 0


def lines(paths: Sequence[Input]) -> Iterator[Line]:
    """Yield all lines of the inputs; "-" is standard input. Raises the errors of fmcli.data.sources.buffers."""
    spare: list[bytearray] = []
    number = end = 0
    for buffer in buffers(paths, spare, BUFFER_BYTES):
        if buffer.first:
            number, end = 0, buffer.start
        found = bytes(memoryview(buffer.data)[buffer.start : buffer.stop]).split(b"\n")
        for text in found[:-1]:
            number, end = number + 1, end + len(text) + 1
            yield Line(buffer.name, number, text.removesuffix(b"\r"), end)
        spare.append(buffer.data)
