"""Objects of the compiled core, as the registry and a run's choices describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmcli.registry.losses import LOSSES
from fmcli.registry.models import ModelEntry
from fmcli.registry.specs import Spec

if TYPE_CHECKING:
    from fmcli.losses.loss import Loss
    from fmcli.models.model import Model
    from fmcli.solvers.trainer import Task, Trainer


def build_model(
    kind: ModelEntry, features: int, outputs: int, options: Mapping[str, Any], fields: int = 0, by_row: bool = False
) -> Model:
    """A model of a kind, without memory yet.

    Parameters
    ----------
    options : the kind's own, by keyword.
    fields : of the data.
    by_row : whether all that a feature owns will be one group of a penalty.
    """
    context = {"fields": fields, "by_row": by_row}
    model: Model = kind.load()(features, outputs, **options, **{name: context[name] for name in kind.context})
    return model


def build_loss(spec: Spec, loss: str, outputs: int) -> Loss:
    """The loss of a spec."""
    entry = LOSSES[loss]
    by_classes = {"outputs": outputs} if entry.task == "classes" else {}
    built: Loss = entry.load()(**spec.keywords(entry), **by_classes)
    return built


def build_trainer(task: Task) -> Trainer:
    """The trainer of a task, by its solver; it takes no memory yet."""
    return task.spec.solver_entry.trainer()(task)
