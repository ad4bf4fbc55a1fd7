"""The features most similar to a given feature: their factors have nearly the same direction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.errors import UsageError
from fmcli.inspect.importance import columns_of_features
from fmcli.inspect.inspection import Row
from fmcli.losses.links import Floats
from fmcli.models.split import FieldPairs, Products, Split, TablePairs, Terms
from fmcli.names import no_such
from fmcli.scoring.explain.splitter import Splitter
from fmcli.scoring.scorer import Scorer
from fmcli.text import readable

# The number of rows whose factors are compared at a time.
ROWS_AT_ONCE = 1 << 12

Columns = NDArray[np.intp]


class RowFactors:
    """The factors of rows, over all terms of pairs, scaled by the weights of kernels: the inner product of two rows is
    their term, except for signs of the weights.

    Raises UsageError for a kind of model without factors of features.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        splits = scorer.splits()
        if any(isinstance(terms, TablePairs) for terms in splits[0].terms) or not splits[0].terms:
            raise UsageError(f"{scorer.meta['model']} has no factors of features, which could be compared")
        self.terms = [terms for split in splits for terms in split.terms]
        self.draws = len(splits)

    def of(self, data: Dataset) -> Floats:
        """Return (rows, n) the factors of rows; with fields, of rows of one feature each."""
        found = []
        for terms in self.terms:
            for output in range(self.scorer.model.outputs):
                if isinstance(terms, FieldPairs):
                    found.append(terms.array[output][data.index].reshape(data.rows, -1).astype(np.float64))
                    continue
                first, second = (self.halves(terms, output, data, second=second) for second in (False, True))
                several = isinstance(terms, Products) and len(terms.slots) > 1
                equivalent = np.sign(first) * np.sqrt(np.abs(first * second))
                found += [first, second] if several else [equivalent]
        return np.hstack(found)

    def cosines(self, one: Dataset, data: Dataset) -> Floats:
        """Return (rows) the cosine similarity of the factors of one row and of each other row."""
        mine, cosine = self.of(one), np.empty(data.rows)
        for start in range(0, data.rows, ROWS_AT_ONCE):
            some = np.arange(start, min(start + ROWS_AT_ONCE, data.rows), dtype=np.int32)
            theirs = self.of(data.take(some))
            lengths = np.linalg.norm(theirs, axis=1) * np.linalg.norm(mine)
            cosine[some] = theirs @ mine[0] / np.where(lengths > 0, lengths, np.inf)
        return cosine

    def halves(self, terms: Terms, output: int, data: Dataset, *, second: bool) -> Floats:
        """Return (rows, n) the vectors of rows for some terms."""
        splitter = Splitter(Split(np.zeros(self.scorer.model.outputs), None, [terms]), output)
        out = np.empty((data.rows, splitter.width))
        splitter.halves(data, 0, data.rows, np.empty(data.rows), out, second=second)
        return out


class Similar:
    """Compares the features of a model with one of them.

    column : the column of this feature.

    Raises UsageError for a feature that the model does not have, and for a kind of model without factors of features.
    """

    def __init__(self, scorer: Scorer, name: str) -> None:
        self.scorer, self.factors = scorer, RowFactors(scorer)
        self.column = self._column(name)

    def _column(self, name: str) -> int:
        """Return the column of a feature by its name in text of features or in lists."""
        columns = np.flatnonzero(self.scorer.seen)
        names = [str(one) for one in self.scorer.ids(columns)]
        place = {readable(one): at for at, one in enumerate(names)} | {one: at for at, one in enumerate(names)}
        if name not in place:
            of_table = self.scorer.transform.table is not None and "=" not in name
            hint = f"; the features of a column are named COLUMN=CELL, such as {readable(names[0])}" if of_table else ""
            raise UsageError(f"{no_such('feature', name, place)}{hint}")
        return int(columns[place[name]])

    def candidates(self) -> Columns:
        """Return the other features from the same column of the training table; for models of other text, all other
        features that occurred in training."""
        chosen = self.scorer.seen.copy()
        if (table := self.scorer.transform.table) is not None:
            place = columns_of_features(self.scorer, table)
            chosen &= place == place[self.column]
        chosen[self.column] = False
        return np.flatnonzero(chosen)

    def nearest(self, top: int) -> list[Row]:
        """Return the features with the highest cosine similarity of factors (over all classes and draws), in decreasing
        order, with their numbers of training rows and, without fields, the pairwise effect on each class's score when
        both occur with value 1, averaged over draws."""
        columns = self.candidates()
        cosine = self.factors.cosines(self._rows(np.array([self.column])), self._rows(columns))
        best = np.argsort(-cosine, kind="stable")[:top]
        names, times = self.scorer.ids(columns[best]), self.scorer.occurrences.rows_of(columns[best].tolist())
        together = self.together(columns[best])
        return [
            {"feature": name, "rows": rows, "cosine": float(cosine[at]), **({} if added is None else added)}
            for at, name, rows, added in zip(best.tolist(), names, times, together, strict=True)
        ]

    def together(self, columns: Columns) -> list[dict[str, float] | None]:
        """Return the joint contribution of the feature and each other feature to the score, beyond each alone; None
        with fields."""
        outputs = self.scorer.model.outputs
        if any(isinstance(terms, FieldPairs) for terms in self.factors.terms):
            return [None] * len(columns)
        added, own, others = np.zeros((outputs, len(columns))), self._rows(np.array([self.column])), self._rows(columns)
        for terms in self.factors.terms:
            for output in range(outputs):
                first = self.factors.halves(terms, output, own, second=False)
                second = self.factors.halves(terms, output, others, second=True)
                added[output] += second @ first[0] / self.factors.draws
        names = ["adds"] if outputs == 1 else [f"adds_{text}" for text in self.scorer.labels.texts]
        return [dict(zip(names, each, strict=True)) for each in added.T.tolist()]

    def _rows(self, columns: Columns) -> Dataset:
        """Return rows of one feature each."""
        return Dataset(np.arange(len(columns) + 1), columns.astype(np.int32), None, None, self.scorer.model.features)
