"""A model as text without loss of precision. A few lines of code in any language can compute scores from it.

    key value ...           values needed for scoring; the "option" lines have the options of training
    array NAME SHAPE ...    followed by a line for each row along the last axis of the array

Numbers have 17 significant digits: read as a double, each number is exactly the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.export.arrays import exported, require_one_draw
from fmcli.model_file.check import FEATURES, HASH, SEEN
from fmcli.scoring.scorer import Scorer
from fmcli.system.files import atomic_output
from fmcli.text import number

VERSION = 1
# Numbers formatted at a time: enough to make Python's overhead small, and few enough for a core's cache.
CHUNK = 1 << 14
NUMBER = "%.17g"


def write_text(scorer: Scorer, write: Callable[[bytes], object]) -> dict[str, NDArray[Any]]:
    """Write a model in chunks. Returns its arrays.

    Arrays by feature have only the features with columns; if some features have none, `features` has the feature of
    each column. A model that scales rows to unit length has one more array: seen, 1 for each column whose feature
    occurred in training; other features count neither for scores nor for lengths.

    Raises NotEnoughMemoryError, and UsageError for a model with several draws.
    """
    require_one_draw(scorer)
    write("".join(f"{line}\n" for line in header(scorer)).encode())
    arrays = exported(scorer, dense=False)
    if scorer.transform.norm:
        arrays = {**arrays, SEEN: scorer.seen}
    if scorer.numbering is not None:
        arrays = {**arrays, FEATURES: np.array(scorer.ids(np.arange(scorer.model.features)))}
    for name, array in arrays.items():
        write(f"array {name} {' '.join(map(str, array.shape))}\n".encode())
        if name == FEATURES:
            write(f"{' '.join(map(str, array.tolist()))}\n".encode())
            continue
        for text in lines(array):
            write(text.encode())
    return arrays


def write_txt(scorer: Scorer, path: str) -> dict[str, NDArray[Any]]:
    """Write a model as a file of text. Returns its arrays. Raises the errors of `write_text`, and OutputError."""
    with atomic_output(path) as file:
        return write_text(scorer, file.write)


def header(scorer: Scorer) -> Iterator[str]:
    """Yield the lines before the arrays."""
    meta = scorer.meta
    yield f"fmcli-text {VERSION}"
    for name in ("tool", "model", "loss"):
        yield f"{name} {meta[name]}"
    if scorer.labels.values:
        yield f"labels {' '.join(scorer.labels.words)}"
    if scorer.clip:
        yield f"clip {' '.join(map(number, scorer.clip))}"
    yield f"outputs {scorer.model.outputs}"
    yield f"features {scorer.dimension}"
    if scorer.transform.hash_bits:
        yield f"hash {HASH} {scorer.transform.hash_bits}"
    for name, value in meta["options"].items():
        yield f"option {name} {int(value) if isinstance(value, bool) else value}"


def lines(array: NDArray[Any]) -> Iterator[str]:
    """Yield the numbers of an array, a line for each row along its last axis; a long row in several chunks."""
    columns = array.shape[-1]
    table = array.reshape(math.prod(array.shape[:-1]), columns)
    step = max(1, CHUNK // max(1, columns))
    for start in range(0, len(table), step):
        rows = table[start : start + step]
        for first in range(0, max(1, columns), CHUNK):
            chunk = rows[:, first : first + CHUNK]
            end = "\n" if first + CHUNK >= columns else " "
            line = " ".join([NUMBER] * chunk.shape[1]) + end
            yield line * len(chunk) % tuple(np.ravel(chunk).tolist())
