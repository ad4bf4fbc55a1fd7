"""The columns of a run that learns new features alone: those of its rows, and beside them the whole model."""

from __future__ import annotations

from dataclasses import replace

from fmcli.registry.models import MODELS
from fmcli.training.rows import Rows
from fmcli.training.settings import Settings


def on_new_columns(settings: Settings, rows: Rows) -> tuple[Rows, Settings]:
    """Return the rows, and the settings with their warm start, on columns for the features that occur in the rows; the
    settings also get the whole model, with columns for the new features, whose parameters are 0.

    If the parameters of a model depend on its columns, its warm start is the whole model.
    """
    warm_start, spec = settings.warm_start, settings.spec
    assert warm_start is not None
    kind, fields = MODELS[spec.model], warm_start.transform.fields
    if kind.needs_fields(spec.values):
        fields = max(fields, *(data.fields for data in rows.in_memory))
    if rows.numbering is None and warm_start.transform.numbering is None:
        whole = warm_start.grown(max(rows.features, warm_start.model.features), fields)
    else:
        whole = warm_start.on_columns(rows.occurring.united(warm_start.occurring))
        whole = whole.grown(whole.model.features, fields)
    if kind.keeps_columns or spec.values.get("split_index") is not None:
        numbering = whole.transform.numbering
        rows = rows if numbering is None else rows.on_columns(numbering)
        return rows, replace(settings, warm_start=whole, whole=whole)
    numbering = rows.occurring
    part = warm_start.on_columns(numbering).grown(len(numbering), fields)
    return rows.on_columns(numbering), replace(settings, warm_start=part, whole=whole)
