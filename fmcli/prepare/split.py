"""Random splits: of row numbers, and of the rows of text into several outputs."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fmcli.prepare.lines import lines
from fmcli.prepare.written import Written

# Rows of text are split in blocks, so that a pipe can be read and the memory is bounded.
BLOCK_ROWS, BLOCK_BYTES = 1 << 18, 1 << 28
COMMENT = b"#"


def divided(rows: int, shares: Sequence[Fraction], random: np.random.Generator) -> list[NDArray[np.int64]]:
    """The numbers of the rows of each part, in random order. The shares are relative to their sum; the sizes of the
    parts are exact, but for rounding."""
    ends = [int(rows * end / sum(shares)) for end in accumulate(shares)]
    return np.split(random.permutation(rows), ends[:-1])


def split(path: str, outputs: Sequence[Written], shares: Sequence[Fraction], seed: int, header: bool = False) -> int:
    """Split the lines of an input at random. The lines of an output keep their order; blank lines and comments are left
    out, and their number is returned.

    header : the first line is that of a table, which every output begins with.

    At most BLOCK_ROWS lines or BLOCK_BYTES bytes are split at a time. The shares are exact in each such block.
    """
    random = np.random.default_rng(seed)
    skipped = 0
    block: list[bytes] = []
    size = 0
    for line in lines([path]):
        text = line.text + b"\n"
        if header:
            header = False
            for output in outputs:
                output.header(text)
            continue
        if not (begin := text.lstrip()) or begin.startswith(COMMENT):
            skipped += 1
            continue
        block.append(text)
        size += len(text)
        if len(block) == BLOCK_ROWS or size >= BLOCK_BYTES:
            _write(block, outputs, shares, random)
            block, size = [], 0
    _write(block, outputs, shares, random)
    return skipped


def _write(
    block: list[bytes], outputs: Sequence[Written], shares: Sequence[Fraction], random: np.random.Generator
) -> None:
    for output, part in zip(outputs, divided(len(block), shares, random), strict=True):
        output.lines(b"".join(_chosen(block, part)), len(part))


def _chosen(block: list[bytes], part: NDArray[np.int64]) -> Iterator[bytes]:
    return (block[number] for number in np.sort(part).tolist())
