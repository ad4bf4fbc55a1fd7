"""Why an item is recommended: the largest parts of its score, as in predict --explain."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.data.united import united
from fmcli.scoring.explain.explanation import MOST_SETS, Row, set_at
from fmcli.scoring.explain.splitter import Splitter
from fmcli.scoring.recommend.recommender import Recommender, Rows
from fmcli.text import readable


class Reasons:
    """The parts of scores that raise an item above others.

    count : the number of parts per item.

    Raises UsageError for a kind of model whose scores are not sums of such parts.
    """

    def __init__(self, recommender: Recommender, count: int) -> None:
        self.recommender, self.count = recommender, count
        scorer = recommender.scorer
        self.splits = scorer.splits()

    def of(self, contexts: Dataset, context: Rows, items: Rows) -> Iterator[list[tuple[str, float]]]:
        """Yield, for each pair of a context and an item (given by their rows), the names and values of the largest
        positive main effects and pairwise interactions that involve a feature of the item."""
        scorer = self.recommender.scorer
        data = scorer.prepared(united(contexts, self.recommender.items, context, items))
        splitters = [Splitter(split, 0) for split in self.splits]
        for number in range(data.rows):
            columns = data.index[data.indptr[number] : data.indptr[number + 1]]
            of_item = self.recommender.of_items[columns]
            row = Row(data, number, len(columns), splitters, scorer.labels.unit)
            parts: list[tuple[float, list[int]]] = []
            for size in range(1, min(2, row.largest()) + 1):
                if comb(len(columns), size) > MOST_SETS:
                    continue
                terms = row.terms(size)
                for place in np.argsort(-terms, kind="stable").tolist():
                    members = set_at(place, len(columns), size)
                    if terms[place] <= 0 or sum(len(one[1]) == size for one in parts) == self.count:
                        break
                    if of_item[members].any():
                        parts.append((float(terms[place]), members))
            best = sorted(parts, key=lambda part: -part[0])[: self.count]
            yield [
                (" & ".join(readable(str(name)) for name in scorer.ids(columns[some])), value) for value, some in best
            ]
