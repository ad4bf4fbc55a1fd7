"""The parameters of features as a table with a row per feature: tab-separated text, or Parquet by DuckDB."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dictionary import Dictionary
from fmcli.data.scaling import CENTER, SCALE
from fmcli.data.writer import format_table
from fmcli.errors import UsageError
from fmcli.export.arrays import exported, require_one_draw
from fmcli.export.in_unit import UNIT
from fmcli.export.text import CHUNK
from fmcli.kernels.simd import REAL
from fmcli.scoring.scorer import Scorer
from fmcli.system.files import atomic_output, scratch_output

FEATURE, CLASS = "feature", "class"
# The Parquet types of columns; parameters have the build's type.
WHOLE, TEXT, DOUBLE = "BIGINT", "VARCHAR", "DOUBLE"
NUMBER = {"float": "FLOAT", "double": DOUBLE}[REAL]


def write_tsv(scorer: Scorer, path: str) -> dict[str, NDArray[Any]]:
    """Write the table as tab-separated text. Returns the arrays. Raises the errors of `write_table`, and
    OutputError."""
    with atomic_output(path) as file:
        return write_table(scorer, file.write)


def write_table(scorer: Scorer, write: Callable[[bytes], object]) -> dict[str, NDArray[Any]]:
    """Write the parameters of features with a header: the feature, the class if there are several, and each parameter,
    named by its array and its index in the array, such as w, V_0, V_1, .., with the fewest digits that read back as the
    same number. Only features with parameters have rows. Returns the arrays.

    Raises NotEnoughMemoryError, and UsageError for a model with several draws or without parameters of features.
    """
    arrays = of_features(scorer)
    names = [FEATURE, *([CLASS] if scorer.model.outputs > 1 else []), *columns(arrays)]
    write(("\t".join(names) + "\n").encode())
    for text in rows(scorer, list(arrays.values())):
        write(text)
    return arrays


def write_parquet(scorer: Scorer, path: str) -> dict[str, NDArray[Any]]:
    """Write the table as a Parquet file, with parameters of the model's own type. Returns the arrays. Raises the errors
    of `write_table`, UsageError if DuckDB is not installed, and OutputError."""
    from fmcli.data.queries import write_as_parquet

    types = {FEATURE: TEXT if isinstance(scorer.numbering, Dictionary) else WHOLE}
    if scorer.model.outputs > 1:
        types[CLASS] = TEXT if scorer.labels.names else DOUBLE
    with atomic_output(path) as file, scratch_output(path) as text:
        arrays = write_table(scorer, text.write)
        text.flush()
        write_as_parquet(text.fileno(), types | dict.fromkeys(columns(arrays), NUMBER), file.fileno(), path)
    return arrays


def of_features(scorer: Scorer) -> dict[str, NDArray[Any]]:
    """Return the arrays with parameters of each feature: (outputs, features, ..)."""
    require_one_draw(scorer)
    model, found = scorer.model, dict[str, NDArray[Any]]()
    learned = {name for layout in model.layout for name in layout.names}
    arrays = exported(scorer, dense=False)
    if UNIT in arrays:
        raise UsageError(
            f"{scorer.path} is of kind {scorer.meta['model']}, whose parameters do not have the unit of the labels",
            scale_labels=False,
        )
    for name, array in sorted(arrays.items(), key=lambda item: item[1].ndim):
        axis = 0 if name in (SCALE, CENTER) else model.feature_axis(name)
        if axis is None or name in model.shapes().keys() - learned:  # such as anchors: rows, not parameters
            continue
        found[name] = np.moveaxis(array, axis, 1) if axis else np.broadcast_to(array, (model.outputs, *array.shape))
    if not found:
        raise UsageError(f"{scorer.path} is of kind {scorer.meta['model']}, which has no parameters of single features")
    return found


def columns(arrays: dict[str, NDArray[Any]]) -> list[str]:
    """Return the names of the columns of parameters."""
    return [
        "_".join(map(str, (name, *place)))
        for name, array in arrays.items()
        for place in product(*map(range, array.shape[2:]))
    ]


def rows(scorer: Scorer, arrays: list[NDArray[Any]]) -> Iterator[bytes]:
    """Yield the lines of the features, several at a time."""
    width = sum(math.prod(array.shape[2:]) for array in arrays)
    step, outputs = max(1, CHUNK // max(width, 1)), scorer.model.outputs
    for start in range(0, scorer.model.features, step):
        stop = min(start + step, scorer.model.features)
        ids = scorer.ids(np.arange(start, stop, dtype=np.int32))
        texts = []
        for output in range(outputs):
            parts = [array[output, start:stop].reshape(stop - start, -1) for array in arrays]
            numbers = format_table(np.hstack(parts).astype(np.float64)).replace(b" ", b"\t").splitlines()
            of_class = f"\t{scorer.labels.texts[output]}" if outputs > 1 else ""
            texts.append([f"{feature}{of_class}\t".encode() + line for feature, line in zip(ids, numbers, strict=True)])
        yield b"".join(line + b"\n" for of_feature in zip(*texts, strict=True) for line in of_feature)
