"""The scores of many pairs of a context and an item: fast with an error bound, or exact pair by pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.entries import rows_of_entries, values_of
from fmcli.data.scaling import Scaling
from fmcli.data.united import Rows, united
from fmcli.errors import UsageError
from fmcli.losses.links import Floats
from fmcli.models.split import FieldPairs, Products, Split, TablePairs, by_degree
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.scoring.averages import MeanScore
from fmcli.scoring.explain.splitter import Splitter
from fmcli.scoring.scorer import Scorer
from fmcli.system.memory import require_if_large

# The unit roundoff of the numbers in the products: half the distance from 1 to the next number.
UNIT = float(np.finfo(np.float32).eps / 2)
# Roundings of a score besides the sums over entries and factors, which are counted; and a safety factor for every
# rounding, more than any formula needs.
ROUNDINGS, SAFETY = 16, 4
# The number of rows whose vectors are computed at a time.
ROWS_AT_ONCE = 1 << 12
# The number of scores of a block of contexts that are computed at a time, by products and by pairs.
ITEMS_OF_PRODUCTS, PAIRS_AT_ONCE = 1 << 12, 1 << 17

Singles = NDArray[np.float32]


class ScoredPairs(NamedTuple):
    """The scores of pairs.

    order : (pairs) numbers that increase with the prediction: scores; for levels with several draws, mean levels.
    score : (pairs, columns) as Scorer.scores, for Scorer.predicted.

    Both are in the user's unit.
    """

    order: Floats
    score: Floats


def scored(scorer: Scorer, pairs: Dataset) -> ScoredPairs:
    """Return the scores of pairs, with the same bits as predict."""
    if scorer.transform.norm_of_all:
        pairs = pairs.normalized()
    data, draws = scorer.prepared(pairs), scorer.draws
    undo = scorer.labels.unit.undo
    if len(draws) == 1:
        score = undo(next(draws.scores(data)))
        return ScoredPairs(score[:, 0], score)
    mean, link = MeanScore(scorer.labels.loss), LOSSES[scorer.labels.loss].load_link()
    for each in draws.scores(data):
        mean.add(each)
    score = undo(mean.score())
    return ScoredPairs((score if link.number is None else link.number(score))[:, 0], score)


class PairScores(ABC):
    """The scores of pairs of some contexts and all items."""

    @abstractmethod
    def each(self, contexts: Dataset) -> Iterator[tuple[int, Singles, Floats]]:
        """Yield blocks of items: the number of the first item; (contexts, n) the scores of its n items, up to a
        constant per context; and (contexts) error bounds. The scores may be overwritten later."""

    @abstractmethod
    def exact(self, contexts: Dataset, one: Rows, other: Rows) -> Floats:
        """Return the scores that order pairs of the context one[i] and the item other[i]."""


class ModelScores(PairScores):
    """The scores of pairs by a model."""

    def __init__(self, scorer: Scorer, items: Dataset) -> None:
        self.scorer, self.items = scorer, items

    def exact(self, contexts: Dataset, one: Rows, other: Rows) -> Floats:
        return scored(self.scorer, united(contexts, self.items, one, other)).order


class PairwiseScores(ModelScores):
    """Scores of the pairs, one by one."""

    def each(self, contexts: Dataset) -> Iterator[tuple[int, Singles, Floats]]:
        step = max(1, PAIRS_AT_ONCE // max(contexts.rows, 1))
        for start in range(0, self.items.rows, step):
            some = np.arange(start, min(start + step, self.items.rows), dtype=np.int32)
            one = np.repeat(np.arange(contexts.rows, dtype=np.int32), len(some))
            score = self.exact(contexts, one, np.tile(some, contexts.rows)).reshape(contexts.rows, -1)
            with np.errstate(over="ignore"):
                yield start, score.astype(np.float32), 2 * UNIT * np.abs(score).max(axis=1) + np.finfo(np.float32).tiny


@dataclass(frozen=True)
class Vectors:
    """The vectors of some rows.

    parts : for each degree, the numbers whose products are scores: (rows, n), for items (n, rows).
    own, size : for each degree (rows), bounds of each row's own terms, and of the length of its vector.
    squares : (rows) the squared length of each row.
    """

    parts: list[Singles]
    own: list[Floats]
    size: list[Floats]
    squares: Singles


class FactorScores(ModelScores):
    """Scores as inner products of vectors of contexts and of items, by the split of the model (fmcli.models.split).
    Raises UsageError for a model whose scores are not such products."""

    def __init__(self, scorer: Scorer, items: Dataset) -> None:
        super().__init__(scorer, items)
        splits = scorer.splits()
        if any(isinstance(terms, TablePairs) for terms in splits[0].terms):
            raise UsageError("its pairs of features have a weight each, and no factors")
        self.with_length = scorer.transform.norm or scorer.transform.norm_of_all
        degrees = [by_degree(split) if self.with_length else {0: split} for split in splits]
        if degrees[0] is None:
            raise UsageError("its score has terms of all degrees, each with another power of the length of the row")
        self.degrees = list(degrees[0])
        self.splits: list[list[Split]] = [[one[degree] for one in degrees if one] for degree in self.degrees]
        self.constant = max(abs(float(split.constant[0])) for split in splits)
        self.fields = [] if items.field is None else np.unique(items.field).tolist()
        self._vectors: dict[tuple[int, ...], Vectors] = {}
        self.of(())  # the only vectors if there are no fields

    @property
    def _takes_fields(self) -> bool:
        return any(isinstance(terms, FieldPairs) for split in self.splits for one in split for terms in one.terms)

    def of(self, fields: Sequence[int]) -> Vectors:
        """Return the vectors of the items, for contexts with these fields. Raises NotEnoughMemoryError."""
        key = tuple(fields) if self._takes_fields else ()
        found = self._vectors.get(key)
        if found is None:
            found = self.vectors(self.items, key, second=True)
            self._vectors = {key: found}
        return found

    def vectors(self, data: Dataset, fields: Sequence[int], *, second: bool) -> Vectors:
        """Return the vectors of rows: contexts with these fields, or items."""
        unscaled, data = data, self.scaled(data, second=second)
        whole = Vectors([], [], [], self.squares(unscaled, data))
        for splits in self.splits:
            splitters = [Splitter(split, 0, (fields, self.fields)) for split in splits]
            width = sum(splitter.width for splitter in splitters)
            part = np.empty((data.rows, width + (2 if self.with_length else 1)), dtype=np.float32)
            require_if_large(2 * part.nbytes, f"the vectors of {data.rows:,} rows")
            own, size = np.zeros(data.rows), np.zeros(data.rows)
            for start in range(0, data.rows, ROWS_AT_ONCE):
                some = slice(start, min(start + ROWS_AT_ONCE, data.rows))
                self._fill(splitters, data, some, part[some], second=second)
                for splitter in splitters:  # bounds that hold for all draws
                    terms, vector = halves_of(splitter, data, some, second=second, bounding=True)
                    np.maximum(own[some], terms, out=own[some])
                    np.maximum(size[some], np.sqrt(np.einsum("ij,ij->i", vector, vector)), out=size[some])
            whole.parts.append(np.ascontiguousarray(part.T) if second else part)
            whole.own.append(own)
            whole.size.append(size)
        return whole

    def _fill(self, splitters: Sequence[Splitter], data: Dataset, some: slice, out: Singles, *, second: bool) -> None:
        """Write the vectors of rows, all draws side by side. At the end, an item has its own terms where a context has
        1; with lengths, a context also has its own terms where an item has 1. Without lengths, a context's own terms
        are the same for all items and are left out."""
        total, at = np.zeros(len(out)), 0
        with np.errstate(over="ignore"):  # overflowing numbers have no bound, so their pairs are scored exactly
            for splitter in splitters:
                own, vector = halves_of(splitter, data, some, second=second)
                out[:, at : at + splitter.width] = vector / len(splitters) if second else vector
                at += splitter.width
                total += own / len(splitters)
            out[:, at] = total if second else 1
            if self.with_length:
                out[:, at + 1] = 1 if second else total

    def scaled(self, data: Dataset, *, second: bool) -> Dataset:
        """Return rows with scaled values. A shifted column, which all rows have, belongs to the items if an item has
        it, otherwise to the contexts."""
        scale = self.scorer.transform.scale
        if scale is None or scale.centers is None:
            return data if scale is None else scale.of(data)
        of_items = self.items.seen()
        mine = of_items if second else ~of_items
        return Scaling(scale.divisors, np.where(mine, scale.centers, np.float32(0))).of(data)

    def squares(self, unscaled: Dataset, scaled: Dataset) -> Singles:
        """Return (rows) squared lengths, for rows that are scaled to unit length."""
        data = unscaled if self.scorer.transform.norm_of_all else scaled
        value = values_of(data).astype(np.float64) ** 2
        if not self.scorer.transform.norm_of_all:
            value = value * self.scorer.seen[data.index]
        row = rows_of_entries(data)
        return np.bincount(row, value, minlength=data.rows).astype(np.float32)

    def roundings(self, contexts: Dataset) -> float:
        """Return a bound of the relative error of a score."""
        entries = contexts.longest + self.items.longest
        steps = width = 0
        for splits in self.splits:
            for terms in splits[0].terms:
                if isinstance(terms, Products):
                    width, steps = width + int(np.prod(terms.weight.shape[1:])), max(steps, *terms.sizes)
                else:
                    width += int(terms.array.shape[-1])
                    steps = max(steps, entries if isinstance(terms, FieldPairs) else 1)
        return SAFETY * UNIT * (ROUNDINGS + width + entries * max(steps, 1))

    def each(self, contexts: Dataset) -> Iterator[tuple[int, Singles, Floats]]:
        fields = [] if contexts.field is None else np.unique(contexts.field).tolist()
        items, own = self.of(fields), self.vectors(contexts, fields, second=False)
        room = np.empty(contexts.rows * ITEMS_OF_PRODUCTS, dtype=np.float32)
        roundings = self.roundings(contexts)
        for start in range(0, self.items.rows, ITEMS_OF_PRODUCTS):
            some = slice(start, min(start + ITEMS_OF_PRODUCTS, self.items.rows))
            out = room[: contexts.rows * (some.stop - start)].reshape(contexts.rows, -1)
            with np.errstate(over="ignore", invalid="ignore"):
                yield start, self._product(own, items, some, out), roundings * self._bounds(own, items, some)

    def _product(self, contexts: Vectors, items: Vectors, some: slice, out: Singles) -> Singles:
        if not self.with_length:
            return np.matmul(contexts.parts[0], items.parts[0][:, some], out=out)
        length = inverse_length(contexts.squares[:, None], items.squares[some])
        out[:] = 0
        for degree, one, other in zip(self.degrees, contexts.parts, items.parts, strict=True):
            out += (one @ other[:, some]) * length**degree
        return out

    def _bounds(self, contexts: Vectors, items: Vectors, some: slice) -> Floats:
        """Return (contexts) a bound of the sum of magnitudes in a score with some items."""
        length = inverse_length(contexts.squares, items.squares[some].min()) if self.with_length else 1.0
        total = np.full(len(contexts.squares), self.constant)
        for at, degree in enumerate(self.degrees):
            cross = contexts.size[at] * items.size[at][some].max()
            total += (contexts.own[at] + items.own[at][some].max() + cross) * length**degree
        return total


def halves_of(
    splitter: Splitter, data: Dataset, some: slice, *, second: bool, bounding: bool = False
) -> tuple[Floats, Floats]:
    """Return (n) the own terms and (n, width) the vectors of some rows, or bounds of their magnitudes."""
    rows = some.stop - some.start
    own, vector = np.empty(rows), np.empty((rows, splitter.width))
    splitter.halves(data, some.start, some.stop, own, vector, second=second, bounding=bounding)
    return own, vector


def pair_scores(scorer: Scorer, items: Dataset) -> tuple[PairScores, str]:
    """Return the scores of pairs with items, by products if the model allows them, else pair by pair with the
    reason."""
    if len(scorer.draws) > 1 and not scorer.averages_scores:
        reason = "its prediction is a mean over draws, which products of factors do not give"
        return PairwiseScores(scorer, items), reason
    try:
        return FactorScores(scorer, items), ""
    except UsageError as error:
        return PairwiseScores(scorer, items), str(error)


def inverse_length(one: Singles, other: Singles) -> Singles:
    """Return the factors that scale rows of squared length `one` + `other` to unit length; 1 for empty rows."""
    both = one + other
    return np.where(both > 0, 1 / np.sqrt(np.where(both > 0, both, 1)), np.float32(1)).astype(np.float32)
