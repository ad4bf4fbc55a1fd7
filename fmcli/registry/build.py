"""Constructors of compiled objects (model, loss, trainer) from registry entries and the options of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmcli.registry.entry import load
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import ModelEntry
from fmcli.registry.solvers import ROW_TRAINER
from fmcli.registry.specs import Spec

if TYPE_CHECKING:
    from fmcli.losses.loss import Loss
    from fmcli.models.model import Model
    from fmcli.solvers.trainer import Task, Trainer


def build_model(
    kind: ModelEntry,
    features: int,
    outputs: int,
    options: Mapping[str, Any],
    fields: int = 0,
    by_row: bool = False,
    cutpoints: int = 0,
) -> Model:
    """Return a model of a kind. Its arrays are not allocated yet.

    Parameters
    ----------
    options : the options of the kind, by keyword.
    fields : the number of fields in the data.
    by_row : whether all parameters of a feature form one group of a group penalty.
    cutpoints : the number of cutpoints between ordered labels.
    """
    context = {"fields": fields, "by_row": by_row}
    model: Model = kind.load()(features, outputs, **options, **{name: context[name] for name in kind.context})
    model.cutpoints = cutpoints
    return model


def build_loss(spec: Spec, loss: str, columns: int) -> Loss:
    """Return the loss named `loss` with the options of the spec, for `columns` numbers per row (Model.columns)."""
    entry = LOSSES[loss]
    by_classes = {"outputs": columns} if entry.task in ("classes", "levels") else {}
    built: Loss = entry.load()(**spec.keywords(entry), **by_classes)
    return built


def is_bounded(spec: Spec, loss: str, columns: int) -> bool:
    """Return whether the loss has a largest curvature, for solvers that minimize over all rows at once; always true for
    samplers. See `build_loss`."""
    return spec.solver_entry.is_sampler or math.isfinite(build_loss(spec, loss, columns).smoothness)


def build_trainer(task: Task) -> Trainer:
    """Return the trainer for the solver of a task. Its arrays are not allocated yet."""
    solver = task.spec.solver_entry
    trainer: type[Trainer] = load(ROW_TRAINER) if solver.by_rows else solver.load()
    return trainer(task)
