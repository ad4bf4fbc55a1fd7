"""Training: from rows and a spec to a trained model. What is above the compiled epoch lives here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fmcli.base.finite import finite
from fmcli.data.dataset import Dataset
from fmcli.data.labels import Labels, fit_labels
from fmcli.data.scaling import Divisors, OddColumns, learn, odd_columns
from fmcli.errors import DivergedError, UsageError
from fmcli.models.model import Model
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss, build_model
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import Spec, resolve
from fmcli.registry.streams import HOLDOUT_STREAM, PREPARE_STREAM, START_STREAM, generator
from fmcli.scoring.metrics import Outcome, Range
from fmcli.scoring.rows import score_rows
from fmcli.scoring.sparsity import model_sparsity
from fmcli.solvers.stochastic.solver import Solver
from fmcli.solvers.stochastic.trainer import Stochastic
from fmcli.system.memory import require
from fmcli.training import account
from fmcli.training.baseline import Baseline, baseline_of
from fmcli.training.clipping import fit_clip
from fmcli.training.divergence import Watch
from fmcli.training.validation import Best, Validation, split
from fmcli.training.warm_start import Earlier, take_over

# What an objective is at least taken to be when its changes are compared with it.
TINY = 1e-12


# The penalties' options.
STRENGTHS = ("l1_w", "l1_v", "l2_w", "l2_v", "group_l1", "nuclear", "l1_from_epoch")


class Course(Protocol):
    """How a model is taken through epochs: row by row, column by column, or as a whole."""

    def run(self, epochs: int, after: Callable[[float, float], bool]) -> None:
        """Train; `after` is called with the mean loss and the penalty of every epoch and tells whether to stop."""


@dataclass(frozen=True)
class Epoch:
    """One epoch's figures.

    loss : mean over the samples, under row solvers of each before its own update, else of all at the epoch's end.
    penalty : of the parameters at the epoch's end.
    valid : metrics on the validation data, by name; empty without.
    """

    number: int
    loss: float
    penalty: float
    valid: dict[str, float]
    seconds: float

    @property
    def objective(self) -> float:
        return self.loss + self.penalty


@dataclass(frozen=True)
class Plan:
    """A run before it begins: what it will train on what, and what that takes.

    spec : the spec, its loss chosen, that loss's options filled in, and all defaults resolved.
    fields : of the data, where the model needs them, and of the earlier model; else 0.
    rows : int32, numbers of the rows to train on, in file order.
    judge : what measures the trained model on the data.
    validation : what epochs are judged by; None: the last epoch is kept.
    resumes : whether the solver goes on with the state that the earlier model's has kept.
    stream : whether the rows come from a pipe.
    range : the smallest and largest label of this run and those before it, where predictions can be clipped to them.
    scale : float32 (features), what the columns of `data` were divided by; None: nothing.
    odd : columns whose scale is a problem, if there are any.
    bytes : memory that the run takes at most, the rows included; `held` of it are in use by now.
    """

    spec: Spec
    data: Dataset
    labels: Labels
    model: Model
    fields: int
    rows: NDArray[np.int32]
    judge: Validation
    validation: Validation | None
    earlier: Earlier | None
    resumes: bool
    stream: bool
    range: Range | None
    scale: Divisors | None
    odd: OddColumns | None
    bytes: int
    held: int

    @property
    def one_pass(self) -> bool:
        """Whether the run is a single pass over a stream, whose rows cannot judge it."""
        return self.stream and bool(self.spec.values["epochs"] == 1)

    @property
    def epochs_before(self) -> int:
        """Epochs that the earlier model has gone through, from which this run counts on."""
        return self.earlier.epochs if self.earlier else 0

    @property
    def penalised_before(self) -> int:
        """Those of them that count for --l1-from-epoch: all that led to the state with which the solver resumes."""
        return self.epochs_before if self.resumes else 0

    @property
    def eligible(self) -> int:
        """The first of the run's epochs that may be the best one or end training: no factor is penalized before."""
        visits = self.spec.by_rows and SOLVERS[self.spec.solver].penalizes_at_once
        return max(1, int(self.spec.values["l1_from_epoch"]) - visits - self.penalised_before)


@dataclass(frozen=True)
class Trained:
    """A trained model.

    seen : bool (features), whether the feature occurred in the training data.
    baseline : the best constant, to compare the model with.
    best : number of the epoch whose parameters the model has; 0: the start values.
    outcome : what the model makes of the training rows; None before it is finished.
    chosen_by : of a model that was trained again on all rows: the run whose held-out rows chose the number of epochs.
    """

    plan: Plan
    solver: Solver
    seen: NDArray[np.bool_]
    baseline: Baseline
    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0
    outcome: Outcome | None = None
    chosen_by: Trained | None = None

    @property
    def judged(self) -> Trained:
        """The run whose epochs were judged by validation data, if there are any."""
        return self.chosen_by or self

    @property
    def settled(self) -> bool:
        """Whether the last epoch has lowered the objective by no more than the run's tolerance, if it has one."""
        tolerance = self.plan.spec.values.get("tol")
        if tolerance is None or len(self.epochs) < max(2, self.plan.eligible):
            return False
        before, now = (epoch.objective for epoch in self.epochs[-2:])
        return bool(before - now <= tolerance * max(abs(before), TINY))

    @property
    def exhausted(self) -> bool:
        """Whether training stopped because validation found no better epoch for as long as its patience lasts."""
        validation = self.plan.validation
        if validation is None:
            return False
        worse = [epoch for epoch in self.epochs[self.best :] if not math.isnan(epoch.valid[validation.chooser])]
        return len(worse) >= validation.patience


def plan(
    data: Dataset,
    spec: Spec,
    *,
    valid: Dataset | None = None,
    valid_name: str = "validation data",
    holdout: float | None = 0.0,
    metrics: tuple[str, ...] = (),
    patience: int = 3,
    earlier: Earlier | None = None,
    stream: bool = False,
    threads: int = 1,
) -> Plan:
    """Fit a spec to data without allocating anything large.

    Parameters
    ----------
    valid : rows to judge epochs by.
    valid_name : what they are, for messages.
    holdout : share of `data` to hold out and judge epochs by; None: for row solvers 5 % of 10,000 rows or more in
        several epochs.
    metrics : names of metrics, the first of which (but for sparsity) chooses the epoch; none: the usual ones.
    patience : epochs without a better one after which training stops.
    earlier : a model to go on from.
    stream : whether `data` comes from a pipe, so that a single epoch is no more than a pass.
    threads : for judging epochs.

    Raises
    ------
    BadInputError
        Labels that do not fit the loss.
    UsageError
        Metrics that do not fit the loss, an earlier model of another kind, nothing left to train on.
    """
    read = [data, valid] if valid else [data]
    labels = earlier.labels_for(spec) if earlier else fit_labels(data.label, spec.loss, MODELS[spec.model].closed_form)
    if spec.loss is None:
        loss_options = {name: OPTIONS[name].default for name in LOSSES[labels.loss].options}
        spec = replace(spec, loss=labels.loss, values={**spec.values, **loss_options})
    features = max(data.features, earlier.model.features if earlier else 0)
    data = data.changed(label=labels.encode(data.label), features=features)
    spec, label_range = fit_clip(spec, labels.loss, data.label, earlier, stream)
    held, rows = split(data.rows, holdout if valid is None else 0.0, spec, generator(spec, HOLDOUT_STREAM))
    require(account.copies(spec, data, len(held)), "training")
    known = data.seen(rows)
    if valid is None:
        judged = data.take(held)
    else:
        judged = valid.within(features).changed(label=labels.encode(valid.label, valid_name))
    scale = learn(data, rows, spec.values["scale"])
    if scale is not None:
        if earlier:
            earlier.keep_scale(scale, spec.values["scale"])
        data, judged = data.scaled(scale), judged.scaled(scale)
    odd = odd_columns(data, rows)
    if spec.values["norm"]:
        data, judged = data.normalised(), judged.normalised(earlier.also_seen(known) if earlier else known)
    spec = resolve(
        spec,
        rows=len(rows),
        nonzeros=nonzeros_of(data, rows),
        features=int(known.sum()),
        longest=data.longest_square(),
        validated=judged.rows > 0,
    )
    clip = label_range if spec.values["clip"] else None
    judge = Validation(data, labels.loss, metrics, patience, threads, clip=clip)
    validation = replace(judge, data=judged, held_out=valid is None) if judged.rows and judge.chooser else None
    fields = max(data.fields, earlier.fields if earlier else 0)
    model = make_model(spec, features, labels, fields)
    if earlier:
        check_earlier(earlier, spec)
    model.prepare(data, rows, generator(spec, PREPARE_STREAM))
    if earlier:
        model.inherit(earlier.model, earlier.seen)
    solver = make_solver(spec)
    resumes = earlier is not None and earlier.has_state(spec, solver)
    if not MODELS[spec.model].closed_form:
        spec = limit_l1_from_epoch(spec, earlier, resumes)
    here = account.held([*read, data, *([judged] if validation else [])]) + rows.nbytes
    more = account.training(spec, model, solver, data, len(rows), judge, validation, earlier)
    return Plan(
        spec,
        data,
        labels,
        model,
        fields,
        rows,
        judge,
        validation,
        earlier,
        resumes,
        stream,
        label_range,
        scale,
        odd,
        here + more,
        here,
    )


def limit_l1_from_epoch(spec: Spec, earlier: Earlier | None, resumes: bool) -> Spec:
    """The spec with the first penalized epoch within the run: a default is lowered, and so is what a resumed run has.

    Raises UsageError if a run was asked to penalize factors only after its last epoch.
    """
    epochs, name = spec.values["epochs"], "l1_from_epoch"
    if earlier and name not in spec.given:  # factors have left their start, or penalties act already
        usual = SOLVERS[spec.solver].defaults.get(name, OPTIONS[name].default)
        most = earlier.options.get(name, usual) if resumes else usual
        spec = replace(spec, values={**spec.values, name: min(spec.values[name], most)})
    last = epochs + (earlier.epochs if earlier and resumes else 0)
    if spec.by_rows and SOLVERS[spec.solver].penalizes_at_once:
        last += 1  # at the end of the last epoch
    if not epochs or spec.values.get(name, 1) <= last:
        return spec
    if name in spec.given and earlier is None:
        given = f"{OPTIONS[name].flag} is {spec.values[name]}"
        raise UsageError(
            f"{given}, after the last of {epochs} epochs; with {spec.solver} it can be at most {last}, or "
            f"{OPTIONS['epochs'].flag} must be larger"
        )
    return replace(spec, values={**spec.values, name: last})


def nonzeros_of(data: Dataset, rows: NDArray[np.int32]) -> int:
    """Entries of some rows."""
    return int(np.diff(data.indptr)[rows].sum())


def make_model(spec: Spec, features: int, labels: Labels, fields: int) -> Model:
    """The model of a spec, without memory yet."""
    kind = MODELS[spec.model]
    return build_model(kind, features, labels.outputs, spec.keywords(kind), fields, spec.values["group_l1"] > 0)


def check_earlier(earlier: Earlier, spec: Spec) -> None:
    """Raises UsageError where a run of this spec cannot go on from an earlier model, whatever its data."""
    earlier.check(spec, make_model(spec, earlier.model.features, earlier.labels_for(spec), earlier.fields))


def make_solver(spec: Spec) -> Solver:
    """The row solver of a spec, not bound to a model yet; one that does nothing where none is needed."""
    if not spec.by_rows:
        return Solver()
    solver: Solver = SOLVERS[spec.solver].load()(**spec.keywords(SOLVERS[spec.solver]))
    return solver


def train(
    plan: Plan,
    *,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    on_rows: Callable[[int, int], None] = lambda epoch, rows: None,
    on_loss: Callable[[int, int, float], None] = lambda epoch, rows, loss: None,
    every: int | None = None,
) -> Trained:
    """Train a plan's model.

    Parameters
    ----------
    on_epoch : called after every epoch.
    on_rows : called several times a second with the epoch (from 1) and the rows of it that are done.
    on_loss : called every so many rows with the epoch, the rows of it that are done, and the mean loss over them, each
        before its own update.
    every : how many rows that is, rounded up to whole batches; None: never.

    Raises
    ------
    NotEnoughMemoryError
        Found before anything is allocated.
    DivergedError
        A loss or a parameter is no longer finite; its `trained` is the best epoch before, where validation found one.
    """
    require(plan.bytes, "training", held=plan.held)
    if MODELS[plan.spec.model].closed_form:
        return solve(plan, on_epoch)
    spec, data, model, rows = plan.spec, plan.data, plan.model, plan.rows
    loss, solver = build_loss(spec, plan.labels.loss, plan.labels.outputs), make_solver(spec)
    strengths = {name: spec.values[name] for name in STRENGTHS if name in spec.values}
    penalty = Penalty(**strengths, epochs=plan.penalised_before)
    seen = data.seen(rows)
    model.allocate(solver.slots)
    with np.errstate(over="ignore"):  # start values that are not finite are refused below
        model.start(seen, spec.values["init_std"], generator(spec, START_STREAM))
    weight = None if data.weight is None else data.weight[rows]
    if model.has_bias:
        with np.errstate(over="ignore", invalid="ignore"):  # a bias that is not finite is refused below
            model.parameters["bias"][...] = loss.best_constant(data.label[rows], weight) - empty_score(model)
    if plan.earlier:
        seen = take_over(plan.earlier, model, seen)
    else:
        model.start_on(data, rows, generator(spec, PREPARE_STREAM))
    baseline = baseline_of(plan, loss)
    watch = Watch(plan, loss, baseline)
    watch.start(model)
    course: Course
    if spec.by_rows:
        course = Stochastic(plan, solver, loss, penalty, on_rows, on_loss, every)
    else:
        ours = data if len(rows) == data.rows else data.take(rows)
        course = SOLVERS[spec.solver].load()(model, loss, penalty, ours, plan.judge.threads, on_rows)
    best = Best(plan.validation, model, solver, plan.eligible)
    trained = Trained(plan, solver, seen, baseline)
    begin = time.perf_counter()

    def after(loss: float, penalty: float) -> bool:
        """Judge an epoch; whether it shall be the last."""
        nonlocal begin
        number = len(trained.epochs) + 1
        watch.epoch(number, loss)
        valid = best.judge(number)
        trained.epochs.append(Epoch(number, loss, penalty, valid, time.perf_counter() - begin))
        on_epoch(trained.epochs[-1])
        begin = time.perf_counter()
        return best.enough or trained.settled

    try:
        if spec.values["epochs"]:
            course.run(spec.values["epochs"], after)
    except DivergedError as error:
        if best.number:
            error.trained = finish(replace(trained, best=best.restore()), watch)
        raise
    return finish(replace(trained, best=best.restore() or len(trained.epochs)), watch)


def finish(trained: Trained, watch: Watch) -> Trained:
    """Look at the parameters that are to be saved. Raises DivergedError where they should not be."""
    outcome = trained.plan.judge.outcome(trained.plan.model, trained.plan.rows)
    watch.end(trained.plan.model, outcome)
    return replace(trained, outcome=outcome)


def solve(plan: Plan, on_epoch: Callable[[Epoch], None]) -> Trained:
    """Fit a model that no solver trains; the log shows it as one epoch."""
    from fmcli.models.kernel_basis import KernelBasis
    from fmcli.solvers.closed_form import fit

    assert isinstance(plan.model, KernelBasis)
    begin = time.perf_counter()
    solver, loss_of_rows = make_solver(plan.spec), build_loss(plan.spec, plan.labels.loss, plan.labels.outputs)
    baseline = baseline_of(plan, loss_of_rows)
    plan.model.allocate(solver.slots)
    loss, penalty = fit(plan.model, plan.data, plan.rows, plan.spec.values["l2_v"])
    valid = Best(plan.validation, plan.model, solver).judge(1)
    epoch = Epoch(1, loss, penalty, valid, time.perf_counter() - begin)
    on_epoch(epoch)
    trained = Trained(plan, solver, plan.data.seen(plan.rows), baseline, [epoch], best=1)
    return finish(trained, Watch(plan, loss_of_rows, baseline))


def empty_score(model: Model) -> NDArray[np.float64]:
    """The scores (outputs) of a row without entries."""
    row = Dataset(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32), None, None, model.features)
    scores: NDArray[np.float64] = score_rows(model, row)[0]
    return scores


def summary(trained: Trained) -> dict[str, Any]:
    """The figures of a finished run that its model file keeps, as JSON has them.

    "train" and "valid" are of the saved parameters, but "valid" of a refit is of the run that chose its epochs, whose
    held-out rows it has not seen; "valid_constant" is of the best constant.
    """
    plan, judged = trained.plan, trained.judged
    validation = judged.plan.validation
    kept = trained.epochs[trained.best - 1] if trained.best else None
    of_start = validation.measure(plan.model) if validation and not kept else {}
    figures = {
        "rows": len(plan.rows),
        "nonzeros": nonzeros_of(plan.data, plan.rows),
        "features": int(trained.seen.sum()),
        "parameters": plan.model.parameter_count,
        "epochs": plan.epochs_before + len(judged.epochs),
        "best_epoch": plan.epochs_before + judged.best,
        "refit": trained.chosen_by is not None,
        "loss": kept and kept.loss,
        "penalty": kept and kept.penalty,
        "objective": kept and kept.objective,
        "train": plan.judge.measure(plan.model, trained.outcome),
        "valid": judged.epochs[judged.best - 1].valid if kept else of_start,
        "valid_constant": judged.baseline.measure(validation) if validation else {},
        "sparsity": model_sparsity(plan.model),
        **plan.model.figures(plan.data, plan.rows),
    }
    return finite(figures)
