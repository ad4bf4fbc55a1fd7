"""Clipping: predictions of the squared loss are limited to the range of the training labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fmcli.data.labels import Labels
from fmcli.registry.losses import CLIPPED_LOSS
from fmcli.registry.specs import Spec, check_clip
from fmcli.scoring.metrics import Range

if TYPE_CHECKING:
    from fmcli.training.setup.warm_start import WarmStart


def fit_clip(
    spec: Spec, labels: Labels, label: NDArray[np.float64], warm_start: WarmStart | None
) -> tuple[Spec, Range | None]:
    """Return the spec with its choice to clip, and the range of all labels that it and the warm start were trained on,
    in the user's unit.

    By default, predictions are clipped, unless the warm start does not clip them.

    Raises UsageError if the loss cannot be clipped.
    """
    check_clip(labels.loss, spec.values["clip"])
    if labels.loss != CLIPPED_LOSS:
        return replace(spec, values={**spec.values, "clip": False}), None
    encoded = labels.encode(label)
    low, high = float(encoded.min()), float(encoded.max())
    if warm_start and warm_start.transform.label_range:
        lowest, highest = warm_start.transform.label_range
        low, high = min(low, lowest), max(high, highest)
    clip = spec.values["clip"]
    if clip is None:
        clip = warm_start is None or bool(warm_start.run.options.get("clip"))
    return replace(spec, values={**spec.values, "clip": clip}), (low, high)
