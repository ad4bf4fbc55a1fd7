"""New features, which a run learns alone: all other parameters of the model stay as they are.

The result for a feature depends on its rows, and on other new features only if they share rows, directly or through
further new features: features connected in this way are a set. So no random number depends on the place of a feature or
a row among all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.mixing import WEYL, Keys, mixed
from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.numbering import Numbering
from fmcli.models.layout import REAL_TYPE
from fmcli.models.parameters import Resumable
from fmcli.records import dataclass

# The numbers of features that are not new, and of rows of parameters that do not belong to new features.
NONE = -1


@dataclass(frozen=True)
class NewFeatures:
    """The new features of some rows.

    number : int32 (features), the number of the set that each feature is in, or NONE.
    sets : how many sets there are.
    keys : (features) the keys of random numbers, from the id of each feature.
    rows : int32, the numbers of the rows that have a new feature.
    """

    number: NDArray[np.int32]
    sets: int
    keys: Keys
    rows: NDArray[np.int32]

    @property
    def features(self) -> NDArray[np.bool_]:
        """(features) which of them are new."""
        return np.asarray(self.number != NONE)


def find(data: Dataset, seen: NDArray[np.bool_]) -> NewFeatures:
    """Return the new features of rows. seen : (features) which features are known, of the first ones."""
    new = data.seen()
    new[: len(seen)] &= ~seen[: len(new)]
    entries = np.flatnonzero(new[data.index])
    column = data.index[entries]
    row = np.searchsorted(data.indptr, entries, side="right") - 1
    rows, at = np.unique(row, return_inverse=True)
    least = connected(column, at, data.features, len(rows))
    _, number = np.unique(least[new], return_inverse=True)
    numbers = np.full(data.features, NONE, dtype=np.int32)
    numbers[new] = number
    sets = int(number.max(initial=NONE)) + 1
    return NewFeatures(numbers, sets, keys_of(data.numbering, data.features, new), rows.astype(np.int32))


def connected(column: NDArray[np.int32], row: NDArray[np.intp], columns: int, rows: int) -> NDArray[np.int32]:
    """Return int32 (columns): the least column that each one is connected with, by rows that have both or a chain of
    columns between them. The entries are in these columns and rows."""
    least = np.arange(columns, dtype=np.int32)
    while True:
        of_row = np.full(rows, columns, dtype=np.int32)
        np.minimum.at(of_row, row, least[column])
        nearer = least.copy()
        np.minimum.at(nearer, column, of_row[row])
        nearer = nearer[nearer]
        if np.array_equal(nearer, least):
            return least
        least = nearer


def keys_of(numbering: Numbering | Dictionary | None, columns: int, wanted: NDArray[np.bool_]) -> Keys:
    """Return the keys of the wanted columns: numbers that belong to their features, whatever others there are."""
    keys = np.arange(columns, dtype=np.uint64)
    if isinstance(numbering, Numbering):
        return numbering.ids.astype(np.uint64)
    if numbering is not None:
        chosen = np.flatnonzero(wanted)
        keys[chosen] = [key_of(id) for id in numbering.written(chosen.tolist())]
    return keys


def key_of(id: int | str) -> int:
    """Return the key of a feature; a name has its hash."""
    if isinstance(id, int):
        return id
    from hashlib import blake2b  # which takes as long as learning a hundred users

    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "little")


def normal_numbers(keys: Keys, count: int, seed: int, stream: int) -> NDArray[np.float64]:
    """Return (keys, count) normal numbers that depend on the key, the seed and the stream only (Box and Muller)."""
    purpose = mixed(np.array([seed, stream], dtype=np.uint64))
    with np.errstate(over="ignore"):
        first = mixed(keys ^ mixed(purpose[:1] + purpose[1:]))
        words = mixed(first[:, None] + np.arange(2 * count, dtype=np.uint64) * WEYL)
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    angle = 2 * np.pi * uniform[:, count:]
    return np.asarray(np.sqrt(-2 * np.log(uniform[:, :count])) * np.cos(angle))


def start(model: Resumable, new_features: NewFeatures, init_std: float | list[float], seed: int) -> None:
    """Set the start values of new features in a model with start values for all features (Resumable.start). Random
    start values depend on the feature alone."""
    new = np.flatnonzero(new_features.features)
    names = [array.name for layout in model.layout if layout.start == "random" for array in layout.body]
    stds = init_std if isinstance(init_std, list) else [init_std] * len(names)
    for number, (name, std) in enumerate(zip(names, stds, strict=True)):
        axis = model.feature_axis(name)
        if axis is None:
            continue
        values: NDArray[Any] = np.moveaxis(model.parameters[name], axis, 0)
        shape = values.shape[1:]
        drawn = normal_numbers(new_features.keys[new], int(np.prod(shape)), seed, number)
        started = values[new] != 0  # of the others, no score depends on them
        values[new] = np.where(started, std * drawn.reshape(len(new), *shape), 0).astype(REAL_TYPE)
