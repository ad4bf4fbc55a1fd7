"""The interface of models with anchors to solvers, in addition to every model's interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss


class Anchored(Protocol):
    """A model with anchors: parameters outside the blocks that decide which rows of blocks enter a score."""

    @property
    def learned(self) -> bool:
        """Whether the anchors are learned: by each gradient or, once frozen, by `step_apart`."""

    @property
    def awaits_rows(self) -> bool:
        """Whether the model must record which rows enter scores, until the end of the first epoch."""

    def start_on(self, data: Dataset, rows: NDArray[np.int32], generator: np.random.Generator) -> None:
        """Set the anchors from these training rows. Called after `start`, unless training resumes from an earlier
        model."""

    def entered(self, block: int, rows: NDArray[np.int32]) -> None:
        """Record that rows of a block (ids) have entered scores computed elsewhere."""

    def figures(self, data: Dataset, rows: NDArray[np.int32]) -> dict[str, float]:
        """Return name -> number: figures of the anchors on some rows of a Dataset, for a run's summary."""

    def freeze(self, data: Dataset) -> None:
        """Freeze the anchors: from now on, gradients update only rows of blocks. The anchors' shares in a Dataset's
        samples may be cached."""

    def freeze_needed(self, rows: int) -> int:
        """Return the bytes that `freeze` needs for a Dataset with this many rows."""

    def step_apart(self, shards: Iterable[Dataset], loss: Loss, objective: Callable[[], float]) -> bool:
        """Take a step of the frozen anchors along the gradient of the mean loss. Return whether a step was taken.

        shards : the rows, read once.
        objective : returns the objective of the current model. If no step decreases it, however short, no step is
            taken. The last call is for the parameters that remain.
        """
