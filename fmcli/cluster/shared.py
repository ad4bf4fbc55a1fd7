"""The facts that the client has learned about all partitions, and the rows as the model sees them, on a worker."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fmcli.cluster.held_out import HeldOut
from fmcli.cluster.partitions import Inputs, Space, guarded
from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.data.text.pieces import concatenated
from fmcli.data.transform import Transform
from fmcli.losses.loss import Loss
from fmcli.models.layout import BlockLayout
from fmcli.models.model import Model
from fmcli.records import dataclass
from fmcli.registry.build import build_loss
from fmcli.registry.models import MODELS
from fmcli.registry.specs import Spec
from fmcli.registry.streams import PREPARE_STREAM, SHUFFLE_STREAM, generator
from fmcli.solvers.rounds.distinct import distinct
from fmcli.solvers.rounds.parameter_rows import rows_of, write_rows
from fmcli.system.memory import available
from fmcli.training.setup.settings import make_model

# Shares kept until the parameters of their columns come: of this round and the next, for a few threads.
SHARES_KEPT = 16
Columns = NDArray[np.int32] | None


class Values(NamedTuple):
    """Parameters: the rows of some features (None: of all) in each block, and the arrays that are in no block."""

    columns: Columns
    blocks: list[NDArray[Any]]
    others: dict[str, NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        own = 0 if self.columns is None else self.columns.nbytes
        return own + sum(array.nbytes for array in (*self.blocks, *self.others.values()))


@dataclass(frozen=True)
class Goal:
    """The task to train.

    spec : the spec with all defaults resolved.
    outputs, fields : of the model.
    weight : the divisor of row weights: their mean in a round, their sum in a gradient.
    """

    spec: Spec
    outputs: int
    fields: int
    weight: float


class Share(NamedTuple):
    """Rows of some partitions.

    ends : the end of each partition's rows in `data`.
    data : the rows, with only the columns of the share.
    columns : the features of the columns; None: all, for kinds whose parts cannot be trained alone.
    """

    ends: list[int]
    data: Dataset
    columns: Columns

    def within(self, columns: Columns) -> Share:
        """Return the share with these columns, a superset of its own."""
        if self.columns is None or columns is None or np.array_equal(columns, self.columns):
            return self
        index = np.searchsorted(columns, self.columns).astype(np.int32)[self.data.index]
        return Share(self.ends, self.data.with_columns(index, len(columns)), columns)

    def weights(self) -> NDArray[np.float64]:
        """Return the total weight of each partition's rows."""
        rows = np.split(np.arange(self.data.rows, dtype=np.int32), self.ends[:-1])
        return np.array([self.data.total_weight(some) for some in rows])


class Place(NamedTuple):
    """A round of an epoch: rows `first` to `last` (excluded) of `rows`. Each partition takes the same share of its own
    rows. Epochs count from 1."""

    epoch: int
    first: int
    last: int
    rows: int


class Shared:
    """The facts that the client has learned about all partitions. Workers get a copy, and keep rows there as the model
    sees them."""

    def __init__(
        self,
        space: Space,
        transform: Transform | None = None,
        held_out: HeldOut | None = None,
        goal: Goal | None = None,
    ) -> None:
        self.recipe = space, transform, held_out, goal
        self.space, self._transform, self._held_out, self._goal = self.recipe
        self._lock = Lock()
        self._shards: OrderedDict[tuple[int, int], Dataset] = OrderedDict()
        self._held: dict[int, RowNumbers] = {}
        self._orders: dict[int, tuple[int, list[tuple[int, RowNumbers]]]] = {}
        self._shares: OrderedDict[tuple[int, ...], Share] = OrderedDict()
        self._columns: dict[int, tuple[Columns, int]] = {}
        self._room = available() // 2

    def __reduce__(self) -> tuple[type[Shared], Any]:
        return Shared, self.recipe

    @property
    def transform(self) -> Transform:
        """The transform from rows to rows of the model."""
        assert self._transform is not None
        return self._transform

    @property
    def held_out(self) -> HeldOut:
        """The rows that are not trained on."""
        assert self._held_out is not None
        return self._held_out

    @property
    def goal(self) -> Goal:
        """The task to train."""
        assert self._goal is not None
        return self._goal

    def held(self, inputs: Inputs, number: int) -> RowNumbers:
        """Return the positions of a partition's held-out rows, in the order of the text."""
        if self._held_out is None:
            return np.zeros(0, dtype=np.int32)
        if number not in self._held:
            self._held[number] = inputs.partition(number).stored(self._held_out.some[number])
        return self._held[number]

    def left(self, inputs: Inputs, number: int) -> RowNumbers:
        """Return the positions of a partition's training rows, increasing."""
        every = np.arange(inputs.partition(number).starts[-1], dtype=np.int32)
        return np.delete(every, self.held(inputs, number))

    def rows_left(self, inputs: Inputs, number: int) -> list[tuple[int, RowNumbers]]:
        """Return a partition's training rows, by shard."""
        return in_shards(inputs.partition(number).starts, self.left(inputs, number))

    def shard(self, inputs: Inputs, number: int, shard: int) -> Dataset:
        """Return the rows of a shard as the model sees them. They are kept while memory lasts."""
        key = number, shard
        with self._lock:
            if key in self._shards:
                self._shards.move_to_end(key)
                return self._shards[key]
        data = self.transform.training(inputs.partition(number).load(shard, self.space)).changed(numbering=None)
        with self._lock:
            self._shards[key] = data
            while len(self._shards) > 1 and sum(kept.nbytes for kept in self._shards.values()) > self._room:
                self._shards.popitem(last=False)
        return data

    def take(self, inputs: Inputs, number: int, rows: Sequence[tuple[int, RowNumbers]]) -> Dataset:
        """Return some rows of a partition's shards, as the model sees them."""
        return concatenated([self.shard(inputs, number, shard).take(some) for shard, some in rows])

    def order(self, inputs: Inputs, number: int, epoch: int) -> list[tuple[int, RowNumbers]]:
        """Return a partition's rows in the order of an epoch: (shard, its rows)."""
        known = self._orders.get(number)
        if known is not None and known[0] == epoch:
            return known[1]
        spec, by_shard = self.goal.spec, self.rows_left(inputs, number)
        if spec.values.get("shuffle", True):
            random = generator(spec, SHUFFLE_STREAM, epoch, number)
            random.shuffle(by_shard)
            for _, rows in by_shard:
                random.shuffle(rows)
        self._orders[number] = epoch, by_shard
        return by_shard

    def share(self, inputs: Inputs, numbers: Sequence[int], place: Place) -> Share:
        """Return the rows of some partitions for a round."""
        key = *numbers, *place
        with self._lock:
            if key in self._shares:
                return self._shares[key]
        pieces = [
            guarded(lambda: self.rows_of(inputs, number, place), inputs, number)  # noqa: B023
            for number in numbers
        ]
        ends = np.cumsum([piece.rows for piece in pieces]).tolist()
        found = Share(ends, *self._with_columns(concatenated(pieces)))
        with self._lock:
            self._shares[key] = found
            while len(self._shares) > SHARES_KEPT:
                self._shares.popitem(last=False)
        return found

    def rows_of(self, inputs: Inputs, number: int, place: Place) -> Dataset:
        """Return a partition's rows for a round, as the model sees them."""
        order = self.order(inputs, number, place.epoch)
        count = sum(len(rows) for _, rows in order)
        first, last = count * place.first // place.rows, count * place.last // place.rows
        rows, before = [], 0
        for shard, some in order:
            part = some[max(0, first - before) : max(0, last - before)]
            before += len(some)
            if len(part):
                rows.append((shard, part))
        return self.take(inputs, number, rows or [(0, np.zeros(0, dtype=np.int32))])

    def _with_columns(self, data: Dataset) -> tuple[Dataset, Columns]:
        if not MODELS[self.goal.spec.model].apart:
            return data, None
        columns, index = distinct(data.index)
        return data.with_columns(index, len(columns)), columns

    def columns(self, inputs: Inputs, number: int) -> Columns:
        """Return the features of a partition's rows; None: all are needed."""
        if not MODELS[self.goal.spec.model].apart:
            return None
        found = np.zeros(0, dtype=np.int32)
        for shard, rows in self.rows_left(inputs, number):
            seen = np.flatnonzero(self.shard(inputs, number, shard).seen(rows)).astype(np.int32)
            found = np.union1d(found, seen).astype(np.int32)
        return found

    def model(self, data: Dataset, values: Values) -> tuple[Model, Loss]:
        """Return a model with these parameters, for rows with the same columns, and the loss."""
        spec = self.goal.spec
        if values.columns is not None and spec.values.get("split_index") is not None:
            split = int(np.searchsorted(values.columns, spec.values["split_index"]))
            spec = replace(spec, values={**spec.values, "split_index": split})
        model = make_model(spec, data.features, self.goal.outputs, self.goal.fields)
        every = np.arange(data.rows, dtype=np.int32)
        model.prepare(TrainingRows(data, every), generator(spec, PREPARE_STREAM))
        model.allocate(0)
        for number, numbers in enumerate(values.blocks):
            write_rows(model, number, np.require(numbers, requirements="A"))  # in a message, arrays begin anywhere
        for name, array in values.others.items():
            model.parameters[name][...] = array
        model.remeasure()
        if model.anchored:
            model.anchored.freeze(data)
        assert spec.loss is not None
        return model, build_loss(spec, spec.loss, self.goal.outputs)

    def selected(self, values: Values, columns: Columns) -> Values:
        """Return the parameters of some features. `values` : of the same features, or of all."""
        if columns is None or values.columns is not None:
            return values
        layouts = self.layouts()
        blocks = [
            numbers[rows_of(layout, self.goal.outputs, self.transform.features, columns)]
            for layout, numbers in zip(layouts, values.blocks, strict=True)
        ]
        return Values(columns, blocks, values.others)

    def layouts(self) -> Sequence[BlockLayout]:
        """Return the layout of the model's blocks, which does not depend on the number of features."""
        return make_model(self.goal.spec, 1, self.goal.outputs, self.goal.fields).layout

    def in_all_rows(self, block: int, model: Model, columns: Columns, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the row ids in the whole model, given row ids of a block in a model with these columns."""
        if columns is None:
            return rows
        return rows_of(model.layout[block], model.outputs, self.transform.features, columns)[rows]


def in_shards(starts: NDArray[np.int64], rows: RowNumbers) -> list[tuple[int, RowNumbers]]:
    """Divide rows of a partition by shard: (shard, its rows). rows : positions, increasing. `starts` : as in
    Partition."""
    ends = np.searchsorted(rows, starts)
    shards = range(len(starts) - 1)
    return [
        (shard, (rows[ends[shard] : ends[shard + 1]] - starts[shard]).astype(np.int32))
        for shard in shards
        if ends[shard] < ends[shard + 1]
    ]
