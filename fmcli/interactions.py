"""How strongly pairs of features act together in a model of whatever kind, by its scores alone."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli._core.data import Dataset
from fmcli._core.layout import REAL_TYPE
from fmcli.metrics import Floats
from fmcli.prediction import Scorer
from fmcli.validation import score_rows

# Differences of scores of which rounding may be all there is, in units of the scores' own rounding.
ROUNDINGS = 16


def interactions(scorer: Scorer) -> tuple[NDArray[np.int32], NDArray[np.int32] | None, Floats]:
    """What pairs of frequent features add to what each of them does alone, all having the value 1.

    That is f(i, j) - f(i) - f(j) + f() of the scores f of rows that have nothing else, as they are (not scaled to unit
    length); rounding counts as 0.

    Returns
    -------
    pairs : (n, 2) features, the first one with the lower index.
    fields : (n, 2) their fields; None where the model knows no fields.
    added : (n, outputs).
    """
    frequent = np.array(sorted(scorer.meta["frequent"]), dtype=np.int32).reshape(-1, 2)
    places = np.array(list(combinations(range(len(frequent)), 2)), dtype=np.int64).reshape(-1, 2)
    alone = np.arange(len(frequent))
    index = np.concatenate([alone, places.reshape(-1)])
    lengths = np.concatenate([[0], np.ones(len(alone), dtype=np.int64), np.full(len(places), 2)])
    rows = Dataset(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.ascontiguousarray(frequent[index, 0]),
        None,
        None,
        scorer.model.features,
        field=np.ascontiguousarray(frequent[index, 1]) if scorer.needs_fields else None,
    )
    score = score_rows(scorer.model, rows)
    empty, single, double = score[0], score[1 : 1 + len(alone)], score[1 + len(alone) :]
    added: Any = double - single[places[:, 0]] - single[places[:, 1]] + empty
    size = np.abs(score).max(initial=0)
    added[np.abs(added) <= ROUNDINGS * np.finfo(REAL_TYPE).eps * size] = 0
    return frequent[places, 0], frequent[places, 1] if scorer.needs_fields else None, added
