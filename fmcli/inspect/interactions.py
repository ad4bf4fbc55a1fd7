"""The strength of pairwise interactions in a model of any kind, computed only from its scores."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.links import Floats
from fmcli.models.layout import REAL_TYPE
from fmcli.records import dataclass
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import Scorer

# Differences of scores below this many units of rounding may be rounding errors.
ROUNDINGS = 16


@dataclass(frozen=True)
class FeaturePairs:
    """Pairs of frequent features, each with the lower index first.

    features : int32 (n, 2).
    fields : int32 (n, 2), the fields of the features; None if the model has no fields.
    together : (n), the number of examined training rows that have both features; None: not known.
    added : (n, outputs), the interaction: the contribution of each pair to a score.
    places : (n, 2), the positions of the features among the frequent features.
    alone : (frequent features, outputs), the contribution of each frequent feature alone.
    """

    features: NDArray[np.int32]
    fields: NDArray[np.int32] | None
    together: NDArray[Any] | None
    added: Floats
    places: NDArray[np.int64]
    alone: Floats


def interactions(scorer: Scorer) -> FeaturePairs:
    """Return the interactions of pairs of frequent features, for the feature value 1.

    The interaction is f(i, j) - f(i) - f(j) + f(), where f is the score of a row with only these features, not scaled
    to unit length; rounding errors count as 0. If the model has counts, pairs that occur in no training row are left
    out.
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
    score = scorer.labels.unit.differences(score_rows(scorer.model, rows))
    empty, single, double = score[0], score[1 : 1 + len(alone)], score[1 + len(alone) :]
    added: Any = double - single[places[:, 0]] - single[places[:, 1]] + empty
    size = np.abs(score).max(initial=0)
    added[np.abs(added) <= ROUNDINGS * np.finfo(REAL_TYPE).eps * size] = 0
    fields = found.fields[places] if scorer.needs_fields else None
    return FeaturePairs(found.features[places], fields, together, added, places, single - empty)
