"""Rows in other processes, which compute the sums over their rows for solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import RowNumbers
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.solvers.trainer import Task

if TYPE_CHECKING:
    from fmcli.solvers.full_batch.objective import Objective
    from fmcli.solvers.stochastic.epochs import KindOfEpochs

T = TypeVar("T")
OfModel = Callable[[Model, Loss, Dataset, RowNumbers], T]


class RemoteRows(ABC):
    """Rows to train on that other processes have: the contract of such TrainingRows with solvers."""

    @property
    @abstractmethod
    def kind_of_epochs(self) -> KindOfEpochs:
        """The class of the epochs of stochastic training."""

    @abstractmethod
    def gradients(self, task: Task) -> Callable[[Objective], tuple[float, NDArray[np.float64]]]:
        """Return a function for the mean loss of a task's rows, and its gradient as the vector of an objective."""

    @abstractmethod
    def each_by_model(self, task: Task, loss: Loss, of: OfModel[T]) -> Iterator[T]:
        """Yield the results of a function for the model of a task, with its parameters as they are, and its loss, each
        shard, and the rows of it to train on."""


def each_shard(task: Task, loss: Loss, of: OfModel[T]) -> Iterator[T]:
    """Return the results of a function for the model of a task and its loss, each shard of its rows, here or elsewhere,
    and the rows of the shard to train on."""
    if isinstance(task.source, RemoteRows):
        return task.source.each_by_model(task, loss, of)
    return task.source.each(lambda data, rows: of(task.model, loss, data, rows))
