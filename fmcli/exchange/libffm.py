"""libffm's models: the binary files of version 1.20 and later, and the text files of earlier versions.

A binary file has the int32 numbers n of features, m of fields and k of factors, a byte that says whether rows are
scaled to unit length, and float32 parameters: for each feature and field, k parameters in blocks. After each block come
its sums of squared gradients, which start at 1. A block has 4 parameters if libffm was compiled with SSE, the default
of its Makefile, with the last block padded with zeros; otherwise it has 1. Text has a line for each feature and field:

    n 2
    m 1
    k 2
    normalization 1
    w0,0 0.1 0.2
    w1,0 0.3 0.4
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.writer import format_table
from fmcli.errors import BadInputError
from fmcli.exchange.external import FFM, ExternalModel
from fmcli.exchange.reading import LineReader, growing, parameters
from fmcli.models.layout import REAL_TYPE
from fmcli.system.memory import require

HEADER = struct.Struct("<iii?")
FLOAT = np.dtype("<f4")
# The number of parameters in a block.
WITH_SSE, WITHOUT_SSE = 4, 1
BLOCKS = (WITH_SSE, WITHOUT_SSE)
FIRST_SQUARE = 1  # the initial value of AdaGrad's sums of squares
# The number of parameters to write at a time.
CHUNK = 1 << 20
MOST = 2**31 - 1


def begins(head: bytes) -> bool:
    """Return whether a file may be libffm's text."""
    return head.startswith(b"n ")


def is_binary(data: memoryview) -> bool:
    """Return whether a file may be a binary model: its size fits its first numbers."""
    return bool(_possible_blocks(data))


def read(name: str, data: memoryview) -> ExternalModel:
    """Return the model in a file. Raises BadInputError, and NotEnoughMemoryError."""
    return _read_text(name, data) if begins(bytes(data[:2])) and not is_binary(data) else _read_binary(name, data)


def _possible_blocks(data: memoryview) -> list[int]:
    """Return the possible numbers of parameters per block, by the file's size."""
    if len(data) < HEADER.size or data[HEADER.size - 1] > 1:
        return []
    n, m, k, _ = HEADER.unpack_from(data)
    if min(n, m, k) <= 0:
        return []
    return [block for block in BLOCKS if len(data) == HEADER.size + _floats(n, m, k, block) * FLOAT.itemsize]


def _floats(n: int, m: int, k: int, block: int) -> int:
    return n * m * (-(-k // block) * block) * 2


def _read_binary(name: str, data: memoryview) -> ExternalModel:
    possible = _possible_blocks(data)
    if not possible:
        raise BadInputError(f"{name}: {_wrong_size(data)}")
    n, m, k, normalized = HEADER.unpack_from(data)
    require(REAL_TYPE.itemsize * _floats(n, m, k, possible[0]), f"reading {name}")
    views = [_blocks(data, n, m, block) for block in possible]
    if len(views) > 1:  # sums are never below their initial value, but some parameters are
        views = [view for view in views if view[..., 1, :].min() >= FIRST_SQUARE]
    if len(views) != 1:
        raise BadInputError(
            f"{name}: is not a valid model of libffm: its sums of squared gradients, of at least {FIRST_SQUARE}, "
            "cannot be told from its parameters"
        )
    V, sums = (_without_blocks(views[0][..., which, :], k) for which in (0, 1))
    if not (np.isfinite(V).all() and np.isfinite(sums).all() and sums.min() >= FIRST_SQUARE):
        raise BadInputError(
            f"{name}: is not a valid model of libffm: it has numbers that are not finite, or sums of squared gradients "
            f"below {FIRST_SQUARE}"
        )
    return ExternalModel(FFM, n, V=V, norm=bool(normalized), squares=sums - FIRST_SQUARE)


def _wrong_size(data: memoryview) -> str:
    """Return why a file is not a binary model."""
    if len(data) < HEADER.size:
        return f"is not a model of libffm, or truncated: {len(data)} bytes are too few for a header"
    n, m, k, _ = HEADER.unpack_from(data)
    if min(n, m, k) <= 0 or data[HEADER.size - 1] > 1:
        return (
            "is not a model of libffm: it begins neither as text nor with the numbers of features, fields and factors"
        )
    needed = HEADER.size + _floats(n, m, k, BLOCKS[0]) * FLOAT.itemsize
    return (
        f"is {'truncated, or ' if len(data) < needed else ''}not a model of libffm: {n} features, {m} fields and {k} "
        f"factors take {needed:,} bytes, but the file has {len(data):,}"
    )


def _blocks(data: memoryview, n: int, m: int, block: int) -> NDArray[Any]:
    """Return (n, m, blocks, 2, block) the numbers of a file."""
    return np.frombuffer(data, FLOAT, offset=HEADER.size).reshape(n, m, -1, 2, block)


def _without_blocks(blocks: NDArray[Any], k: int) -> NDArray[Any]:
    """Return (n, m, k) the numbers of blocks (n, m, blocks, block)."""
    n, m = blocks.shape[:2]
    return np.ascontiguousarray(blocks.reshape(n, m, -1)[..., :k], dtype=REAL_TYPE)


def _read_text(name: str, data: memoryview) -> ExternalModel:
    text = LineReader(name, data)
    n, m, k = (text.count(word, 1) for word in (b"n", b"m", b"k"))
    normalized, values = text.count(b"normalization", 0, 1), growing()
    for j in range(n):
        for f in range(m):
            values.extend(text.numbers(k, b"w%d,%d " % (j, f)))
    text.end(f"the parameters of {n} features")
    return ExternalModel(FFM, n, V=parameters(values, n, m, k), norm=bool(normalized))


def write(model: ExternalModel, write: Callable[[bytes], object], block: int = WITH_SSE) -> None:
    """Write a binary model, with this number of parameters per block."""
    V = _factors(model)
    write(HEADER.pack(model.features, model.fields, model.rank, bool(model.norm)))
    padded = -(-model.rank // block) * block
    for rows in _chunks(model):
        chunk = np.full((len(V[rows]), model.fields, 2, padded), FIRST_SQUARE, dtype=FLOAT)
        chunk[:, :, 0] = 0
        chunk[:, :, 0, : model.rank] = V[rows]
        blocks = chunk.reshape(len(chunk), model.fields, 2, -1, block).swapaxes(2, 3)
        write(blocks.tobytes())


def write_text(model: ExternalModel, write: Callable[[bytes], object]) -> None:
    """Write a model as text, with the fewest digits that read back as the same parameters."""
    V, m = _factors(model), model.fields
    sizes = f"n {model.features}\nm {m}\nk {model.rank}\nnormalization {int(bool(model.norm))}\n"
    write(sizes.encode())
    for rows in _chunks(model):
        chunk = V[rows].reshape(-1, model.rank).astype(np.float64)
        texts = format_table(chunk).splitlines()
        first = rows.start * m
        write(b"".join(b"w%d,%d %b \n" % (*divmod(first + at, m), text) for at, text in enumerate(texts)))


def _factors(model: ExternalModel) -> NDArray[Any]:
    assert model.V is not None
    return model.V


def _chunks(model: ExternalModel) -> list[slice]:
    """Return slices of features; the parameters of a slice are written at a time."""
    step = max(1, CHUNK // max(model.fields * model.rank, 1))
    return [slice(start, start + step) for start in range(0, model.features, step)]
