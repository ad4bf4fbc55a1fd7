"""The base of coordinate descent and L-BFGS, which minimize the mean loss plus penalty over all rows at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.solvers.trainer import Observer, RunState, Trainer

if TYPE_CHECKING:
    from fmcli.solvers.coordinate.prior import QuadraticPrior


class Minimizer(ABC):
    """Minimizes the objective of a model over all rows of its data.

    Parameters
    ----------
    model : Model, allocated without state, with its start values.
    loss, penalty : the loss and the penalty of the run.
    data : Dataset with labels, to train on.
    threads : the number of threads; it does not change the result.
    on_rows : called several times a second with the epoch (from 1) and how much of it is completed, in rows.
    hold : the quadratic prior around the start values; with it, simplexes and anchors are constant.
    arguments : additional arguments of a subclass, for its `prepare`.
    """

    def __init__(
        self,
        model: Model,
        loss: Loss,
        penalty: Penalty,
        data: Dataset,
        threads: int = 1,
        on_rows: Callable[[int, int], None] = lambda epoch, rows: None,
        hold: QuadraticPrior | None = None,
        **arguments: Any,
    ) -> None:
        if model.anchored:
            model.anchored.freeze(data)
        self.model, self.loss, self.penalty, self.data = model, loss, penalty, data
        self.threads, self.on_rows, self.hold = threads, on_rows, hold
        self.prepare(**arguments)

    @staticmethod
    @abstractmethod
    def bytes_needed(model: Model, data: Dataset, threads: int, epochs: int) -> int:
        """Return bytes that the minimizer takes in addition to the model and the data."""

    @abstractmethod
    def prepare(self) -> None:
        """Allocate the memory that `bytes_needed` counts."""

    @abstractmethod
    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Train for at most this many epochs. `after` is called at the end of each epoch with the mean loss and the
        penalty, and returns whether to stop."""

    @abstractmethod
    def state(self) -> RunState:
        """Return the state of the search at the end of an epoch, besides the model's live arrays."""

    @abstractmethod
    def load_state(self, state: RunState, epochs: int) -> None:
        """Go on from such a state, after `epochs` epochs, with the live arrays that the model had then. Raises
        ValueError if it is not a state of such a run."""


class MinimizingTrainer(Trainer):
    """Trains with a Minimizer. The training rows are copied unless they are all rows of the data."""

    minimizer: ClassVar[type[Minimizer]]

    def bytes_needed(self) -> int:
        task, epochs = self.task, self.task.spec.values["epochs"]
        needed = self.minimizer.bytes_needed(task.model, task.data, task.threads, epochs) + task.source.shard_bytes
        kept = task.model.anchored.freeze_needed(len(task.rows)) if task.model.anchored else 0
        held = task.earlier.bytes_needed(task.model, task.data) if task.earlier else 0
        return needed + kept + task.copy_needed() + held

    def prepare(self, loss: Loss, penalty: Penalty, observer: Observer) -> None:
        task = self.task
        minimizer, arguments = self.chosen()
        data, threads, rows = self.training_data(), task.threads, observer.rows
        self.engine = minimizer(task.model, loss, penalty, data, threads, rows, self.hold(loss, penalty), **arguments)

    def training_data(self) -> Dataset:
        """Return the rows that are minimized over."""
        return self.task.training_data()

    def hold(self, loss: Loss, penalty: Penalty) -> QuadraticPrior | None:
        """Return the quadratic prior from the rows of the warm start; None without them."""
        earlier = self.task.earlier
        held: QuadraticPrior | None = earlier.hold(self.task, loss, penalty) if earlier else None
        return held

    def chosen(self) -> tuple[type[Minimizer], dict[str, Any]]:
        """Return the minimizer, and the arguments of its `prepare`."""
        return self.minimizer, {}

    def state(self) -> RunState:
        return self.engine.state()

    def load_state(self, state: RunState, epochs: int) -> None:
        self.engine.load_state(state, epochs)

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        self.engine.run(epochs, after)

    def end(self) -> None:
        del self.engine
