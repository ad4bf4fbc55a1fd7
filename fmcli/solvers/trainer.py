"""The contract of trainers. A trainer implements one or more solvers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import require_names
from fmcli.data.dataset import Dataset
from fmcli.data.fields import Counted
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.records import dataclass
from fmcli.registry.solvers import POOLED
from fmcli.registry.specs import Spec
from fmcli.solvers.new_features import NewFeatures

if TYPE_CHECKING:
    from threading import Event

RunState = Mapping[str, NDArray[Any]]


class Observer:
    """Receives the progress of training; this one ignores it.

    every : rows between two calls of `loss`, rounded up to whole batches; None: it is never called.
    before : rows before the first one of the epoch, which count for `every`.
    """

    every: int | None = None
    before: int = 0

    def rows(self, epoch: int, rows: int) -> None:
        """Take progress several times a second: the epoch (from 1) and the number of its rows that are done."""

    def continues(self, epoch: int, rows: int) -> None:
        """Receive the place at which a run continues within an epoch: after its first `rows` rows."""

    def loss(self, epoch: int, rows: int, loss: float) -> None:
        """Take figures every `every` rows: the epoch, the number of its rows that are done, and the mean loss over
        them. The loss of a row is computed before its own update."""

    def ended(self) -> None:
        """Take note that no epoch follows."""


class Prior(Protocol):
    """The rows of the warm start, as far as a task needs them (see coordinate/prior.py)."""

    def bytes_needed(self, model: Model, data: Dataset) -> int:
        """Return bytes that `hold` takes."""

    def hold(self, task: Task, loss: Loss, penalty: Penalty) -> Any:
        """Return the QuadraticPrior of a task's model, in addition to the penalty of the run."""


@dataclass(frozen=True)
class Task:
    """The model to train, and its training data.

    spec : the options of the run, with all defaults resolved.
    model : prepared for the data. It must be allocated, with its start values, before `Trainer.prepare` is called.
    source : the rows to train on, as the model sees them.
    threads : the number of threads that solvers may use.
    epochs_before : the number of epochs trained in earlier runs; the order of rows depends on it.
    deadline : the value of time.perf_counter() at which training ends; None: it has no limit.
    interrupt : ends training as the deadline does, once it is set; None: nothing does.
    drawn : for a solver that samples: the numbers kept with the draw from which the run starts.
    seen : (features) whether these rows, or the rows of the warm start, have each feature; a solver that samples draws
        the parameters of other features from their prior. None: it does not.
    earlier : the rows of the warm start, which hold parameters near their start values; None: nothing does.
    new_features : the features whose parameters are trained, all others being constant; None: all are trained.
    """

    spec: Spec
    model: Model
    source: TrainingRows
    threads: int = 1
    epochs_before: int = 0
    deadline: float | None = None
    interrupt: Event | None = None
    new_features: NewFeatures | None = None
    earlier: Prior | None = None
    drawn: Mapping[str, NDArray[Any]] | None = None
    seen: NDArray[np.bool_] | None = None

    def late(self, seconds: float = 0) -> bool:
        """Return whether the deadline passes within `seconds`, or training was interrupted."""
        if self.interrupt is not None and self.interrupt.is_set():
            return True
        return self.deadline is not None and time.perf_counter() + seconds >= self.deadline

    @property
    def data(self) -> Dataset:
        """The rows in memory."""
        return self.source.data

    @property
    def rows(self) -> NDArray[np.int32]:
        """The indices of the rows to train on."""
        return self.source.rows

    @property
    def groups(self) -> Counted | None:
        """The groups of features, each with a prior of its own, for a solver that samples; None: all share one."""
        return None if self.spec.values[POOLED] else self.source.fields

    @property
    def all_rows(self) -> bool:
        """Whether the rows to train on are all rows of the data."""
        return len(self.rows) == self.data.rows

    def training_data(self) -> Dataset:
        """Return the rows to train on as a Dataset; a copy unless they are all rows."""
        return self.data if self.all_rows else self.data.take(self.rows)

    def copy_needed(self) -> int:
        """Return bytes that `training_data` takes."""
        return 0 if self.all_rows else self.data.nbytes * len(self.rows) // self.data.rows


class Trainer(ABC):
    """Trains the model of a task: `prepare` once, then `run`.

    `slots` and `bytes_needed` may be read before that; they allocate nothing.

    Attributes
    ----------
    partial : whether the last epoch ended before all rows were done, because of the deadline.
    pause : called within epochs wherever `state` describes the run; True: training ends there.
    """

    partial = False
    pause: Callable[[bool], None] = staticmethod(lambda ends: None)

    def __init__(self, task: Task) -> None:
        self.task = task

    @property
    def slots(self) -> int:
        """The number of state arrays that the solver keeps for each array of parameters."""
        return 0

    @property
    def updates(self) -> int:
        """Updates made so far, if the next one depends on their number; else 0."""
        return 0

    def resume(self, updates: int) -> None:  # noqa: B027 (only solvers that keep state have something to do)
        """Resume from the state that the model now has, after this many updates; called after `prepare`."""

    def state(self) -> RunState:
        """Where training is: in the midst of an epoch when `pause` is called, else at the end of one.

        Together with the model's live arrays, this determines the rest of the run. The arrays need not be copies.
        """
        return {}

    def load_state(self, state: RunState, epochs: int) -> None:
        """Go on from such a state, after `epochs` epochs; called after `prepare`, with the live arrays that the model
        had then. Raises ValueError if it is not a state of such a run: it may come from a file."""
        require_names(state, ())

    def hyperparameters(self) -> dict[str, NDArray[np.float64]]:
        """For a solver that samples: the drawn numbers besides the parameters, by name."""
        return {}

    def kept_with_draws(self) -> dict[str, NDArray[np.float64]]:
        """For a solver that samples: the numbers kept with each draw, by name in a model file; all are finite."""
        return {}

    def end(self) -> None:  # noqa: B027 (only trainers with much memory have something to free)
        """Free the memory that only training needs; called last."""

    @property
    def row(self) -> int:
        """The number of rows of the current epoch that are done; 0 at the end of an epoch."""
        return 0

    @abstractmethod
    def bytes_needed(self) -> int:
        """Return bytes that training takes in addition to the model's parameters and state."""

    @abstractmethod
    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        """Prepare to train the model, which is allocated with `slots` and has its start values."""

    @abstractmethod
    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Train for at most this many epochs. `after` is called at the end of each epoch with the mean loss and the
        penalty, and returns whether to stop.

        Raises DivergedError if the loss is no longer finite.
        """
