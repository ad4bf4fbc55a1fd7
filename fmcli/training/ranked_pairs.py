"""Validation by rankings: the held-out pair of each context, among all items that the context has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.entries import rows_of_entries
from fmcli.data.labels import Relevance
from fmcli.data.shards.observed_rows import ObservedRows, Seen, Sides
from fmcli.data.transform import Transform
from fmcli.data.united import Rows
from fmcli.losses.links import Floats
from fmcli.models.model import Model
from fmcli.records import dataclass
from fmcli.registry.specs import Spec
from fmcli.scoring.draws import Draws
from fmcli.scoring.metrics import Outcome
from fmcli.scoring.recommend.factor_scores import PairScores, pair_scores
from fmcli.scoring.recommend.rankings import UserItemPairs, ranked
from fmcli.scoring.scorer import Scorer
from fmcli.training.validation import Validation

# The default metrics; the first one chooses the epoch.
METRICS = ("ndcg@10", "recall@10")


class PopularScores(PairScores):
    """The scores of pairs by the popularity (items) of the item."""

    def __init__(self, popularity: Floats) -> None:
        self.popularity = popularity

    def each(self, contexts: Dataset) -> Iterator[tuple[int, NDArray[np.float32], Floats]]:
        popularity = self.popularity.astype(np.float32)
        yield 0, np.broadcast_to(popularity, (contexts.rows, len(popularity))), np.zeros(contexts.rows)

    def exact(self, contexts: Dataset, one: Rows, other: Rows) -> Floats:
        return self.popularity[other]


@dataclass
class RankedPairs(Validation):
    """Held-out pairs, ready to rank.

    pairs : the contexts with held-out pairs, all items, and the pairs.
    popular : the scores of items by the number of their pairs to train on.
    scorer : returns what scores pairs by a model.
    """

    pairs: UserItemPairs = field(kw_only=True)
    popular: PopularScores = field(kw_only=True)
    scorer: Callable[[Model], Scorer] = field(kw_only=True)

    def metrics_that_choose(self) -> tuple[str, ...]:
        return self.metrics

    def measure(self, model: Model, outcome: Outcome | None = None) -> dict[str, float]:
        return self._figures(self.pairs, pair_scores(self.scorer(model), self.pairs.items)[0])

    def of_popularity(self) -> dict[str, float]:
        """Return the metrics of the most popular items first."""
        return self._figures(self.pairs._replace(last=np.zeros_like(self.pairs.last)), self.popular)

    def _figures(self, pairs: UserItemPairs, scores: PairScores) -> dict[str, float]:
        return ranked(self.metrics, pairs, scores, relevance=Relevance(), threads=self.threads).figures


def ranked_pairs(
    like: Validation, source: ObservedRows, held: NDArray[np.int32], transform: Transform, spec: Spec
) -> RankedPairs:
    """Return the held-out pairs of a run, ready to rank. like : what measures the model on the rows to train on."""
    sides = Sides.of(source.data, source.all_numbers, source.of_items)
    place = np.searchsorted(source.all_numbers, held)
    contexts = np.unique(sides.context[place])
    user = np.searchsorted(contexts, sides.context[place])
    order = np.lexsort((sides.item[place], user))
    trained = np.searchsorted(source.all_numbers, source.rows)
    mine = trained[np.isin(sides.context[trained], contexts)]
    seen = Seen.of(np.searchsorted(contexts, sides.context[mine]), sides.item[mine], len(contexts))
    learned = source.data.seen(source.rows)[sides.items.index]
    known = np.bincount(rows_of_entries(sides.items), learned)
    pairs = UserItemPairs(
        sides.contexts.take(contexts.astype(np.int32)),
        sides.items,
        user[order],
        sides.item[place][order],
        np.ones(len(held)),
        seen,
        known == 0,
    )
    meta = {"model": spec.model, "options": spec.values, "members": 1}
    whole = replace(transform, frequent=None)
    others = {name: value for name, value in vars(like).items() if name in like.__dataclass_fields__}
    return RankedPairs(
        **{**others, "data": source.data, "rows": held, "held_out": True},
        pairs=pairs,
        popular=PopularScores(np.bincount(sides.item[trained], minlength=sides.items.rows).astype(np.float64)),
        scorer=lambda model: Scorer(Draws(model), whole, meta, "the model"),
    )
