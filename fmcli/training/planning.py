"""The plan of a run: its settings, fitted to the data, and the memory that it needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.dictionary import Dictionary, of_numbers
from fmcli.data.fields import fields_of_features, without_fields, without_gaps
from fmcli.data.labels import NUMBERS, Labels, fit_labels
from fmcli.data.numbering import Numbering
from fmcli.data.paired_rows import PairedRows
from fmcli.data.scaling import (
    SCALE,
    STANDARD,
    ZSCORE,
    ColumnStatistics,
    OddColumns,
    Scaling,
    find_odd_columns,
    is_scaled,
    learn,
)
from fmcli.data.training_rows import TrainingRows
from fmcli.errors import UsageError
from fmcli.models.model import Model
from fmcli.registry.build import build_loss, build_trainer
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import Spec, resolve
from fmcli.registry.streams import HOLDOUT_STREAM, PREPARE_STREAM, generator
from fmcli.solvers.trainer import Task
from fmcli.system.memory import require
from fmcli.training import account
from fmcli.training.account import MemoryNeed
from fmcli.training.clipping import fit_clip
from fmcli.training.groups import groups_of
from fmcli.training.preprocessing import Preprocessing
from fmcli.training.settings import Settings, make_model
from fmcli.training.tested import TestedRows
from fmcli.training.validation import Validation, split
from fmcli.training.warm_start import WarmStart

# How many rows at least, if there are so many, show how large the start values of a sampler should be.
ROWS_FOR_START = 10_000


@dataclass(frozen=True)
class PreparedRows:
    """Rows as the model sees them, and what was learned from them.

    source : the rows to train on.
    all_rows, all_nonzeros : the numbers of rows and of their entries, with those that are held out.
    seen : bool (features), whether each feature occurs in the rows to train on.
    counts : int32 (features), the number of rows to train on that have each feature; None if it takes more than these.
    preprocessing : what was learned from the data and done to them.
    odd_columns : columns whose scale is a problem even then, if there are any.
    """

    source: TrainingRows
    all_rows: int
    all_nonzeros: int
    seen: NDArray[np.bool_]
    counts: NDArray[np.int32] | None
    preprocessing: Preprocessing
    odd_columns: OddColumns | None

    @property
    def data(self) -> Dataset:
        """The rows in memory, preprocessed: all, or with a cache some random ones."""
        return self.source.data

    @property
    def rows(self) -> NDArray[np.int32]:
        """The numbers of those to train on, in their order."""
        return self.source.rows


@dataclass(frozen=True)
class Plan(PreparedRows):
    """A run before it begins: its model, its data, and the memory that it needs.

    settings : what the run was asked to do.
    spec : the spec of the settings, with the loss chosen, that loss's options filled in, and all defaults resolved.
    model : the model, not allocated yet.
    resumes : whether the solver resumes with the state that the warm start has kept.
    evaluation : measures the trained model on the training data.
    validation : evaluates each epoch on validation data; None: the last epoch is kept.
    tested : rows that a solver that samples predicts by the mean over its sweeps; None: there are none.
    """

    settings: Settings
    spec: Spec
    model: Model
    resumes: bool
    evaluation: Validation
    validation: Validation | None
    memory: MemoryNeed
    tested: TestedRows | None = None

    @property
    def warm_start(self) -> WarmStart | None:
        """The model that the run resumes from."""
        return self.settings.warm_start

    @property
    def task(self) -> Task:
        """The task of the run's trainer."""
        settings = self.settings
        return Task(self.spec, self.model, self.source, settings.threads, self.epochs_before, settings.deadline)

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


@dataclass(frozen=True)
class Preprocessed(PreparedRows):
    """The prepared rows that a plan is made from.

    validation_data : the rows to evaluate epochs on, possibly none.
    held_out : whether they were taken from the training data.
    longest_square : the largest squared norm of a row.
    """

    validation_data: Dataset
    held_out: bool
    longest_square: float


def prepare(settings: Settings, data: Dataset, valid: Dataset | None = None) -> Plan:
    """Fit settings to data without allocating anything large.

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
    read = [data, valid] if valid else [data]
    if has_numbering(data, settings):
        data, settings = compact(data, settings)
    spec, warm_start = settings.spec, settings.warm_start
    labels = labels_of(settings, data.label)
    spec = with_loss(spec, labels.loss)
    if data.relations and not is_bounded(spec, labels):
        raise UsageError(
            f"loss {labels.loss} has no largest curvature, by which {spec.solver} bounds the loss of the rows that "
            "refer to a row of a block; join the files"
        )
    features = max(data.features, warm_start.model.features if warm_start else 0)
    data = data.changed(label=labels.encode(data.label), features=features)
    spec, label_range = fit_clip(spec, labels.loss, data.label, warm_start, settings.stream)
    share = settings.share_held_out if valid is None else 0.0
    held, rows = split(data.rows, share, spec, generator(spec, HOLDOUT_STREAM), data.group)
    require(account.copies(spec, data, len(held)), "training")
    if valid:
        valid = valid.renumbered(data.numbering) if data.numbering is not None else valid.within(features)
    if settings.min_count > 1:
        change = without_rare(data, rows, settings)
        data, valid = change(data), valid and change(valid)
    fields = None
    if spec.solver_entry.samples and data.field is not None:
        fields = fields_of_features(data)
        if not MODELS[spec.model].needs_fields(spec.values):
            data, valid = without_fields(data), valid and without_fields(valid)
    groups = groups_of(data, settings)
    if groups is not None and spec.solver_entry.samples:
        fields = without_gaps(groups, data.seen())
    if valid is None:
        validation_data = data.take(held)
    else:
        validation_data = valid.changed(label=labels.encode(valid.label, settings.valid_name))
    scale = None
    if is_scaled(spec.values):
        method = spec.values[SCALE]
        training = everything = ColumnStatistics.of(data, rows, method)
        if len(rows) < data.rows:
            everything = ColumnStatistics.of(data, np.arange(data.rows, dtype=np.int32), method)
        scale = learn_scale(spec, training, everything, warm_start)
        data, validation_data = scale.of(data), scale.of(validation_data)
    seen, counts = TrainingRows(data, rows).occurrences(settings.threads)
    odd = find_odd_columns(data, rows, spec.values[SCALE])
    if spec.values["norm"]:
        data = data.normalised()
        validation_data = validation_data.normalised(warm_start.also_seen(seen) if warm_start else seen)
    number = max(data.fields, warm_start.preprocessing.fields if warm_start else 0)
    preprocessed = Preprocessed(
        source=PairedRows(data, rows) if LOSSES[labels.loss].pairwise else TrainingRows(data, rows, fields),
        all_rows=data.rows,
        all_nonzeros=data.nnz,
        seen=seen,
        counts=counts,
        preprocessing=Preprocessing(labels, number, label_range, scale, groups),
        odd_columns=odd,
        validation_data=validation_data,
        held_out=valid is None,
        longest_square=data.longest_square(),
    )
    held_bytes = account.held([*read, data, *([validation_data] if validation_data.rows else [])])
    return planned(settings, spec, preprocessed, held_bytes + rows.nbytes)


def planned(settings: Settings, spec: Spec, read: Preprocessed, held: int) -> Plan:
    """Return the plan of a run on preprocessed rows, which take `held` bytes. The spec has the loss of the labels."""
    source, preprocessing, warm_start = read.source, read.preprocessing, settings.warm_start
    spec = resolve(
        spec,
        rows=source.count,
        nonzeros=source.nonzeros,
        features=int(read.seen.sum()),
        longest=read.longest_square,
        validated=read.validation_data.rows > 0,
        updates=warm_start is not None,
        **(start_facts(source, preprocessing.labels) if spec.solver_entry.samples else {}),
    )
    loss, clip = preprocessing.labels.loss, preprocessing.label_range if spec.values["clip"] else None
    evaluation = Validation(source.data, loss, settings.metrics, settings.waits, settings.threads, clip=clip)
    validation = None
    if read.validation_data.rows and evaluation.chooser:
        validation = replace(evaluation, data=read.validation_data, held_out=read.held_out)
    model = prepared_model(spec, source, preprocessing, warm_start)
    trainer = build_trainer(Task(spec, model, source, settings.threads))
    resumes = warm_start is not None and warm_start.has_state(spec, trainer.slots)
    held += 0 if read.counts is None else read.counts.nbytes
    return Plan(
        settings=settings,
        spec=limit_l1_from_epoch(spec, warm_start, resumes),
        source=source,
        all_rows=read.all_rows,
        all_nonzeros=read.all_nonzeros,
        seen=read.seen,
        counts=read.counts,
        preprocessing=preprocessing,
        odd_columns=read.odd_columns,
        model=model,
        resumes=resumes,
        evaluation=evaluation,
        validation=validation,
        memory=MemoryNeed(held + account.training(trainer, evaluation, validation, warm_start), held=held),
    )


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


def has_numbering(data: Dataset, settings: Settings) -> bool:
    """Return whether a run has columns only for some features, or a dictionary."""
    with_ids = settings.warm_start is not None and settings.warm_start.numbering is not None
    return MODELS[settings.spec.model].compact or data.numbering is not None or with_ids


def without_rare(data: Dataset, rows: NDArray[np.int32], settings: Settings) -> Callable[[Dataset], Dataset]:
    """Return a function that takes rare features out of rows, or gives them a column that they share. The features that
    are not rare occur in at least `min_count` of the rows with these indices."""
    kept = data.counts(rows, settings.threads) >= settings.min_count
    numbering = numbering_without_rare(data.numbering, kept, settings.share_rare)
    if numbering is None:
        return lambda data: data.only(kept)
    return lambda data: data.renumbered(numbering)


def numbering_without_rare(
    numbering: Numbering | Dictionary | None, kept: NDArray[np.bool_], share: bool
) -> Numbering | Dictionary | None:
    """Return the numbering of the features that are not rare (bool, columns).

    share : whether the others share a column. Otherwise they have none; without a numbering, they keep their columns,
        and the result is None.
    """
    if not share:
        return None if numbering is None else numbering.subset(kept)
    if not isinstance(numbering, Dictionary):
        numbering = of_numbers(all_columns(len(kept)) if numbering is None else numbering)
    return numbering.sharing(kept)


def all_columns(features: int) -> Numbering:
    """Return the numbering in which column j is feature j."""
    return Numbering(np.arange(features, dtype=np.int32))


def compact(data: Dataset, settings: Settings) -> tuple[Dataset, Settings]:
    """Return the rows with columns only for the features that occur in them or in the warm start, and the settings with
    the warm start on these columns."""
    data, warm_start = data.compacted(), settings.warm_start
    if warm_start is None:
        return data, settings
    assert data.numbering is not None
    numbering = data.numbering.joined(warm_start.occurring)
    return data.renumbered(numbering), replace(settings, warm_start=warm_start.on_columns(numbering))


def labels_of(settings: Settings, label: NDArray[np.float64]) -> Labels:
    """Return the labels of the warm start, or those that fit the loss; if the spec has no loss, the labels determine
    it."""
    spec = settings.spec
    if settings.warm_start:
        labels = settings.warm_start.labels_for(spec)
    else:
        labels = fit_labels(label, spec.loss, MODELS[spec.model].closed_form, settings.label_names or NUMBERS)
    supported = spec.solver_entry.losses
    if spec.loss is None and supported and labels.loss not in supported:
        task = LOSSES[labels.loss].task
        return replace(labels, loss=next(name for name in supported if LOSSES[name].task == task))
    return labels


def is_bounded(spec: Spec, labels: Labels) -> bool:
    """Return whether the loss that a solver for all rows at once minimises, or samples by, has a largest curvature."""
    return spec.solver_entry.samples or math.isfinite(build_loss(spec, labels.loss, labels.outputs).smoothness)


def with_loss(spec: Spec, loss: str) -> Spec:
    """Return the spec with the loss of the labels and the defaults of its options, unless it has this loss already."""
    if spec.loss == loss:
        return spec
    loss_options = {name: OPTIONS[name].default for name in LOSSES[loss].options}
    return replace(spec, loss=loss, values={**spec.values, **loss_options})


def learn_scale(
    spec: Spec, training: ColumnStatistics, everything: ColumnStatistics, warm_start: WarmStart | None
) -> Scaling:
    """Return the scaling of the columns: that of the warm start for columns that it has seen, if it has the same
    method."""
    method = spec.values[SCALE]
    if method == ZSCORE and MODELS[spec.model].needs_fields(spec.values):
        raise UsageError(
            f"{spec.model} has fields, and an entry that centering adds to a row would have none", scale=STANDARD
        )
    scale = learn(training, everything, method)
    if warm_start:
        warm_start.keep_scale(scale, method)
    return scale


def prepared_model(
    spec: Spec, source: TrainingRows, preprocessing: Preprocessing, warm_start: WarmStart | None
) -> Model:
    """Return the model of a run, prepared for its training rows and its warm start; its parameters are not allocated
    yet."""
    data = source.data
    labels = preprocessing.labels
    model = make_model(spec, data.features, labels.outputs, preprocessing.fields, labels.cutpoints)
    model.absent = data.dimension - data.features
    model.prepare(source, generator(spec, PREPARE_STREAM))
    if warm_start:
        model.inherit(warm_start.model, warm_start.seen)
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
