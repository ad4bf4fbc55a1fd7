"""The interface of a model with anchors to solvers, in addition to that of every model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss


class Anchored(Protocol):
    """A model with anchors: parameters that are in no block, and that decide which rows of blocks enter a score."""

    @property
    def learned(self) -> bool:
        """Whether the anchors are learned: by each gradient, or once they are frozen, by `step_apart`."""

    @property
    def awaits_rows(self) -> bool:
        """Whether the model records which rows enter scores, until the end of the first epoch."""

    def start_on(self, data: Dataset, rows: NDArray[np.int32], generator: np.random.Generator) -> None:
        """Set the anchors by these rows of the training data; called after `start`, unless training resumes from an
        earlier model."""

    def entered(self, block: int, rows: NDArray[np.int32]) -> None:
        """Record that rows of a block (their ids) have entered scores that were computed elsewhere."""

    def figures(self, data: Dataset, rows: NDArray[np.int32]) -> dict[str, float]:
        """Return name -> number: figures of the anchors on some rows of a Dataset, for the summary of a run."""

    def freeze(self, data: Dataset) -> None:
        """From now on, gradients update only the rows of blocks. The shares of the anchors in the samples of
        a Dataset may be kept."""

    def freeze_needed(self, rows: int) -> int:
        """Return bytes that `freeze` needs for a Dataset of this many rows."""

    def step_apart(self, shards: Iterable[Dataset], loss: Loss, objective: Callable[[], float]) -> bool:
        """Take a step of the frozen anchors along the gradient of the mean loss; return whether one was taken.

        shards : the rows; they are gone through once.
        objective : returns the objective of the current model. If no step, however short, decreases it, none is taken.
            The last call is for the parameters that remain.
        """
