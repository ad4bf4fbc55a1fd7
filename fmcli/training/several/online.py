"""Training in one pass over a stream: rows are trained on as they come, and then forgotten.

The stream is cut into segments. Each of them is trained on by a run that resumes, with the solver's state, from the
model that the segments before it have trained. So new features get parameters as they come, and all models and
stochastic solvers can be used. The memory needed is that of the model and of a segment, however long the stream is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from fmcli.data.counts.occurrences import UNKNOWN, count
from fmcli.data.dataset import Dataset
from fmcli.data.labels import Names
from fmcli.data.pieces import TextRows, concatenated_by_ids
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.model_file.state import state_arrays
from fmcli.models.layout import REAL_TYPE
from fmcli.solvers.trainer import Observer
from fmcli.system.memory import require
from fmcli.training.checkpoint import Keeper
from fmcli.training.job import Run
from fmcli.training.planning import Plan, prepare
from fmcli.training.setup.previous_run import PreviousRun
from fmcli.training.setup.rows import RowsInMemory
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.warm_start import SolverState, WarmStart
from fmcli.training.trained import Epoch, Trained

# The least number of bytes of a segment's rows. The rows of a segment take at least as many bytes as the parameters, so
# that copying these takes less time than training.
SEGMENT_BYTES = 64 << 20


class PastRows(TrainingRows):
    """The last rows of a stream.

    Parameters
    ----------
    count, nonzeros : of all rows of the stream.
    """

    def __init__(self, data: Dataset, rows: RowNumbers, count: int, nonzeros: int) -> None:
        super().__init__(data, rows)
        self._count, self._nonzeros = count, nonzeros

    @property
    def count(self) -> int:
        return self._count

    @property
    def nonzeros(self) -> int:
        return self._nonzeros

    @property
    def all_rows(self) -> int:
        return self._count

    @property
    def all_nonzeros(self) -> int:
        return self._nonzeros


class Offset(Observer):
    """Receives the progress on a segment, and passes on that of the whole stream.

    Parameters
    ----------
    observer : receives it.
    before : the number of rows before the segment.
    mean_loss : their mean loss.
    """

    def __init__(self, observer: Observer, before: int, mean_loss: float) -> None:
        self.every, self.before, self._observer, self._mean_loss = observer.every, before, observer, mean_loss

    def rows(self, epoch: int, rows: int) -> None:
        self._observer.rows(epoch, self.before + rows)

    def loss(self, epoch: int, rows: int, loss: float) -> None:
        total = self.before * self._mean_loss + rows * loss
        self._observer.loss(epoch, self.before + rows, total / (self.before + rows))


def segments(
    pieces: Iterable[TextRows], size: Callable[[], int], unit: int, threads: int
) -> Iterator[tuple[Dataset, bool]]:
    """Concatenate pieces of rows to segments of at least `size()` bytes; with each, whether it is the last one.

    unit : the number of rows of a segment, except the last one, is a multiple of it.
    """
    held: list[TextRows] = []
    for piece in pieces:
        rows = sum(one.data.rows for one in held)
        if rows >= unit and sum(one.data.nbytes for one in held) >= size():
            rest = last_rows(held, rows % unit)
            yield concatenated_by_ids(held, threads), False
            held = rest
        held.append(piece)
    yield concatenated_by_ids(held, threads), True


def last_rows(pieces: list[TextRows], rows: int) -> list[TextRows]:
    """Remove so many rows at the end of some pieces; returns them."""
    removed: list[TextRows] = []
    while rows:
        piece = pieces.pop()
        count = min(rows, piece.data.rows)
        every = np.arange(piece.data.rows, dtype=np.int32)
        removed.insert(0, replace(piece, data=piece.data.take(every[len(every) - count :])))
        if count < len(every):
            pieces.append(replace(piece, data=piece.data.take(every[: len(every) - count])))
        rows -= count
    return removed


def train_online(
    settings: Settings,
    pieces: Iterable[TextRows],
    change: Callable[[Dataset], tuple[Dataset, Names]],
    on_plan: Callable[[Plan], Observer],
    valid: Dataset | None = None,
) -> Trained:
    """Train on a stream of rows, in one pass.

    Parameters
    ----------
    settings : those of a run of one epoch that holds nothing out.
    pieces : the rows, with labels.
    change : makes of a segment what is trained on, and says what its labels 0, 1, .. stand for.
    on_plan : called with the plan of the first segment; returns what receives the progress.
    valid : validation data, to evaluate the final model.

    Raises the errors of `prepare` and `train`.
    """
    observer, rows, nonzeros, loss, weight = Observer(), 0, 0, 0.0, 0.0
    known: WarmStart | None = None
    spec = settings.spec

    def size() -> int:
        return max(SEGMENT_BYTES, REAL_TYPE.itemsize * known.model.parameter_count if known else 0)

    for segment, last in segments(pieces, size, spec.values["batch_size"], settings.threads):
        data, names = change(segment)
        here = replace(settings, spec=spec, warm_start=known or settings.warm_start)
        plan = prepare(here, RowsInMemory(data, names), valid if last else None)
        if known is None:
            observer, spec = on_plan(plan), plan.spec
        require(plan.memory.total, "training", held=plan.memory.held)
        run = Run(plan, lambda epoch: None, Offset(observer, rows, loss), Keeper())
        run.complete()
        epoch, added = run.epochs[-1], plan.source.total_weight
        weight += added
        loss += (epoch.loss - loss) * added / weight
        rows, nonzeros = rows + plan.source.count, nonzeros + plan.source.nonzeros
        if last or run.late:
            break
        known = resumed(run)
    whole = replace(plan, source=PastRows(plan.data, plan.rows, rows, nonzeros))
    trained = run.finish(run.best.restore() or 1)
    return replace(trained, plan=whole, epochs=[Epoch(1, loss, epoch.penalty, epoch.valid, epoch.seconds)])


def resumed(run: Run) -> WarmStart:
    """Return the model of a run in memory, from which another run resumes as if it had been saved with the solver's
    state.

    The epoch is not over, so that it does not count.
    """
    plan, model = run.plan, run.model
    previous = plan.warm_start.occurrences if plan.warm_start else UNKNOWN
    spec, epochs = plan.spec, plan.epochs_before
    return WarmStart(
        path=plan.warm_start.path if plan.warm_start else "the rows before",
        run=PreviousRun(spec.model, spec.solver, plan.transform.labels.loss, spec.values, spec.given, epochs),
        model=model,
        transform=plan.transform,
        arrays={**model.parameters, **model.constants, **state_arrays(model)},
        state=SolverState(spec.solver, model.slots, run.trainer.updates),
        occurrences=count(plan.data, plan.rows, previous, plan.counts, plan.rows_here),
    )
