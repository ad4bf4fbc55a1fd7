"""Preprocessing: what a run learns from its data before training, so that other rows can be treated in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fmcli.data.fields import Groups
from fmcli.data.labels import Labels
from fmcli.data.scaling import Scaling
from fmcli.scoring.metrics import Range


@dataclass(frozen=True)
class Preprocessing:
    """The facts that were learned from the data before training; the model file keeps it.

    labels : the loss, and the values of labels that are classes.
    fields : number of fields, including those of the warm start; 0 if the model needs none.
    label_range : the smallest and largest label, including those of the warm start; None if predictions cannot be
        clipped to them.
    scale : what was done to the values of columns; None: nothing.
    groups : (features) the groups that features were given, or NO_GROUP; None: they were given none.
    """

    labels: Labels
    fields: int
    label_range: Range | None
    scale: Scaling | None
    groups: Groups | None = None

    def entries(self) -> dict[str, Any]:
        """Return the entries of the model file. The scaling and the groups are arrays in it."""
        return {
            "fields": self.fields,
            "labels": self.labels.shown,
            "range": self.label_range and list(self.label_range),
        }
