"""Vectors of the users and the items of a model, for an index of inner products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.errors import UsageError, called
from fmcli.scoring.recommend.factor_scores import FactorScores
from fmcli.scoring.scorer import Scorer
from fmcli.system.files import atomic_output

Vectors = NDArray[np.float32]


def vectors(scorer: Scorer) -> tuple[Vectors, Vectors]:
    """Return (items, n) and (users, n) vectors, whose inner product is the score of a pair up to a constant per user.

    At the end, an item has its own terms, such as its weight, and a user has 1.

    Raises UsageError for a model that does not know its users and items, and NotEnoughMemoryError.
    """
    if scorer.known is None:
        raise UsageError(f"{scorer.path} does not know its users and items, as models of {called('implicit')} do")
    users, items = scorer.known.users, scorer.known.items
    of_items = np.zeros(scorer.model.features, dtype=np.bool_)
    of_items[items.index] = True
    scores = FactorScores(scorer, items, of_items)
    return scores.of(()).parts[0].T, scores.vectors(users, (), second=False).parts[0]


def save_vectors(rows: Vectors, path: str) -> None:
    """Write vectors for numpy.load, row by row. Raises OutputError."""
    with atomic_output(path) as file:
        np.save(file, np.ascontiguousarray(rows), allow_pickle=False)
