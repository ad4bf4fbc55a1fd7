"""The lines of text inputs, one at a time."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fmcli.data.sources import blocks

BLOCK_BYTES = 1 << 22


class Line(NamedTuple):
    """A line, without its line break.

    name : of its input.
    number : in its input, from 1.
    """

    name: str
    number: int
    text: bytes


def lines(paths: Sequence[str]) -> Iterator[Line]:
    """All lines of the inputs, "-" being standard input. Raises the errors of fmcli.data.sources.blocks."""
    spare: list[bytearray] = []
    number = 0
    for block in blocks(paths, spare, BLOCK_BYTES):
        number = 0 if block.first else number
        found = bytes(memoryview(block.data)[block.start : block.stop]).split(b"\n")
        for text in found[:-1]:
            number += 1
            yield Line(block.name, number, text.removesuffix(b"\r"))
        spare.append(block.data)
