"""The fields of features, for models that do not use the fields of entries."""

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset


def fields_of_features(data: Dataset) -> NDArray[np.int32]:
    """(features) The field of the first entry of each feature, counted without gaps; 0 for those that do not occur. The
    entries must have fields."""
    assert data.field is not None
    fields = np.zeros(data.features, dtype=np.int32)
    place = np.unique(data.field, return_inverse=True)[1]
    fields[data.index[::-1]] = place[::-1]  # of equal indices, the last one stays
    return fields


def without_fields(data: Dataset) -> Dataset:
    """The same rows without fields, so that a feature is in a row once: its values in several fields are added."""
    if data.field is None:
        return data
    first = np.ones(data.nnz, dtype=np.bool_)
    first[1:] = data.index[1:] != data.index[:-1]
    first[data.indptr[:-1][np.diff(data.indptr) > 0]] = True
    if first.all():
        return data.changed(field=None)
    places = np.flatnonzero(first)
    values = np.ones(data.nnz, dtype=np.float32) if data.value is None else data.value
    kept = {name: getattr(data, name) for name in ("label", "weight", "group", "numbering")}
    return Dataset(
        np.concatenate([[0], np.cumsum(first)])[data.indptr].astype(np.int64),
        data.index[places],
        np.add.reduceat(values, places),
        features=data.features,
        **kept,
    )
