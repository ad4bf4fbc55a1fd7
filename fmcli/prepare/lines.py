"""The lines of text inputs, one at a time."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fmcli.data.sources import blocks

BLOCK_BYTES = 1 << 22


class Line(NamedTuple):
    """A line, without its line break.

    name : of its input.
    number : in its input, from 1.
    end : the bytes of text of its input before the next line.
    """

    name: str
    number: int
    text: bytes
    end: int = 0


def lines(paths: Sequence[str]) -> Iterator[Line]:
    """Yield all lines of the inputs, "-" being standard input. Raises the errors of fmcli.data.sources.blocks."""
    spare: list[bytearray] = []
    number = end = 0
    for block in blocks(paths, spare, BLOCK_BYTES):
        if block.first:
            number, end = 0, block.start
        found = bytes(memoryview(block.data)[block.start : block.stop]).split(b"\n")
        for text in found[:-1]:
            number, end = number + 1, end + len(text) + 1
            yield Line(block.name, number, text.removesuffix(b"\r"), end)
        spare.append(block.data)
