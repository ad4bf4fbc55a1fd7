"""Scores of features that are present or absent, as a quadratic function of binary variables (QUBO), for annealers."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fmcli.base.finite import are_finite
from fmcli.data.dataset import Dataset
from fmcli.errors import BadInputError, UsageError
from fmcli.losses.links import Floats
from fmcli.records import dataclass
from fmcli.scoring.explain.splitter import Splitter
from fmcli.scoring.scorer import Scorer
from fmcli.system.memory import require
from fmcli.text import number

# The number of arrays of the size of the pairs at a time: terms, their places, and both variables of each pair.
COPIES = 5
# The number of features in the largest terms of a quadratic function.
PAIR = 2
# The number of lines to write at a time.
LINES = 1 << 14


@dataclass(frozen=True)
class Qubo:
    """offset + sum_i linear_i x_i + sum_{i<j} quadratic_ij x_i x_j, for x_i in 0 and 1.

    variables : the feature of each variable, as in the text of rows.
    first, second, quadratic : the pairs i < j with nonzero coefficients, by the numbers of the variables.
    """

    variables: list[int] | list[int | str]
    offset: float
    linear: Floats
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    quadratic: Floats


def qubo(scorer: Scorer) -> Qubo:
    """Return the raw score of a row as a function of its features, each with value 1. Scores are averaged over draws
    and members.

    Raises UsageError for a model whose scores are not a quadratic function, BadInputError if a parameter is not finite,
    and
    NotEnoughMemoryError.
    """
    model, scale = scorer.model, scorer.transform.scale
    if model.outputs > 1 or scorer.labels.cutpoints:
        raise UsageError(f"{scorer.path} has several scores for each row; a QUBO has a single one")
    if scorer.transform.norm:
        raise UsageError(f"{scorer.path} scales rows to unit length, so its scores are not quadratic functions")
    if scorer.needs_fields:
        raise UsageError(f"{scorer.path} uses the fields of entries, which the variables of a QUBO do not have")
    if scale is not None and scale.centered:
        raise UsageError(f"{scorer.path} centers columns, so absent features have values other than 0")
    features = model.features
    pairs = features * (features - 1) // 2
    every = np.arange(features, dtype=np.int32)
    row = scorer.prepared(Dataset(np.array([0, features], dtype=np.int64), every, None, None, features))
    splitters = [Splitter(each.split(), 0) for each in scorer.draws]
    largest = splitters[0].largest(row, 0)
    if largest > PAIR:
        raise UsageError(
            f"{scorer.path} has interactions of {largest} features, and a QUBO has pairs", order={PAIR: ""}
        )
    require(COPIES * np.dtype(np.float64).itemsize * pairs, f"a QUBO of {features:,} features")
    offset, linear, quadratic = 0.0, np.zeros(features), np.zeros(pairs)
    for splitter in splitters:
        offset += splitter.constant
        if largest:
            splitter.listed(row, 0, 1, linear)
        if largest == PAIR:
            splitter.listed(row, 0, PAIR, quadratic)
    if not are_finite([linear, quadratic]):
        raise BadInputError(f"{scorer.path} has parameters that are not finite")
    kept = np.flatnonzero(quadratic)
    first, second = (each[kept] for each in np.triu_indices(features, 1))
    draws, unit = len(splitters), scorer.labels.unit
    linear, quadratic = (unit.differences(each / draws) for each in (linear, quadratic[kept]))
    return Qubo(scorer.ids(every), unit.center + unit.scale * offset / draws, linear, first, second, quadratic)


def write_coo(made: Qubo, write: Callable[[bytes], object]) -> None:
    """Write the coefficients as lines "i j coefficient", with i = j for linear ones, in dimod's COO format. Lines that
    begin with # have the offset, which the format lacks, and the features of the variables."""
    write(f"# vartype=BINARY\n# offset={number(made.offset)}\n".encode())
    for at in range(0, len(made.variables), LINES):
        names = enumerate(made.variables[at : at + LINES], at)
        write("".join(f"# variable {i} {name}\n" for i, name in names).encode(errors="surrogateescape"))
    used = np.flatnonzero(made.linear)
    columns = [(used, used, made.linear[used]), (made.first, made.second, made.quadratic)]
    for one, other, value in columns:
        for at in range(0, len(value), LINES):
            part = slice(at, at + LINES)
            rows = zip(one[part].tolist(), other[part].tolist(), value[part].tolist(), strict=True)
            write("".join(f"{i} {j} {positional(x)}\n" for i, j, x in rows).encode())


def positional(value: float) -> str:
    """Return the shortest text of a number without an exponent: the COO format has no exponents."""
    return np.format_float_positional(value, trim="-")


def write_json(made: Qubo, write: Callable[[bytes], object]) -> None:
    """Write the JSON form of a BinaryQuadraticModel of dimod, for its from_serializable."""
    form = {
        "type": "BinaryQuadraticModel",
        "version": {"bqm_schema": "3.0.0"},
        "use_bytes": False,
        "index_type": "int32",
        "bias_type": "float64",
        "num_variables": len(made.variables),
        "num_interactions": len(made.quadratic),
        "variable_labels": made.variables,
        "variable_type": "BINARY",
        "offset": made.offset,
        "info": {},
        "linear_biases": made.linear.tolist(),
        "quadratic_biases": made.quadratic.tolist(),
        "quadratic_head": made.first.tolist(),
        "quadratic_tail": made.second.tolist(),
    }
    write(json.dumps(form).encode())
    write(b"\n")
