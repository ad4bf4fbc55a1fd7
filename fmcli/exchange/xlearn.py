"""xLearn's text models, as `xlearn_train -t` and setTXTModel write them. xLearn itself cannot read them.

    bias: 0.1
    i_0: 0.2            the weight of each feature
    v_0: 0.3 0.4        the factors of each feature; of an FFM, v_0_1: for each feature and field

Numbers have six digits.
"""

from __future__ import annotations

from array import array
from itertools import product
from typing import Any

from numpy.typing import NDArray

from fmcli.exchange.external import FFM, FM, LINEAR, ExternalModel
from fmcli.exchange.reading import LineReader, growing, parameters

BIAS = b"bias:"
# A binary model begins with the length of the name of its kind, followed by the name.
BINARY = tuple(len(name).to_bytes(8, "little") + name for name in (b"linear", b"fm", b"ffm"))


def begins(head: bytes) -> bool:
    """Return whether a file may be xLearn's text."""
    return head.startswith(BIAS)


def is_binary(head: bytes) -> bool:
    """Return whether a file may be xLearn's own binary model."""
    return head.startswith(BINARY)


def read(name: str, data: memoryview) -> ExternalModel:
    """Return the model in a file. Raises BadInputError, which names the line."""
    text = LineReader(name, data)
    (bias,), weights = text.numbers(1, BIAS), growing()
    while not weights or text.begins(b"i_"):
        weights.extend(text.numbers(1, b"i_%d:" % len(weights)))
    kind, features, V = LINEAR, len(weights), None
    if text.begins(b"v_0:"):
        kind, V = FM, _of_fm(text, features)
    elif text.line:
        kind, V = FFM, _of_ffm(text, features)
    text.end(f"the parameters of {features} features")
    return ExternalModel(kind, features, bias, parameters(weights, features), V)


def _of_fm(text: LineReader, features: int) -> NDArray[Any]:
    """Return the factors (features, rank)."""
    values, rank = growing(), 0
    for j in range(features):
        rank = _append(values, text, b"v_%d:" % j, rank)
    return parameters(values, features, rank)


def _of_ffm(text: LineReader, features: int) -> NDArray[Any]:
    """Return the factors (features, fields, rank). The lines of the first feature determine the number of fields."""
    values, rank, fields = growing(), 0, 0
    while fields == 0 or text.begins(b"v_0_"):
        rank = _append(values, text, b"v_0_%d:" % fields, rank)
        fields += 1
    for j, f in product(range(1, features), range(fields)):
        rank = _append(values, text, b"v_%d_%d:" % (j, f), rank)
    return parameters(values, features, fields, rank)


def _append(values: array[float], text: LineReader, name: bytes, rank: int) -> int:
    """Append the factors of the line with this name. Returns their number, which must be `rank` unless `rank` is 0."""
    factors = text.numbers(rank or None, name, least=1)
    values.extend(factors)
    return len(factors)
