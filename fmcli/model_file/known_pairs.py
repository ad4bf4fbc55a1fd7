"""The users, items and observed pairs that a model was trained on, in its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.shards.observed_rows import AllPairsTerms, Seen
from fmcli.records import dataclass

# The prefix of these arrays in a model file, which only a model of observed pairs has.
OBSERVED = "observed"
SIDES = ("users", "items")
BEGINS, SEEN_ITEMS = f"{OBSERVED}.begins", f"{OBSERVED}.seen"
# The weight of all pairs, the power of the l2 penalty, and whether labels are counts.
TERMS = f"{OBSERVED}.terms"
# The arrays of a side: its fields, and its rows, whose values may be left out if all are 1.
TYPES = {"fields": "i4", "begins": "i8", "index": "i4", "value": "f4"}

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class KnownPairs:
    """Users and items with the columns of the model, and their pairs.

    users, items : Dataset, without labels.
    terms : what rows of pairs were, and what all pairs added to the objective.
    """

    users: Dataset
    items: Dataset
    seen: Seen
    terms: AllPairsTerms

    def arrays(self) -> Arrays:
        """Return the arrays of the file by name."""
        terms = self.terms
        numbers = np.array([terms.unseen_weight, terms.l2_power, terms.counted])
        found: Arrays = {BEGINS: self.seen.begins, SEEN_ITEMS: self.seen.items, TERMS: numbers}
        for side, data, fields in zip(SIDES, (self.users, self.items), (terms.users, terms.items), strict=True):
            found[name_of(side, "fields")] = np.array(sorted(fields), dtype=np.int32)
            found |= {name_of(side, "begins"): data.indptr, name_of(side, "index"): data.index}
            if data.value is not None:
                found[name_of(side, "value")] = data.value
        return found

    def moved(self, columns: NDArray[Any], features: int) -> KnownPairs:
        """Return the same pairs with other columns. columns : what each column becomes; features : how many there
        are."""
        users, items = (
            Dataset(data.indptr, columns[data.index].astype(np.int32), data.value, None, features)
            for data in (self.users, self.items)
        )
        return KnownPairs(users, items, self.seen, self.terms)


def name_of(side: str, part: str) -> str:
    """Return the name of an array of the rows of a side."""
    return f"{OBSERVED}.{side}.{part}"


def expected_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shapes and types of the arrays that a file has; none for a model of other rows."""
    if BEGINS not in arrays:
        return {}
    types = {BEGINS: "i8", SEEN_ITEMS: "i4", TERMS: "f8"}
    for side in SIDES:
        of_side = {name_of(side, part): kind for part, kind in TYPES.items()}
        types |= {name: kind for name, kind in of_side.items() if name in arrays or not name.endswith("value")}
    return {name: ((arrays[name].size if name in arrays else 0,), kind) for name, kind in types.items()}


def saved_pairs(arrays: Mapping[str, NDArray[Any]], features: int) -> KnownPairs | None:
    """Return what a file has; None for a model of other rows. Raises ValueError if it is not valid."""
    if BEGINS not in arrays:
        return None
    numbers, fields = arrays[TERMS].tolist(), [arrays[name_of(side, "fields")] for side in SIDES]
    valid = len(numbers) == 3 and 0 < numbers[0] < np.inf and 0 <= numbers[1] < np.inf and numbers[2] in (0, 1)
    if not valid or any((of < 0).any() for of in fields):
        raise ValueError("its pairs have weights or fields that are none")
    of_users, of_items = (frozenset(of.tolist()) for of in fields)
    terms = AllPairsTerms(numbers[0], numbers[1], users=of_users, items=of_items, counted=bool(numbers[2]))
    users, items = (
        Dataset(
            arrays[name_of(side, "begins")],
            arrays[name_of(side, "index")],
            arrays.get(name_of(side, "value")),
            None,
            features,
        )
        for side in SIDES
    )
    begins, seen = arrays[BEGINS], arrays[SEEN_ITEMS]
    valid = len(begins) == users.rows + 1 and begins[0] == 0 and begins[-1] == len(seen)
    if not valid or (np.diff(begins) < 0).any():
        raise ValueError("the pairs of its users do not begin where they must")
    first = np.zeros(len(seen) + 1, dtype=np.bool_)
    first[begins] = True
    if len(seen) and not (0 <= seen.min() <= seen.max() < items.rows and ((np.diff(seen) > 0) | first[1:-1]).all()):
        raise ValueError("the pairs of its users are not of its items, or do not increase")
    return KnownPairs(users, items, Seen(begins, seen), terms)
