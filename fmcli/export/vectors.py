"""Vectors of rows: of users and items, for an index of inner products, and the factors of any rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.entries import values_of
from fmcli.errors import UsageError, called
from fmcli.export.in_unit import in_unit
from fmcli.losses.links import Floats
from fmcli.scoring.recommend.factor_scores import FactorScores
from fmcli.scoring.scorer import Scorer
from fmcli.system.files import atomic_output

Vectors = NDArray[np.float32]
# The axes of factors by feature: outputs, features, rank.
FACTOR_AXES = 3


def vectors(scorer: Scorer) -> tuple[Vectors, Vectors]:
    """Return (items, n) and (users, n) vectors, whose inner product is the score of a pair up to a constant per user.

    At the end, an item has its own terms, such as its weight, and a user has 1. Numbers that are 0 for all items or all
    users are left out, such as a bilinear model's factors of users in the vectors of items.

    Raises UsageError for a model that does not know its users and items, and NotEnoughMemoryError.
    """
    if scorer.known is None:
        raise UsageError(f"{scorer.path} does not know its users and items, as models of {called('implicit')} do")
    users, items = scorer.known.users, scorer.known.items
    scores = FactorScores(scorer, items)
    item, user = scores.of(()).parts[0].T, scores.vectors(users, (), second=False).parts[0]
    used = np.append(np.flatnonzero(item[:, :-1].any(axis=0) & user[:, :-1].any(axis=0)), item.shape[1] - 1)
    return item[:, used], user[:, used]


def save_vectors(rows: Vectors, path: str) -> None:
    """Write vectors for numpy.load, row by row. Raises OutputError."""
    with atomic_output(path) as file:
        np.save(file, np.ascontiguousarray(rows), allow_pickle=False)


def factors_of(scorer: Scorer, rows: Dataset) -> Floats:
    """Return (rows, outputs * rank) the sum of the factors of a row's features, weighted by their values. Raises
    UsageError for a model without an array V of factors by feature, or of several draws."""
    from scipy.sparse import csr_array

    model, transform = scorer.model, scorer.transform
    factors = model.parameters.get("V")
    if factors is None or factors.ndim != FACTOR_AXES or len(scorer.draws) > 1:
        raise UsageError(
            f"{scorer.path} is of kind {scorer.meta['model']} with {len(scorer.draws)} draws; factors of rows need a "
            "single draw, and an array V of factors by feature, as fm has"
        )
    rows = transform.valued(rows)
    matrix = csr_array((values_of(rows), rows.index, rows.indptr), shape=(rows.rows, rows.features))
    found = in_unit(model.exported(), scorer.labels.unit, dict(scorer.meta["options"]))["V"]
    return np.hstack([matrix @ each.astype(np.float64) for each in found])
