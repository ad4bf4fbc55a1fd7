"""The plan of a run whose rows are in a cache.

What a plan needs to know about all rows is kept in the cache. A block of it, which is a random sample of the rows,
takes their place where an estimate is enough: for warnings, for the metrics of training rows, and, if there are very
many different labels, for the best constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary
from fmcli.data.labels import Labels
from fmcli.data.numbering import Numbering
from fmcli.data.pieces import joined
from fmcli.data.scaling import SCALE, ColumnStatistics, Scaling, find_odd_columns, is_scaled
from fmcli.data.stored.cache import Cache, Facts
from fmcli.data.stored.stored_rows import LabelTotals, StoredRows, Totals
from fmcli.data.training_rows import RowNumbers
from fmcli.data.weights import Weighting, weigh_labels, with_label_weights
from fmcli.errors import LEAVE_OUT, BadInputError, NotEnoughMemoryError
from fmcli.registry.models import MODELS
from fmcli.registry.specs import Spec
from fmcli.registry.streams import HOLDOUT_STREAM, generator
from fmcli.solvers.stochastic.blocks import block_bytes
from fmcli.system.memory import human_bytes
from fmcli.training import account
from fmcli.training.clipping import fit_clip
from fmcli.training.planning import (
    Plan,
    Preprocessed,
    all_columns,
    labels_of,
    learn_scale,
    numbering_without_rare,
    planned,
    prepare,
    with_loss,
)
from fmcli.training.preprocessing import Preprocessing
from fmcli.training.settings import Settings
from fmcli.training.validation import drawn, rows_held_out

# At most this many rows are held out by default, because they stay in memory.
MOST_HELD_OUT = 500_000
MEGABYTE = 1_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """How the model sees the rows of a cache.

    numbering : of the features that have columns; None: column j is feature j.
    features : the number of columns.
    of_labels : weights by label.
    known, columns : the dictionary of the cache, if there is one, and int32, the column of each feature of the cache;
        None if the numbering is that dictionary, or finds columns without it.
    kept : bool (features), whether a feature is not rare; None if the numbering has only those that are not.
    scale : what is done to the values of columns; None: nothing.
    norm : whether rows are scaled to unit norm.
    """

    labels: Labels
    numbering: Numbering | Dictionary | None
    features: int
    of_labels: Mapping[float, float]
    norm: bool
    known: Dictionary | None = None
    columns: NDArray[np.int32] | None = None
    kept: NDArray[np.bool_] | None = None
    scale: Scaling | None = None

    @property
    def shares_column(self) -> bool:
        """Whether there is a column for all features that have no other."""
        return self.numbering is not None and self.numbering.shared is not None

    def encoded(self, data: Dataset, source: str = "") -> Dataset:
        """Return rows with the model's columns and labels, scaled; the source is named if a label is not known."""
        if self.numbering is not None:
            columns = self.columns if data.numbering is self.known else None
            if columns is not None and len(columns) < data.features:  # rows from elsewhere
                columns = None
            data = data.renumbered(self.numbering, columns=columns)
        else:
            data = data.within(self.features)
            data = data if self.kept is None else data.only(self.kept)
        data = data.changed(label=self.labels.encode(data.label, source))
        return data if self.scale is None else self.scale.of(data)

    def weighted(self, data: Dataset) -> Dataset:
        """Return rows as they were read, with the weights of their labels."""
        return with_label_weights(data, self.of_labels) if self.of_labels else data

    def training(self, data: Dataset) -> Dataset:
        """Return rows to train on."""
        data = self.encoded(self.weighted(data))
        return data.normalised() if self.norm else data

    def counts(self, cache: Cache) -> NDArray[np.int32]:
        """Return int32 (features): the number of all rows that have each feature, if none of them share a column."""
        counts = np.zeros(self.features, dtype=np.int32)
        if self.numbering is None:
            counts[: len(cache.counts)] = cache.counts
            return counts if self.kept is None else np.where(self.kept, counts, np.int32(0))
        known = numbering_of(cache.counts) if cache.dictionary is None else cache.dictionary
        of_known = cache.counts if cache.dictionary is not None else cache.counts[np.flatnonzero(cache.counts)]
        columns = self.numbering.columns_from(known)
        found = columns >= 0
        counts[columns[found]] = of_known[found]
        return counts

    def label_totals(self, facts: Facts) -> LabelTotals | None:
        """Return the labels of all rows; None if there are too many different ones."""
        if facts.labels is None:
            return None
        known = np.array(list(facts.labels))
        rows = np.array([rows for rows, _ in facts.labels.values()])
        weights = [weight * self.of_labels.get(label, 1.0) for label, (_, weight) in facts.labels.items()]
        return LabelTotals(self.labels.encode(known), np.array(weights), rows)


class StoredBlocks:
    """The rows of a cache, which this process reads block by block."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def each(
        self, view: View, change: str, left: Mapping[int, RowNumbers], of: Callable[[Dataset, RowNumbers], T]
    ) -> Iterator[T]:
        """Yield the results of a function for each block, as the view's method `change` makes it, and the rows of it
        that are left (block -> numbers); all rows of other blocks are."""
        for block in range(len(self.cache.blocks)):
            data = getattr(view, change)(self.cache.load(block))
            yield of(data, left.get(block, every_row(data)))

    def hold_out(self, spec: Spec, share: float | None) -> tuple[Dataset | None, Mapping[int, RowNumbers]]:
        """Return rows to hold out, and the other rows of the blocks that they are from; share None: the default.

        They are the first blocks and some rows of the next one, which are as random as any.
        """
        number = number_held_out(self.cache.facts.rows, spec, share)
        pieces, left, random = [], {}, generator(spec, HOLDOUT_STREAM)
        for block in range(len(self.cache.blocks)):
            if not number:
                break
            data = self.cache.load(block)
            chosen, left[block] = drawn(data.rows, min(number, data.rows), random)
            pieces.append(data.take(chosen))
            number -= len(chosen)
        return (joined(pieces) if pieces else None), left

    def training_rows(
        self, view: View, totals: Totals, left: Mapping[int, RowNumbers], held_out: Dataset | None, fields: int
    ) -> StoredRows:
        """Return the rows to train on. fields : the number of fields that the model has."""
        return StoredRows(self.cache, view.training, totals, left, held_out)


def number_held_out(rows: int, spec: Spec, share: float | None) -> int:
    """Return how many rows of a cache are held out; share None: the default."""
    if share is None and not spec.values.get("shuffle", True):
        share = 0.0
    number = rows_held_out(rows, share, spec)
    return min(number, MOST_HELD_OUT) if share is None else number


def prepare_stored(
    settings: Settings, cache: Cache, of_labels: Mapping[float, float], valid: Dataset | None = None
) -> Plan:
    """Return the plan of a run on the rows in a cache. If there is only one block, it is trained on as rows from text
    are.

    of_labels : weights by label.
    valid : validation data.

    Raises the errors of `prepare`.
    """
    if len(cache.blocks) == 1:
        settings = replace(settings, label_names=cache.facts.names)
        data = cache.load(0)
        return prepare(settings, weigh_labels(data, of_labels) if of_labels else data, valid)
    return prepare_blocks(settings, StoredBlocks(cache), of_labels, valid)


def prepare_blocks(
    settings: Settings, stored: StoredBlocks, of_labels: Mapping[float, float], valid: Dataset | None = None
) -> Plan:
    """Fit settings to the rows of a cache, in any number of blocks, as `prepare` does for rows in memory."""
    cache = stored.cache
    settings = replace(settings, label_names=cache.facts.names)
    numbering = None
    known, columns, resumed = cache.dictionary, None, settings.warm_start
    if MODELS[settings.spec.model].compact or known is not None or (resumed and resumed.numbering is not None):
        numbering, settings = compact(cache, settings)
        if known is not None and numbering is not known:
            columns = numbering.columns_from(known)
    warm_start, facts, label = settings.warm_start, cache.facts, some_labels(cache)
    labels = labels_of(settings, label)
    spec = with_loss(settings.spec, labels.loss)
    spec, label_range = fit_clip(spec, labels.loss, label, warm_start, settings.stream)
    features = facts.features if numbering is None else len(numbering)
    features = max(features, warm_start.model.features if warm_start else 0)
    view = View(labels, numbering, features, of_labels, bool(spec.values["norm"]), known, columns)
    held, left = stored.hold_out(spec, 0.0 if valid else settings.share_held_out)
    if settings.min_count > 1:
        view = without_rare(view, cache, held, settings)
    if is_scaled(spec.values):
        view = replace(view, scale=learn_scale(spec, *statistics(stored, view, left, spec.values[SCALE]), warm_start))
    held_out = None if held is None else view.training(held)
    totals = totals_of(view, stored, settings)
    fields = max(facts.fields if cache.fielded else 0, warm_start.preprocessing.fields if warm_start else 0)
    source = stored.training_rows(view, totals, left, held_out, fields)
    seen, counts = source.occurrences(settings.threads)
    if valid is not None:
        validation_data = view.encoded(valid, settings.valid_name)
    elif held is not None:
        validation_data = view.encoded(view.weighted(held))
    else:
        validation_data = source.data.take(source.rows[:0])
    if view.norm:  # without the features that training has not seen
        validation_data = validation_data.normalised(warm_start.also_seen(seen) if warm_start else seen)
    preprocessed = Preprocessed(
        source=source,
        all_rows=facts.rows,
        all_nonzeros=totals.nonzeros,
        seen=seen,
        counts=counts,
        preprocessing=Preprocessing(labels, fields, label_range, view.scale),
        odd_columns=find_odd_columns(source.data, source.rows, spec.values[SCALE]),
        validation_data=validation_data,
        held_out=valid is None,
        longest_square=totals.longest_square,
    )
    return planned(settings, spec, preprocessed, account.held([source.data, validation_data]) + source.rows.nbytes)


def without_rare(view: View, cache: Cache, held: Dataset | None, settings: Settings) -> View:
    """Return the view in which the features that occur in fewer than `min_count` of the rows that are not held out have
    no entries, or share a column."""
    counts = view.counts(cache)
    if held is not None:
        encoded = view.encoded(held)
        counts = counts - encoded.counts(every_row(encoded), settings.threads)
    kept = counts >= settings.min_count
    numbering = numbering_without_rare(view.numbering, kept, settings.share_rare)
    if numbering is None:
        return replace(view, kept=kept)
    of_cache = all_columns(cache.facts.features) if view.known is None else view.known
    columns = numbering.columns_from(of_cache)
    return replace(view, numbering=numbering, features=len(numbering), columns=columns)


def totals_of(view: View, stored: StoredBlocks, settings: Settings) -> Totals:
    """Return the totals over all rows as the model sees them. The cache knows it if all their entries are trained on as
    they are; otherwise it is read."""
    cache = stored.cache
    facts = cache.facts
    labels = view.label_totals(facts)
    weight = float(labels.weight.sum()) if labels and view.of_labels else facts.total_weight
    if not (view.shares_column or view.scale is not None or settings.min_count > 1):
        return Totals(labels, view.counts(cache), facts.nonzeros, weight, 1.0 if view.norm else facts.longest_square)
    counts, nonzeros, longest_square = np.zeros(view.features, dtype=np.int32), 0, 0.0
    for of_block in stored.each(view, "training", {}, BlockTotals(settings.threads)):
        counts += of_block[0]
        nonzeros += of_block[1]
        longest_square = max(longest_square, of_block[2])
    return Totals(labels, counts, nonzeros, weight, longest_square)


@dataclass(frozen=True)
class BlockTotals:
    """The counts of features, the number of entries, and the largest squared norm of all rows of a block."""

    threads: int

    def __call__(self, data: Dataset, rows: RowNumbers) -> tuple[NDArray[np.int32], int, float]:
        return data.counts(rows, self.threads), data.nnz, data.longest_square()


def every_row(data: Dataset) -> RowNumbers:
    """Return the numbers of all rows."""
    return np.arange(data.rows, dtype=np.int32)


def statistics(
    stored: StoredBlocks, view: View, left: Mapping[int, RowNumbers], method: str
) -> tuple[ColumnStatistics, ColumnStatistics]:
    """Return the statistics of the columns, over the rows to train on and over all rows; the rows are read once."""
    training = held_out = none = BlockStatistics(method).none(view.features)
    for of_rows, of_others in stored.each(view, "encoded", left, BlockStatistics(method)):
        training = training.merged(of_rows)
        held_out = held_out.merged(none if of_others is None else of_others)
    return training, training.merged(held_out)


@dataclass(frozen=True)
class BlockStatistics:
    """The statistics of the columns of some rows of a block, and of the others, if there are some."""

    method: str

    def none(self, features: int) -> ColumnStatistics:
        """Return the statistics of no rows."""
        empty = np.zeros(0, dtype=np.int32)
        data = Dataset(np.zeros(1, dtype=np.int64), empty, np.zeros(0, dtype=np.float32), None, features)
        return ColumnStatistics.of(data, empty, self.method)

    def __call__(self, data: Dataset, rows: RowNumbers) -> tuple[ColumnStatistics, ColumnStatistics | None]:
        others = np.setdiff1d(every_row(data), rows) if len(rows) < data.rows else None
        return tuple(  # type: ignore[return-value]
            None if some is None else ColumnStatistics.of(data, some, self.method) for some in (rows, others)
        )


def require_room(plan: Plan, memory: int) -> None:
    """Raise NotEnoughMemoryError unless the rows of a plan that are in memory at a time, and what measures them, take
    at most so many bytes."""
    data = [plan.data, *([plan.validation.data] if plan.validation else [])]
    measures = [account.scoring_bytes(plan.model, plan.data, plan.evaluation)]
    measures += [account.scoring_bytes(plan.model, plan.validation.data, plan.validation)] if plan.validation else []
    training = plan.source.block_bytes
    if plan.spec.values.get("block_size", 1) > 1:
        training += block_bytes(plan.task)
    needed = account.held(data) + max(training, *measures)
    if needed > memory:
        held = " and those that are held out" if plan.validation else ""
        raise NotEnoughMemoryError(
            f"the blocks of rows{held} need {human_bytes(needed)} of memory, more than the {human_bytes(memory)} for "
            "rows",
            memory=math.ceil(needed / MEGABYTE),
        )


def some_labels(cache: Cache) -> NDArray[np.float64]:
    """Return all label values if they are few; otherwise those of a block, and the smallest and the largest one."""
    if cache.facts.labels is not None:
        return np.array(list(cache.facts.labels))
    return np.concatenate([cache.load(0).label, [cache.facts.lowest, cache.facts.highest]])


def weights_of_labels(facts: Facts, weighting: Weighting) -> dict[float, float]:
    """Return label -> weight. Raises BadInputError as `Weighting.of_labels` does, and if there are too many labels."""
    if facts.labels is None:
        raise BadInputError("there are too many different labels for weights by label", class_weight=LEAVE_OUT)
    totals = np.array([weight for _, weight in facts.labels.values()])
    return weighting.of_labels(np.array(list(facts.labels)), totals, facts.names)


def numbering_of(counts: NDArray[np.int32]) -> Numbering:
    """Return the numbering of the features with a positive count."""
    return Numbering(np.flatnonzero(counts).astype(np.int32), len(counts))


def compact(cache: Cache, settings: Settings) -> tuple[Numbering | Dictionary, Settings]:
    """Return the numbering of the features that occur in the rows or in the warm start, and the settings with it."""
    numbering = numbering_of(cache.counts) if cache.dictionary is None else cache.dictionary
    warm_start = settings.warm_start
    if warm_start is None:
        return numbering, settings
    joined = numbering.joined(warm_start.occurring)
    return joined, replace(settings, warm_start=warm_start.on_columns(joined))
