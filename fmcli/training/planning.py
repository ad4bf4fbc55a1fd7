"""The plan of a run: its settings, fitted to the data, and the memory that it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.data.labels import Labels, fit_labels
from fmcli.data.scaling import Divisors, OddColumns, learn, odd_columns
from fmcli.errors import UsageError
from fmcli.models.model import Model
from fmcli.registry.build import build_trainer
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import Spec, resolve
from fmcli.registry.streams import HOLDOUT_STREAM, PREPARE_STREAM, generator
from fmcli.scoring.metrics import Range
from fmcli.solvers.trainer import Task
from fmcli.system.memory import require
from fmcli.training import account
from fmcli.training.clipping import fit_clip
from fmcli.training.settings import Settings, make_model
from fmcli.training.validation import Validation, split
from fmcli.training.warm_start import WarmStart


@dataclass(frozen=True)
class Plan:
    """A run before it begins: its model, its data, and the memory that it needs.

    settings : what the run was asked to do.
    spec : the spec of the settings, with the loss chosen, that loss's options filled in, and all defaults resolved.
    fields : number of fields of the data and of the earlier model, if the model needs fields; else 0.
    rows : int32, numbers of the rows to train on, in file order.
    evaluation : measures the trained model on the training data.
    validation : evaluates each epoch on validation data; None: the last epoch is kept.
    resumes : whether the solver resumes with the state that the earlier model's file has kept.
    range : the smallest and largest label of this run and of the runs before it, if predictions can be clipped.
    scale : float32 (features), what the columns of `data` were divided by; None: nothing.
    odd : columns whose scale is a problem, if there are any.
    bytes : the most memory that the run needs, including the rows; `held` bytes of it are in use already.
    """

    settings: Settings
    spec: Spec
    data: Dataset
    labels: Labels
    model: Model
    fields: int
    rows: NDArray[np.int32]
    evaluation: Validation
    validation: Validation | None
    resumes: bool
    range: Range | None
    scale: Divisors | None
    odd: OddColumns | None
    bytes: int
    held: int

    @property
    def earlier(self) -> WarmStart | None:
        """The model that the run resumes from."""
        return self.settings.earlier

    @property
    def task(self) -> Task:
        """What the run's trainer trains."""
        return Task(self.spec, self.model, self.data, self.rows, self.settings.threads, self.epochs_before)

    @property
    def one_pass(self) -> bool:
        """Whether the run is a single pass over a stream, so that its own rows cannot evaluate it."""
        return self.settings.stream and bool(self.spec.values["epochs"] == 1)

    @property
    def epochs_before(self) -> int:
        """The number of epochs that the earlier model was trained for; this run continues the count."""
        return self.earlier.epochs if self.earlier else 0

    @property
    def penalised_before(self) -> int:
        """Those of them that count for the option l1_from_epoch: all, if the solver resumes with its state."""
        return self.epochs_before if self.resumes else 0

    @property
    def eligible(self) -> int:
        """The first of the run's epochs that may be the best one or end training: factors are penalized from it on."""
        at_once = self.spec.solver_entry.penalizes_at_once
        return max(1, int(self.spec.values["l1_from_epoch"]) - at_once - self.penalised_before)


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
    spec, earlier = settings.spec, settings.earlier
    read = [data, valid] if valid else [data]
    labels = earlier.labels_for(spec) if earlier else fit_labels(data.label, spec.loss, MODELS[spec.model].closed_form)
    if spec.loss is None:
        loss_options = {name: OPTIONS[name].default for name in LOSSES[labels.loss].options}
        spec = replace(spec, loss=labels.loss, values={**spec.values, **loss_options})
    features = max(data.features, earlier.model.features if earlier else 0)
    data = data.changed(label=labels.encode(data.label), features=features)
    spec, label_range = fit_clip(spec, labels.loss, data.label, earlier, settings.stream)
    share = settings.share_held_out if valid is None else 0.0
    held, rows = split(data.rows, share, spec, generator(spec, HOLDOUT_STREAM))
    require(account.copies(spec, data, len(held)), "training")
    known = data.seen(rows)
    if valid is None:
        validation_data = data.take(held)
    else:
        validation_data = valid.within(features).changed(label=labels.encode(valid.label, settings.valid_name))
    scale = learn(data, rows, spec.values["scale"])
    if scale is not None:
        if earlier:
            earlier.keep_scale(scale, spec.values["scale"])
        data, validation_data = data.scaled(scale), validation_data.scaled(scale)
    odd = odd_columns(data, rows)
    if spec.values["norm"]:
        data = data.normalised()
        validation_data = validation_data.normalised(earlier.also_seen(known) if earlier else known)
    spec = resolve(
        spec,
        rows=len(rows),
        nonzeros=nonzeros_of(data, rows),
        features=int(known.sum()),
        longest=data.longest_square(),
        validated=validation_data.rows > 0,
    )
    clip = label_range if spec.values["clip"] else None
    evaluation = Validation(data, labels.loss, settings.metrics, settings.patience, settings.threads, clip=clip)
    validation = None
    if validation_data.rows and evaluation.chooser:
        validation = replace(evaluation, data=validation_data, held_out=valid is None)
    fields = max(data.fields, earlier.fields if earlier else 0)
    model = prepared_model(spec, data, rows, labels.outputs, fields, earlier)
    trainer = build_trainer(Task(spec, model, data, rows, settings.threads))
    resumes = earlier is not None and earlier.has_state(spec, trainer.slots)
    here = account.held([*read, data, *([validation_data] if validation else [])]) + rows.nbytes
    return Plan(
        settings=settings,
        spec=limit_l1_from_epoch(spec, earlier, resumes),
        data=data,
        labels=labels,
        model=model,
        fields=fields,
        rows=rows,
        evaluation=evaluation,
        validation=validation,
        resumes=resumes,
        range=label_range,
        scale=scale,
        odd=odd,
        bytes=here + account.training(trainer, evaluation, validation, earlier),
        held=here,
    )


def prepared_model(
    spec: Spec, data: Dataset, rows: NDArray[np.int32], outputs: int, fields: int, earlier: WarmStart | None
) -> Model:
    """The model of a run, prepared for its training rows and for the earlier model, if there is one.

    Its parameters are not allocated yet.
    """
    model = make_model(spec, data.features, outputs, fields)
    model.prepare(data, rows, generator(spec, PREPARE_STREAM))
    if earlier:
        model.inherit(earlier.model, earlier.seen)
    return model


def limit_l1_from_epoch(spec: Spec, earlier: WarmStart | None, resumes: bool) -> Spec:
    """The spec with the first penalized epoch limited to the run; a default and an inherited value are lowered.

    Raises UsageError if the run was asked to penalize factors only after its last epoch.
    """
    epochs, name = spec.values["epochs"], "l1_from_epoch"
    if earlier and name not in spec.given:  # factors have left their start values, or are penalized already
        usual = spec.solver_entry.defaults.get(name, OPTIONS[name].default)
        most = earlier.options.get(name, usual) if resumes else usual
        spec = replace(spec, values={**spec.values, name: min(spec.values[name], most)})
    last = epochs + (earlier.epochs if earlier and resumes else 0)
    if spec.solver_entry.penalizes_at_once:
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
