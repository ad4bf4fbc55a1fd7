"""Training in one pass over a stream: rows are trained on as they come, and then forgotten.

The stream is cut into segments. Each of them is trained on by a run that resumes, with the solver's state, from the
model that the segments before it have trained. So new features get parameters as they come, and all models and
stochastic solvers can be used. The memory needed is the model and a segment, however long the stream is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fmcli.data.counts.occurrences import UNKNOWN, count
from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import RowNumbers, TrainingRows
from fmcli.model_file.state import state_arrays
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.specs import Spec
from fmcli.solvers.trainer import Observer
from fmcli.system.memory import require
from fmcli.training.account import need_of
from fmcli.training.checkpoint import Checkpointer
from fmcli.training.job import Run
from fmcli.training.planning import Plan, prepare
from fmcli.training.setup.previous_run import PreviousRun
from fmcli.training.setup.settings import Settings
from fmcli.training.setup.streamed import StreamedRows
from fmcli.training.setup.warm_start import SolverState, WarmStart
from fmcli.training.trained import Epoch, Trained


class PastRows(TrainingRows):
    """The last rows of a stream.

    Parameters
    ----------
    count, nonzeros : of all rows of the stream.
    """

    count = all_rows = nonzeros = all_nonzeros = 0  # of each object, in place of properties

    def __init__(self, data: Dataset, rows: RowNumbers, count: int, nonzeros: int) -> None:
        super().__init__(data, rows)
        self.count, self.all_rows, self.nonzeros, self.all_nonzeros = count, count, nonzeros, nonzeros


class Offset(Observer):
    """Receives the progress on a segment, and passes on the progress on the whole stream.

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


def prepare_stream(settings: Settings, stream: StreamedRows, valid: Dataset | None = None) -> Plan:
    """Return the plan of the next segment of a stream, which the plans of further segments follow.

    settings : of a run of one epoch without held-out rows.
    stream : the rows, with the weights of their labels.
    valid : validation data, to evaluate the final model.

    Raises the errors of `prepare`.
    """
    segment, last = next(iter(stream))
    plan = prepare(settings, segment, valid if last else None)
    if last:
        return plan

    def following(spec: Spec, known: WarmStart) -> Plan:
        stream.segments.enlarge(REAL_TYPE.itemsize * known.model.parameter_count)
        return prepare_stream(replace(settings, spec=spec, warm_start=known), stream, valid)

    return replace(plan, following=following)


def train_online(
    plan: Plan,
    on_epoch: Callable[[Epoch], bool | None] = lambda epoch: None,
    observer: Observer | None = None,
) -> Trained:
    """Train on a stream of rows, in one pass that begins with the segment of a plan.

    on_epoch : called after the pass.
    observer : receives its progress.

    Raises the errors of `train` and `prepare`.
    """
    observer, spec = observer or Observer(), plan.spec
    rows, nonzeros, loss, weight = 0, 0, 0.0, 0.0
    while True:
        need = need_of(plan)
        require(need.total, "training", held=need.held)
        run = Run(plan, lambda epoch: None, Offset(observer, rows, loss), Checkpointer())
        run.complete()
        epoch, added = run.epochs[-1], plan.source.total_weight
        weight += added
        loss += (epoch.loss - loss) * added / weight
        rows, nonzeros = rows + plan.source.count, nonzeros + plan.source.nonzeros
        if plan.following is None or run.late:
            break
        plan = plan.following(spec, resumed(run))
    whole = replace(plan, source=PastRows(plan.data, plan.rows, rows, nonzeros))
    trained = run.finish(run.best.restore() or 1)
    on_epoch(passed := Epoch(1, loss, epoch.penalty, epoch.valid, epoch.seconds))
    return replace(trained, plan=whole, epochs=[passed])


def resumed(run: Run) -> WarmStart:
    """Return the model of a run in memory, from which another run resumes as if it had been saved with the solver's
    state.

    The epoch is not over, so it does not count.
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
