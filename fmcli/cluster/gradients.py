"""L-BFGS on a cluster: the mean loss and its gradient over the rows of all partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.cluster import work
from fmcli.cluster.parameters import values_of
from fmcli.cluster.residents import Resident, itself
from fmcli.cluster.shared import Columns
from fmcli.cluster.sums import GradientSums, added
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.trainer import Task

if TYPE_CHECKING:
    from fmcli.cluster.cache import PartitionedCache
    from fmcli.models.anchored import Anchored

# The number of sums that a task adds. Sums form a tree that depends only on the number of partitions.
FAN_IN = 4


class Gradients:
    """The mean loss of a task's rows, and its gradient.

    Parameters
    ----------
    shared : holds Shared, whose goal has the sum of the weights of rows.
    """

    def __init__(self, task: Task, partitions: PartitionedCache, shared: Resident) -> None:
        self.task, self.partitions, self.shared = task, partitions, shared
        self._columns: dict[int, Columns] | None = None

    def __call__(self, objective: Objective) -> tuple[float, NDArray[np.float64]]:
        """Return the mean loss, and its gradient as the objective's vector, at the model's parameters."""
        model, partitions, cluster = self.task.model, self.partitions, self.partitions.cluster
        if self._columns is None:
            self._columns = dict(partitions.each(work.columns_of, self.shared, purpose="looking at"))
            if model.anchored and model.anchored.awaits_rows:
                self._record_rows(model.anchored)
        needed = sum(model.features if columns is None else len(columns) for columns in self._columns.values())
        # Sending all parameters once per worker may take fewer bytes than sending each partition its own.
        together = needed > len(set(cluster.places)) * model.features
        every = cluster.submit(itself, all_values := values_of(model, None)) if together else None
        if every is not None:
            cluster.sent += len(set(cluster.places)) * all_values.nbytes
        results = []
        for number, columns in self._columns.items():
            values = every
            if values is None:
                values = values_of(model, columns)
                cluster.sent += values.nbytes
            place = partitions.homes.of(number)
            there = partitions.inputs.on(place), self.shared.on(place)
            results.append(cluster.submit(work.gradient_of, *there, number, columns, values, worker=place))
        while len(results) > 1:
            groups = [results[at : at + FAN_IN] for at in range(0, len(results), FAN_IN)]
            results = [group[0] if len(group) == 1 else cluster.submit(added, group) for group in groups]
        sums: GradientSums = cluster.result(results[0], "computing a gradient")
        cluster.received += sums.nbytes
        gradient = np.zeros(objective.size)
        for block, (rows, numbers) in enumerate(sums.blocks):
            where, count, width = objective.places(block)
            gradient[where].reshape(count, width)[rows] += numbers
        return sums.loss, gradient

    def _record_rows(self, anchored: Anchored) -> None:
        """Tell a model with anchors which parameter rows enter scores."""
        values = values_of(self.task.model, None)
        found = self.partitions.each(work.rows_entered, self.shared, values, purpose="looking at")
        for _, blocks in found:
            for block, rows in enumerate(blocks):
                anchored.entered(block, rows)
