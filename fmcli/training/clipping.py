"""Clipping: predictions of the squared loss are limited to the range of the training labels."""

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
    from fmcli.training.warm_start import WarmStart

# Labels are a scale with known ends if they have few distinct values and no two neighbours differ by more than this
# part of their range: the step of a scale from 1 to 5.
LARGEST_STEP = 0.25


def is_scale(label: NDArray[np.float64]) -> bool:
    """Return whether labels are a scale, such as ratings, so that no label beyond its ends is to be expected."""
    distinct = few_distinct(label)
    if distinct is None or not 2 <= len(distinct) <= FEW_CLASSES:
        return False
    half = distinct / 2  # differences of the largest labels would overflow
    return bool(np.diff(half).max() <= LARGEST_STEP * (half[-1] - half[0]))


def fit_clip(
    spec: Spec, loss: str, label: NDArray[np.float64], warm_start: WarmStart | None, stream: bool
) -> tuple[Spec, Range | None]:
    """Return the spec with its choice to clip, and the range of all labels that it and the warm start were trained on.

    By default, predictions are clipped if those of the warm start are; without a warm start, if the labels are a scale
    and do not come from a stream, whose later rows may have other labels.

    Raises UsageError if the loss cannot be clipped.
    """
    check_clip(loss, spec.values["clip"])
    if loss != CLIPPED_LOSS:
        return replace(spec, values={**spec.values, "clip": False}), None
    low, high = float(label.min()), float(label.max())
    if warm_start and warm_start.transform.label_range:
        lowest, highest = warm_start.transform.label_range
        low, high = min(low, lowest), max(high, highest)
    clip = spec.values["clip"]
    if clip is None:
        clip = bool(warm_start.run.options.get("clip")) if warm_start else not stream and is_scale(label)
    return replace(spec, values={**spec.values, "clip": clip}), (low, high)
