"""The unit of labels that are numbers, fitted to the rows of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fmcli.base.label_unit import ONE, LabelUnit
from fmcli.data.labels import Labels
from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import SCALE_LABELS, SCALED_TASK, Spec, check_scale_labels
from fmcli.text import figure
from fmcli.training.setup.rows import DividedRows

if TYPE_CHECKING:
    from fmcli.training.setup.warm_start import WarmStart


def fit_unit(spec: Spec, labels: Labels, rows: DividedRows, warm_start: WarmStart | None) -> tuple[Spec, Labels]:
    """Return the spec with its choice to scale labels, and the labels with their unit: the unit of the warm start,
    whose parameters have it, or the mean and the standard deviation of the labels of the rows. A model without a bias
    scores rows without features 0, so its labels are not centered.

    Raises UsageError if the loss does not take numbers, or the warm start was trained in another way.
    """
    asked = spec.values[SCALE_LABELS]
    check_scale_labels(labels.loss, asked)
    if LOSSES[labels.loss].task != SCALED_TASK or labels.values is not None:
        return with_choice(spec, False), replace(labels, unit=ONE)
    if warm_start is None:
        scaled = asked is None or bool(asked)
        unit = rows.label_moments().unit(centered=spec.values.get("bias", True)) if scaled else ONE
        return with_choice(spec, scaled), replace(labels, unit=unit)
    unit, scaled = warm_start.transform.labels.unit, bool(warm_start.run.options.get(SCALE_LABELS))
    if asked not in (None, scaled):
        raise UsageError(
            f"the parameters of {warm_start.path} belong to labels {described(unit)}", **{SCALE_LABELS: LEAVE_OUT}
        )
    return with_choice(spec, scaled), replace(labels, unit=unit)


def with_choice(spec: Spec, scaled: bool) -> Spec:
    """Return the spec with its choice to scale labels."""
    return replace(spec, values={**spec.values, SCALE_LABELS: scaled})


def described(unit: LabelUnit) -> str:
    """Return the scaling of labels in words."""
    return "as they are" if unit.is_one else f"minus {figure(unit.center)}, divided by {figure(unit.scale)}"
