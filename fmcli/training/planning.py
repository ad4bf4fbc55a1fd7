"""The plan of a run: its settings, fitted to the data, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.counts.occurrences import checksum_of, have_counts
from fmcli.data.dataset import Dataset
from fmcli.data.labels import Labels
from fmcli.data.scaling import SCALE, OddColumns, find_odd_columns
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.data.transform import Transform, marked
from fmcli.errors import NothingNewError, UsageError
from fmcli.models.model import Model
from fmcli.records import dataclass
from fmcli.registry.build import build_trainer
from fmcli.registry.losses import LOSSES
from fmcli.registry.options import GROUP_PENALTIES, OPTIONS, SAME_TO_ALL
from fmcli.registry.specs import Spec, make_spec, resolve
from fmcli.registry.streams import PREPARE_STREAM, generator
from fmcli.scoring.calibration import Calibration
from fmcli.solvers.coordinate.hold import Earlier
from fmcli.solvers.newcomers import Newcomers, find
from fmcli.solvers.trainer import Task
from fmcli.training import account
from fmcli.training.account import MemoryNeed
from fmcli.training.draws import draws_bytes
from fmcli.training.fitting import are_dense, fit, on_columns, on_dense_rows, on_new_columns
from fmcli.training.rows import Rows
from fmcli.training.settings import HoldOut, Settings, make_model, state_bytes
from fmcli.training.tested import TestedRows
from fmcli.training.validation import Validation, measured_rows
from fmcli.training.warm_start import WarmStart

# The penalties' options.
STRENGTHS = ("l1_w", "l1_v", "l2_w", "l2_v", *GROUP_PENALTIES, "nuclear", "l1_from_epoch")
# The option that says how strongly the rows of a warm start hold its parameters.
HOLD = "init_strength"
# How many rows at least, if there are so many, show how large the start values of a sampler should be.
ROWS_FOR_START = 10_000


@dataclass(frozen=True)
class Plan:
    """A run before it begins: its model, its data, and the memory that it needs.

    settings : what the run was asked to do.
    spec : the spec of the settings, with the loss chosen, that loss's options filled in, and all defaults resolved.
    source : the rows to train on.
    transform : what was learned from the rows before training, and done to them.
    seen : bool (features), whether each feature occurs in the rows to train on.
    counts : int32 (features), the number of rows to train on that have each feature; None if it takes more than these.
    odd_columns : columns whose scale is a problem even then, if there are any.
    model : the model, not allocated yet.
    resumes : whether the solver resumes with the state that the warm start has kept.
    evaluation : measures the trained model on the training data.
    validation : evaluates each epoch on validation data; None: the last epoch is kept.
    newcomers : the new features, if only their parameters are learned.
    tested : rows that a solver that samples predicts by the mean over its sweeps; None: there are none.
    calibration : what maps the scores of the model to probabilities in place of the loss.
    refit_epochs : for how many epochs the model is trained again on all rows; None: as many as the best one.
    compares_last : whether the best of the last epochs by the training rows is kept, without validation data.
    other : returns the plan of another spec for the same rows, if there are rivals.
    facts : what the data say to defaults that depend on them, for `resolve`.
    begin : start values of the parameters, by name, in place of the usual ones; None: these.
    """

    settings: Settings
    spec: Spec
    source: TrainingRows
    transform: Transform
    seen: NDArray[np.bool_]
    counts: NDArray[np.int32] | None
    odd_columns: OddColumns | None
    model: Model
    resumes: bool
    evaluation: Validation
    validation: Validation | None
    memory: MemoryNeed
    newcomers: Newcomers | None = None
    tested: TestedRows | None = None
    calibration: Calibration | None = None
    refit_epochs: int | None = None
    compares_last: bool = False
    other: Callable[[Spec], Plan] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    begin: Mapping[str, NDArray[Any]] | None = None

    @property
    def data(self) -> Dataset:
        """The rows in memory, transformed: all, or with a cache some random ones."""
        return self.source.data

    @property
    def rows(self) -> NDArray[np.int32]:
        """The numbers of those to train on, in their order."""
        return self.source.rows

    @cached_property
    def measured(self) -> NDArray[np.int32]:
        """The numbers of those by which the trained model is measured."""
        return self.source.numbered(measured_rows(self.data, self.source.rows_here, self.spec))

    @property
    def warm_start(self) -> WarmStart | None:
        """The model that the run resumes from."""
        return self.settings.warm_start

    @property
    def task(self) -> Task:
        """The task of the run's trainer."""
        settings = self.settings
        return Task(
            self.spec,
            self.model,
            self.source,
            settings.threads,
            self.epochs_before,
            settings.deadline,
            settings.interrupt,
            self.newcomers,
            self.earlier,
            self.warm_start.drawn if self.newcomers and self.warm_start else None,
            self.seen_before,
        )

    @property
    def seen_before(self) -> NDArray[np.bool_] | None:
        """Whether the rows to train on, or those of the warm start, have each feature. None: others stay 0, because
        their values in rows to predict are neither scaled nor part of the norm."""
        transform = self.transform
        return None if transform.norm or transform.scale is not None else transform.seen

    @property
    def rows_here(self) -> int:
        """The number of rows to train on, without those of a stream that have gone."""
        return self.source.rows_here if self.source.in_memory else self.source.count

    @property
    def earlier(self) -> Earlier | None:
        """The rows of the warm start, if they hold its parameters."""
        return None if self.newcomers else earlier_of(self.spec, self.source, self.transform, self.warm_start)

    @property
    def one_pass(self) -> bool:
        """Whether the run is a single pass over a stream, so that its own rows cannot evaluate it."""
        return self.settings.stream and bool(self.spec.values["epochs"] == 1)

    @property
    def epochs_before(self) -> int:
        """The number of epochs that the warm start was trained for; this run continues the count."""
        return self.warm_start.run.epochs if self.warm_start else 0

    @property
    def penalised_before(self) -> int:
        """The earlier epochs that count for the option l1_from_epoch: all, if the solver resumes with its state."""
        return self.epochs_before if self.resumes else 0

    @property
    def eligible(self) -> int:
        """The first of the run's epochs that may be the best one or end training: factors are penalized from it on."""
        at_once = self.spec.solver_entry.penalizes_at_once
        return max(1, int(self.spec.values["l1_from_epoch"]) - at_once - self.penalised_before)


def prepare(settings: Settings, rows: Rows, valid: Dataset | None = None) -> Plan:
    """Fit settings to rows without allocating anything large.

    Parameters
    ----------
    valid : validation data for early stopping.

    Raises
    ------
    BadInputError
        Labels that do not fit the loss.
    UsageError
        Metrics that do not fit the loss that the labels choose, nothing left to train on.
    """
    as_read = rows
    read = [*rows.in_memory, *([valid] if valid else [])]
    rows, settings = on_new_columns(settings, rows) if settings.only_new else on_columns(settings, rows)
    settings = on_dense_rows(settings, rows, validated=valid is not None)
    transform, rows, spec = fit(settings, rows, settings.hold_out if valid is None else HoldOut(0.0))
    source = rows.training(transform, settings.threads, grouped=spec.solver_entry.is_sampler)
    warm_start, labels, newcomers = settings.warm_start, transform.labels, None
    if settings.only_new and warm_start:
        newcomers = find(source.data, warm_start.transform.seen)
        if not newcomers.sets:
            raise NothingNewError(f"{warm_start.path} has seen all features of the rows")
        source = TrainingRows(source.data, newcomers.rows, source.fields)
    seen, counts, transform = occurring(source, transform, settings)
    unseen = rows.validated(transform, source.data)
    if valid is not None:
        unseen = transform.of(valid, settings.valid_name), None
    facts: dict[str, Any] = {
        "rows": 1 if newcomers else source.count,  # penalties per row, whose losses are summed
        "nonzeros": source.nonzeros,
        "features": int(seen.sum()),
        "longest": source.longest_square,
        "validated": unseen is not None,
        "updates": warm_start is not None,
        "earlier": 0 if newcomers or warm_start is None else rows_of(warm_start),
        "holds": warm_start is not None and not newcomers and can_hold(warm_start, source, counts),
        **(start_facts(source, labels) if spec.solver_entry.is_sampler else {}),
    }
    spec = resolve(spec, **facts)
    clip = transform.label_range if spec.values["clip"] else None
    dense = are_dense(source.all_rows, source.all_nonzeros, int(seen.sum()))
    waits, threads = settings.waits(source.all_rows, dense=dense), settings.threads
    evaluation = Validation(source.data, labels.loss, settings.metrics, waits, threads, clip=clip)
    validation = None
    if unseen is not None and evaluation.chooser:
        validation = replace(evaluation, data=unseen[0], rows=unseen[1], held_out=valid is None)
    if spec.values.get(HOLD) and warm_start and warm_start.occurrences.counts is None:
        raise UsageError(f"{warm_start.path} does not know how often its features occurred", **{HOLD: 0})
    model = prepared_model(spec, source, transform, warm_start)
    earlier = None if newcomers else earlier_of(spec, source, transform, warm_start)
    trainer = build_trainer(Task(spec, model, source, settings.threads, newcomers=newcomers, earlier=earlier))
    resumes = warm_start is not None and warm_start.has_state(spec, trainer.slots)
    held = account.held([*read, source.data, *([] if unseen is None else unseen[:1])]) + source.rows.nbytes
    held += 0 if counts is None else counts.nbytes
    return Plan(
        settings=settings,
        spec=limit_l1_from_epoch(spec, warm_start, resumes),
        source=source,
        transform=transform,
        seen=seen,
        counts=counts,
        odd_columns=find_odd_columns(source.data, source.rows, spec.values[SCALE]),
        model=model,
        resumes=resumes,
        evaluation=evaluation,
        validation=validation,
        memory=MemoryNeed(held + account.training(trainer, evaluation, validation, settings), held=held),
        other=(lambda spec: prepare(replace(settings, spec=spec), as_read, valid)) if settings.rivals else None,
        newcomers=newcomers,
        facts=facts,
    )


def with_copy(plan: Plan) -> Plan:
    """Return a plan whose model is copied as it is in its file, while it is in memory."""
    slots = build_trainer(plan.task).slots
    kept = slots if plan.settings.may_keep_state(plan.spec, plan.model, slots) else 0
    copy = state_bytes(plan.model, 1 + kept) + draws_bytes(plan.spec, plan.model)
    return replace(plan, memory=replace(plan.memory, total=plan.memory.total + copy))


def with_options(plan: Plan, options: Mapping[str, Any]) -> Plan:
    """Return the plan of the same kind and solver on the same rows with other options, which count as given. They may
    be any but those of the transform of the rows.

    Raises UsageError for options that do not apply or cannot be combined.
    """
    spec = plan.spec
    given = {name: spec.values[name] for name in spec.given if name in OPTIONS}
    made = make_spec(spec.model, spec.solver, spec.loss, {**given, **options})
    fixed = {name: spec.values[name] for name in SAME_TO_ALL if name in spec.values}
    made = resolve(replace(made, values={**made.values, **fixed}, given=spec.given | options.keys()), **plan.facts)
    made = limit_l1_from_epoch(made, None, False)
    model = prepared_model(made, plan.source, plan.transform, None)
    trainer = build_trainer(Task(made, model, plan.source, plan.settings.threads))
    held = plan.memory.held
    total = held + account.training(trainer, plan.evaluation, plan.validation, plan.settings)
    return replace(plan, spec=made, model=model, memory=MemoryNeed(total, held=held))


def occurring(
    source: TrainingRows, transform: Transform, settings: Settings
) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None, Transform]:
    """Return which features occur in the rows to train on, in how many (see Plan), and the transform that knows them
    and those of the warm start."""
    seen, counts = source.occurrences(settings.threads)
    both = settings.warm_start.also_seen(seen) if settings.warm_start else seen
    return seen, counts, replace(transform, marks=marked(both))


def can_hold(warm_start: WarmStart, source: TrainingRows, counts: NDArray[np.int32] | None) -> bool:
    """Return whether the rows of a warm start may hold its parameters: they are known, and are others than these."""
    before = warm_start.occurrences
    if before.counts is None:
        return False
    times = source.data.counts(source.rows) if counts is None else counts
    return not (have_counts(before, times) and before.labels == checksum_of(source))


def rows_of(warm_start: WarmStart) -> int:
    """Return how many rows a warm start was trained on; 0 if it does not know how many had each of its features."""
    counts, rows = warm_start.occurrences.counts, warm_start.occurrences.total
    if counts is None:
        return 0
    return int(counts.max(initial=0)) if rows is None else rows


def earlier_of(spec: Spec, source: TrainingRows, transform: Transform, warm_start: WarmStart | None) -> Earlier | None:
    """Return the rows of a warm start, if they hold its parameters in a run of this spec."""
    strength = spec.values.get(HOLD, 0)
    if not strength or warm_start is None:
        return None
    counts = warm_start.occurrences.counts
    assert counts is not None
    seen, old = warm_start.transform.seen, warm_start.model
    return Earlier(
        strength,
        rows_of(warm_start),
        counts,
        {name: old.known(name, seen) for name in old.parameters},
        lambda: prepared_model(spec, source, transform, None),
    )


def strengths_of(spec: Spec) -> dict[str, Any]:
    """Return the options of a spec that are strengths of penalties, for Penalty."""
    return {name: spec.values[name] for name in STRENGTHS if name in spec.values}


def strengths_in(plan: Plan) -> dict[str, Any]:
    """Return the strengths of the penalties of a run, for Penalty: as L2 is relative to the mean over all rows, but
    the objective is one over the run's, an update has as much of it as the earlier rows that hold its parameters add.
    Without this, new features would have what is right for all rows as the share of a few."""
    strengths = strengths_of(plan.spec)
    if plan.earlier is None:
        return strengths
    share = 1 + min(1.0, plan.earlier.strength) * plan.earlier.rows / plan.source.count
    return strengths | {name: share * strengths[name] for name in ("l2_w", "l2_v") if name in strengths}


def start_facts(source: TrainingRows, labels: Labels) -> dict[str, float]:
    """Return the facts that the start values of a sampler depend on: `spread` and `products` of Facts, for rows at
    equal distances."""
    rows = source.rows[:: max(1, len(source.rows) // ROWS_FOR_START)]
    data = source.data.joined(np.ascontiguousarray(rows))
    squares = np.ones(data.nnz) if data.value is None else data.value.astype(np.float64) ** 2
    of_row = np.repeat(np.arange(data.rows), np.diff(data.indptr))
    first, second = (np.bincount(of_row, power, minlength=data.rows) for power in (squares, squares**2))
    is_number = LOSSES[labels.loss].task == "real"
    return {
        "spread": float(data.label.std()) if is_number else 1.0,
        "products": float(np.mean(first**2 - second)) / 2,
    }


def prepared_model(spec: Spec, source: TrainingRows, transform: Transform, warm_start: WarmStart | None) -> Model:
    """Return the model of a run, prepared for its training rows and its warm start; its parameters are not allocated
    yet."""
    labels = transform.labels
    model = make_model(spec, transform.features, labels.outputs, transform.fields, labels.cutpoints)
    model.absent = transform.dimension - transform.features
    model.prepare(source, generator(spec, PREPARE_STREAM))
    if warm_start:
        model.inherit(warm_start.model, warm_start.transform.seen)
    return model


def limit_l1_from_epoch(spec: Spec, warm_start: WarmStart | None, resumes: bool) -> Spec:
    """Return the spec with the first penalized epoch limited to the run; a default and an inherited value are lowered.

    Raises UsageError if the run was asked to penalize factors only after its last epoch.
    """
    epochs, name = spec.values["epochs"], "l1_from_epoch"
    if warm_start and name not in spec.given:  # factors have left their start values, or are penalized already
        usual = spec.solver_entry.defaults.get(name, OPTIONS[name].default)
        most = warm_start.run.options.get(name, usual) if resumes else usual
        spec = replace(spec, values={**spec.values, name: min(spec.values[name], most)})
    last = epochs + (warm_start.run.epochs if warm_start and resumes else 0)
    if spec.solver_entry.penalizes_at_once:
        last += 1  # at the end of the last epoch
    if not epochs or spec.values.get(name, 1) <= last:
        return spec
    if name in spec.given and warm_start is None:
        given = f"{OPTIONS[name].flag} is {spec.values[name]}"
        raise UsageError(
            f"{given}, after the last of {epochs} epochs; with {spec.solver} it can be at most {last}, or "
            f"{OPTIONS['epochs'].flag} must be larger"
        )
    return replace(spec, values={**spec.values, name: last})
