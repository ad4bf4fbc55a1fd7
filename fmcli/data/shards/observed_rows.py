"""Training rows that are observed pairs of a context, such as a user, and an item, beside which all pairs count."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.hashes import hashes
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.records import dataclass

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Sides:
    """The two sides of pairs.

    contexts, items : the different parts of the pairs, in the order in which they occur first.
    context, item : int64 (pairs), the part of each pair on either side.
    """

    contexts: Dataset
    items: Dataset
    context: NDArray[np.int64]
    item: NDArray[np.int64]

    @classmethod
    def of(cls, data: Dataset, rows: RowNumbers, of_items: Flags) -> Sides:
        """Return the sides of rows with these numbers. of_items : (features) whether a feature belongs to an item."""
        parts, numbers = list[Dataset](), list[NDArray[np.int64]]()
        for mine in (~of_items, of_items):
            _, first, number = np.unique(hashes(data, mine)[rows], return_index=True, return_inverse=True)
            order = np.argsort(first)
            place = np.empty(len(first), dtype=np.int64)
            place[order] = np.arange(len(first))
            parts.append(data.take(rows[first[order]]).only(mine))
            numbers.append(place[number])
        return cls(parts[0], parts[1], numbers[0], numbers[1])

    def parts(self) -> Dataset:
        """Return the contexts, and then the items."""
        one, other = self.contexts, self.items
        indptr = np.concatenate([one.indptr, one.nnz + other.indptr[1:]])
        value = None if one.value is None else np.concatenate([one.value, other.value])
        return Dataset(indptr, np.concatenate([one.index, other.index]), value, np.zeros(len(indptr) - 1), one.features)


@dataclass(frozen=True)
class AllPairsTerms:
    """What all pairs add to the objective.

    unseen_weight : the weight of each pair of all, beside the weights of the observed ones.
    l2_power : the power of the number of a feature's pairs, in these and in all, that its l2 penalty is multiplied by.
    is_given : whether the user has given the weight.
    """

    unseen_weight: float
    l2_power: float = 1.0
    is_given: bool = True


class ObservedRows(TrainingRows):
    """Observed pairs, whose scores are to be 1. The scores of all pairs of a context and an item are to be 0.

    Attributes
    ----------
    of_items : bool (features), whether each feature belongs to an item; others belong to a context.
    terms : what all pairs add to the objective.
    """

    divides = False

    def __init__(
        self,
        data: Dataset,
        rows: RowNumbers,
        of_items: Flags,
        terms: AllPairsTerms,
        every_row: RowNumbers | None = None,
    ) -> None:
        super().__init__(data, rows, every_row=every_row)
        self.of_items, self.terms = of_items, terms

    def only(self, rows: RowNumbers) -> ObservedRows:
        return ObservedRows(self.data, rows, self.of_items, self.terms, self.every_row)

    def weighing(self, unseen_weight: float) -> ObservedRows:
        """Return the pairs with another weight of all pairs."""
        terms = replace(self.terms, unseen_weight=unseen_weight)
        return ObservedRows(self.data, self.rows, self.of_items, terms, self.every_row)

    @cached_property
    def sides(self) -> Sides:
        """The contexts and items of the training rows."""
        return Sides.of(self.data, self.rows, self.of_items)

    def seen(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return where the items of each context begin (contexts + 1), and the items, increasing for each context."""
        context, item = self.sides.context, self.sides.item
        order = np.lexsort((item, context))
        begins = np.searchsorted(context[order], np.arange(self.sides.contexts.rows + 1))
        return begins.astype(np.int64), item[order].astype(np.int32)

    @property
    def strength(self) -> float:
        """The weight of each pair of all, as a share of the total weight of the training rows."""
        return self.terms.unseen_weight / self.total_weight

    def l2_scales(self) -> tuple[NDArray[np.float64], float]:
        """Return (features) what the l2 penalty of each feature's parameters is multiplied by, and of parameters that
        belong to every pair; relative to the mean over the rows.

        A feature has as many pairs as rows have it, and `unseen_weight` for each pair of all with it.
        """
        contexts, items = self.sides.contexts, self.sides.items
        every = (
            np.bincount(one.index, minlength=self.data.features) * other.rows
            for one, other in ((contexts, items), (items, contexts))
        )
        pairs = self.data.counts(self.rows) + self.terms.unseen_weight * sum(every)
        of_all = self.count + self.terms.unseen_weight * contexts.rows * items.rows
        # The objective has half the squared errors, and the contract has the whole of them.
        half, power = 2 * self.total_weight, self.terms.l2_power
        return pairs**power / half, of_all**power / half
