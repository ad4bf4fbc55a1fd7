"""The transform of rows in a model file: its entries in the metadata, and its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dictionary import Dictionary
from fmcli.data.labels import saved_labels
from fmcli.data.numbering import Numbering
from fmcli.data.scaling import SCALE, saved_scaling, scale_arrays
from fmcli.data.tables.schema import Schema
from fmcli.data.transform import Transform
from fmcli.errors import BadInputError
from fmcli.model_file.check import (
    ENDS,
    FEATURES,
    GROUPS,
    HASH,
    IDS,
    NAMES,
    SEEN,
    check_array,
    dictionary_shapes,
    refuse,
)


def transform_entries(transform: Transform) -> dict[str, Any]:
    """Return the transform's entries of the metadata."""
    numbering, bits = transform.numbering, transform.hash_bits
    dictionary, columns = None, None
    if isinstance(numbering, Dictionary):
        dictionary = {
            "numbers": len(numbering.numbers),
            "names": len(numbering.ends),
            "bytes": len(numbering.text),
            "shared": numbering.with_shared,
        }
    elif numbering is not None:
        columns = len(numbering)
    return {
        "features": transform.dimension,
        **transform.entries(),
        "dictionary": dictionary,
        "columns": columns,
        "hash": {"name": HASH, "bits": bits} if bits else None,
        "norm_of_all": transform.norm_of_all,
    }


def transform_arrays(transform: Transform) -> dict[str, NDArray[Any]]:
    """Return the transform's arrays by name."""
    numbering, arrays = transform.numbering, dict[str, NDArray[Any]](scale_arrays(transform.scale))
    if isinstance(numbering, Dictionary):
        arrays |= {IDS: numbering.numbers, NAMES: numbering.text, ENDS: numbering.ends}
    elif numbering is not None:
        arrays[FEATURES] = numbering.ids
    if transform.groups is not None:
        arrays[GROUPS] = transform.groups
    if transform.marks is not None:
        arrays[SEEN] = transform.marks
    return arrays


def saved_transform(
    meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], numbering: Numbering | Dictionary | None
) -> Transform:
    """Return the transform in a valid model file with this numbering of columns."""
    low_high, hashed = meta["range"], meta["hash"]
    return Transform(
        saved_labels(meta["loss"], meta["labels"], meta["label_pair"], meta["unit"], meta["positive"]),
        meta["features"] if numbering is None else len(numbering),
        numbering,
        hash_bits=int(hashed["bits"]) if hashed else 0,
        scale=saved_scaling(meta["options"][SCALE], arrays),
        norm=meta["options"]["norm"],
        norm_of_all=meta["norm_of_all"],
        fields=meta["fields"],
        label_range=low_high and (low_high[0], low_high[1]),
        groups=arrays.get(GROUPS),
        table=meta["table"] and Schema.of_valid(meta["table"]),
        marks=arrays[SEEN],
    )


def checked_numbering(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Numbering | Dictionary | None:
    """Return the numbering of the features with columns, or the dictionary; None if column j is feature j. Raises
    BadInputError if it is invalid."""
    if meta["dictionary"] is not None:
        for name, (shape, kind) in dictionary_shapes(meta["dictionary"]).items():
            check_array(name, arrays, shape, kind)
        try:
            return Dictionary(arrays[IDS], arrays[NAMES], arrays[ENDS], meta["dictionary"]["shared"])
        except ValueError as error:
            raise BadInputError(f"is not a valid model: {error}") from error
    if meta["columns"] is None:
        return None
    check_array(FEATURES, arrays, (meta["columns"],), "i4")
    try:
        numbering = Numbering(arrays[FEATURES], meta["features"])
    except ValueError as error:
        raise BadInputError(f"is not a valid model: {error}") from error
    frequent = np.array([feature for feature, _ in meta["frequent"]], dtype=np.int32)
    if (numbering.columns_of(frequent) < 0).any():
        refuse("a frequent feature has no column")
    return numbering
