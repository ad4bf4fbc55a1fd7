"""How strongly pairs of features act together in a model of whatever kind, by its scores alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.models.layout import REAL_TYPE
from fmcli.scoring.metrics import Floats
from fmcli.scoring.prediction import Scorer
from fmcli.scoring.rows import score_rows

# Differences of scores of which rounding may be all there is, in units of the scores' own rounding.
ROUNDINGS = 16


@dataclass(frozen=True)
class Pairs:
    """Pairs of frequent features, of each the one with the lower index first.

    features : int32 (n, 2).
    fields : int32 (n, 2), theirs; None where the model knows no fields.
    together : (n), how many of the training rows looked at have both; None: the file does not tell.
    added : (n, outputs), what each pair adds to a score.
    """

    features: NDArray[np.int32]
    fields: NDArray[np.int32] | None
    together: NDArray[Any] | None
    added: Floats


def interactions(scorer: Scorer) -> Pairs:
    """What pairs of frequent features add to what each of them does alone, all having the value 1.

    That is f(i, j) - f(i) - f(j) + f() of the scores f of rows that have nothing else, as they are (not scaled to unit
    length); rounding counts as 0. Pairs that no training row has are left out, where the model knows.
    """
    found = scorer.occurrences
    alone = np.arange(len(found.features))
    places = np.array(list(combinations(alone.tolist(), 2)), dtype=np.int64).reshape(-1, 2)
    together = found.together
    if together is not None:
        places, together = places[together > 0], together[together > 0]
    swapped = found.features[places[:, 0]] > found.features[places[:, 1]]
    places[swapped] = places[swapped, ::-1]
    order = np.lexsort(found.features[places].T[::-1])
    places, together = places[order], None if together is None else together[order]
    index = np.concatenate([alone, places.reshape(-1)])
    lengths = np.concatenate([[0], np.ones(len(alone), dtype=np.int64), np.full(len(places), 2)])
    rows = Dataset(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        found.features[index],
        None,
        None,
        scorer.model.features,
        field=found.fields[index] if scorer.needs_fields else None,
    )
    score = score_rows(scorer.model, rows)
    empty, single, double = score[0], score[1 : 1 + len(alone)], score[1 + len(alone) :]
    added: Any = double - single[places[:, 0]] - single[places[:, 1]] + empty
    size = np.abs(score).max(initial=0)
    added[np.abs(added) <= ROUNDINGS * np.finfo(REAL_TYPE).eps * size] = 0
    fields = found.fields[places] if scorer.needs_fields else None
    return Pairs(found.features[places], fields, together, added)
