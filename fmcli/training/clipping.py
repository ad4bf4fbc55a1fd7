"""Predictions that do not leave the range of the training labels, where labels are numbers under the squared loss."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import FEW_CLASSES, few_distinct
from fmcli.registry.losses import CLIPPED_LOSS
from fmcli.registry.specs import Spec, check_clip
from fmcli.scoring.metrics import Range

if TYPE_CHECKING:
    from fmcli.training.warm_start import Earlier

# Labels are a scale, whose ends are known, if they are few values and no two neighbours lie further apart than this
# part of their range: the step of a scale from 1 to 5.
LARGEST_STEP = 0.25


def is_scale(label: NDArray[np.float64]) -> bool:
    """Whether labels are a scale such as that of ratings, so that no label beyond them is to be expected."""
    distinct = few_distinct(label)
    if distinct is None or not 2 <= len(distinct) <= FEW_CLASSES:
        return False
    half = distinct / 2  # differences of the largest labels would overflow
    return bool(np.diff(half).max() <= LARGEST_STEP * (half[-1] - half[0]))


def fit_clip(
    spec: Spec, loss: str, label: NDArray[np.float64], earlier: Earlier | None, stream: bool
) -> tuple[Spec, Range | None]:
    """The spec with its choice to clip, and the range of all labels that it and the earlier model were trained on.

    Unless asked for or refused, predictions are clipped as those of the earlier model; without one, if the labels are a
    scale and do not come from a stream, of which the rows to come may have others.

    Raises UsageError where the loss cannot be clipped.
    """
    check_clip(loss, spec.values["clip"])
    if loss != CLIPPED_LOSS:
        return replace(spec, values={**spec.values, "clip": False}), None
    low, high = float(label.min()), float(label.max())
    if earlier and earlier.range:
        low, high = min(low, earlier.range[0]), max(high, earlier.range[1])
    clip = spec.values["clip"]
    if clip is None:
        clip = bool(earlier.options.get("clip")) if earlier else not stream and is_scale(label)
    return replace(spec, values={**spec.values, "clip": clip}), (low, high)
