"""libFM's text models, as its -save_model writes them and its -load_model reads them.

    #global bias W0             and a line with the bias, unless -dim leaves it out
    #unary interactions Wj      and a line for each feature, unless -dim leaves them out
    #pairwise interactions Vj,f and a line for each feature, with its factors

Lines of factors are empty if there are no factors. libFM writes six digits, and reads any number of digits as doubles.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.exchange.external import FM, LINEAR, ExternalModel
from fmcli.exchange.reading import LineReader, growing, parameters
from fmcli.export.text import NUMBER, lines
from fmcli.models.layout import REAL_TYPE

HEADING = b"#"
BIAS, WEIGHTS, FACTORS = b"#global bias W0", b"#unary interactions Wj", b"#pairwise interactions Vj,f"
# libFM counts the factors of a line by the blanks between them, so it finds none in a line with a single factor.
LEAST_FACTORS = 2


def begins(head: bytes) -> bool:
    """Return whether a file may be libFM's."""
    return head.startswith((BIAS, WEIGHTS, FACTORS))


def read(name: str, data: memoryview) -> ExternalModel:
    """Return the model in a file. Raises BadInputError, which names the line."""
    text = LineReader(name, data)
    bias = weights = None
    headings = [BIAS, WEIGHTS, FACTORS]
    if text.line == BIAS:
        text.next()
        (bias,) = text.numbers(1)
        headings.remove(BIAS)
    if text.line == WEIGHTS:
        text.next()
        headings, weights = [FACTORS], growing()
        while text.line is not None and not text.begins(HEADING):
            weights.extend(text.numbers(1))
    if text.line != FACTORS:
        text.refuse(" or ".join(heading.decode() for heading in headings))
    text.next()
    features, rank, values = _factors(text, None if weights is None else len(weights))
    w = None if weights is None else parameters(weights, features)
    if rank == 0:
        return ExternalModel(LINEAR, features, bias, np.zeros(features, REAL_TYPE) if w is None else w, norm=False)
    return ExternalModel(FM, features, bias, w, parameters(values, features, rank), norm=False)


def _factors(text: LineReader, features: int | None) -> tuple[int, int, array[float]]:
    """Return the number of features, the number of factors of each, and the concatenated factors. `features` : None if
    not known; then either all lines have factors, except for empty lines at the end, or none does."""
    values, found, rank = growing(), 0, None
    while found != features and not (text.line is None or (features is None and rank and not text.line)):
        factors = text.numbers(rank)
        rank = len(factors)
        values.extend(factors)
        found += 1
    if found == 0 or (features is not None and found < features):
        text.refuse(f"the factors of feature {found}")
    text.end(f"the factors of {found} features")
    return found, rank or 0, values


def write(model: ExternalModel, write: Callable[[bytes], object]) -> None:
    """Write a model without losing precision."""
    if model.bias is not None:
        write(BIAS + b"\n" + (NUMBER % model.bias).encode() + b"\n")
    if model.w is not None:
        write(WEIGHTS + b"\n")
        _write_rows(model.w[:, None], write)
    write(FACTORS + b"\n")
    if model.V is None:
        write(b"\n" * model.features)
    else:
        missing = max(LEAST_FACTORS - model.rank, 0)
        _write_rows(np.pad(model.V, ((0, 0), (0, missing))), write)


def _write_rows(rows: NDArray[Any], write: Callable[[bytes], object]) -> None:
    for text in lines(rows):
        write(text.encode())
