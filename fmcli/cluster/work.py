"""The workers' tasks in training: sums over the rows of partitions, at parameters that the client sends.

A task is a function of the inputs, of the facts about all partitions, and of parameters. What a worker keeps between
tasks only saves time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.cluster.partitions import Inputs, guarded
from fmcli.cluster.shared import Columns, Place, Shared, Values, in_shards
from fmcli.cluster.sums import GradientSums, ShareSums
from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import RowNumbers
from fmcli.data.text.pieces import concatenated
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.rounds.distinct import distinct
from fmcli.solvers.rounds.row_sums import row_sums
from fmcli.training.setup.stored import Change

T = TypeVar("T")


def rows_in(inputs: Inputs, shared: Shared, number: int, chosen: str, count: int) -> Dataset:
    """Return rows of a partition as they were read, in the columns of all partitions but without feature names.

    chosen : "all", "held out" (in the order of the text), or "sample", of `count` rows in all partitions.
    """

    def work() -> Dataset:
        partition = inputs.partition(number)
        if chosen == "held out":
            rows = shared.held(inputs, number)
        else:
            rows = shared.left(inputs, number)
            rows = rows if chosen == "all" else shared.held_out.sample(number, rows, count)
        order = np.argsort(rows)
        parts = in_shards(partition.starts, rows[order]) or [(0, rows[:0])]
        return concatenated(
            [partition.load(shard, shared.space).changed(numbering=None).take(some) for shard, some in parts]
        ).take(np.argsort(order).astype(np.int32))

    return guarded(work, inputs, number)


def numbers_labeled(inputs: Inputs, shared: Shared, number: int, wanted: Sequence[float]) -> list[RowNumbers]:
    """Return the numbers of a partition's rows with each of the wanted labels, in its text, increasing."""

    def work() -> list[RowNumbers]:
        partition = inputs.partition(number)
        shards = range(len(partition.starts) - 1)
        label = np.concatenate([partition.load(shard, shared.space).label for shard in shards])
        label = label[partition.stored(np.arange(len(label), dtype=np.int32))]
        return [np.flatnonzero(label == value).astype(np.int32) for value in wanted]

    return guarded(work, inputs, number)


def each_shard(
    inputs: Inputs, shared: Shared, number: int, change: Change, of: Callable[[Dataset, RowNumbers], T]
) -> list[T]:
    """Apply `of(data, rows)` to each shard of a partition, with data changed by a method of the transform and the
    shard's training rows."""

    def work() -> list[T]:
        partition = inputs.partition(number)
        left, none, found = dict(shared.rows_left(inputs, number)), np.zeros(0, dtype=np.int32), []
        for shard in range(len(partition.starts) - 1):
            data = change(shared.transform, partition.load(shard, shared.space))
            found.append(of(data, left.get(shard, none)))
        return found

    return guarded(work, inputs, number)


def each_by_model(
    inputs: Inputs, shared: Shared, number: int, of: Callable[[Model, Loss, Dataset, RowNumbers], T], values: Values
) -> list[T]:
    """Apply `of(model, loss, data, rows)` to each shard of a partition, with the full parameter set and the shard's
    training rows."""

    def work() -> list[T]:
        shards = ((shared.shard(inputs, number, shard), rows) for shard, rows in shared.rows_left(inputs, number))
        return [of(*shared.model(data, values), data, rows) for data, rows in shards]

    return guarded(work, inputs, number)


def rows_of(inputs: Inputs, shared: Shared, numbers: Sequence[int], place: Place) -> list[Dataset]:
    """Return each partition's rows for a round, in the columns of all partitions."""
    return [guarded(lambda: shared.rows_of(inputs, number, place), inputs, number) for number in numbers]  # noqa: B023


def columns_in(inputs: Inputs, shared: Shared, numbers: Sequence[int], place: Place) -> Columns:
    """Return the features of the rows of some partitions in a round."""
    return guarded(lambda: shared.share(inputs, numbers, place).columns, inputs, numbers[0])


def sums_in(
    inputs: Inputs, shared: Shared, numbers: Sequence[int], place: Place, following: Place, values: Values
) -> tuple[ShareSums, Columns]:
    """Return the sums over each partition's rows in a round, at these parameters, and the features of the following
    round. `values` : of the features in this round; other features may be among them."""

    def work() -> tuple[ShareSums, Columns]:
        share = shared.share(inputs, numbers, place).within(values.columns)
        model, loss = shared.model(share.data, values)
        losses, blocks = row_sums(model, loss, share.data, shared.goal.weight, share.ends)
        whole = [
            (sums._replace(rows=shared.in_all_rows(b, model, values.columns, sums.rows)), counts)
            for b, (sums, counts) in enumerate(blocks)
        ]
        return ShareSums(losses, share.weights(), whole), shared.share(inputs, numbers, following).columns

    return guarded(work, inputs, numbers[0])


def columns_of(inputs: Inputs, shared: Shared, number: int) -> Columns:
    """Return the features of a partition's training rows; None: all are needed."""
    return guarded(lambda: shared.columns(inputs, number), inputs, number)


def gradient_of(inputs: Inputs, shared: Shared, number: int, columns: Columns, values: Values) -> GradientSums:
    """Return a partition's contribution to the mean loss and its gradient, in double precision.

    columns : the features of the rows; None: all are needed.
    values : the parameters of these features, or of all.
    """

    def work() -> GradientSums:
        given = shared.selected(values, columns)
        loss_sum, vector, model, objective = 0.0, np.zeros(0), None, None
        for shard, rows in shared.rows_left(inputs, number):
            data = shared.shard(inputs, number, shard)
            data = data if len(rows) == data.rows else data.take(rows)
            if columns is not None:
                found, places = distinct(data.index)
                index = np.searchsorted(columns, found).astype(np.int32)
                data = data.with_columns(index[places], len(columns))
            model, loss = shared.model(data, given)
            objective = Objective(model, loss, data, shared.goal.weight)
            vector = vector if vector.size else np.zeros(objective.size)
            loss_sum += objective.accumulate(0, data.rows, vector)
        blocks = []
        if model is not None and objective is not None:
            for b in range(len(model.layout)):
                where, rows_, width = objective.places(b)
                every = np.arange(rows_, dtype=np.int32)
                blocks.append((shared.in_all_rows(b, model, columns, every), vector[where].reshape(rows_, width)))
        return GradientSums(loss_sum, 0.0, blocks)

    return guarded(work, inputs, number)


def rows_entered(inputs: Inputs, shared: Shared, number: int, values: Values) -> list[NDArray[np.int32]]:
    """Return, for each block, the parameter rows that enter the partition's scores, given all parameters."""

    def work() -> list[NDArray[np.int32]]:
        found: list[list[NDArray[np.int32]]] = [[] for _ in values.blocks]
        for shard, rows in shared.rows_left(inputs, number):
            data = shared.shard(inputs, number, shard).take(rows)
            _, blocks = row_sums(*shared.model(data, values), data, 1.0, [data.rows])
            for all_rows, (sums, _) in zip(found, blocks, strict=True):
                all_rows.append(sums.rows)
        return [np.unique(np.concatenate(all_rows)).astype(np.int32) for all_rows in found]

    return guarded(work, inputs, number)
