"""The columns of a run: which features of its rows and of its warm start have one."""

from __future__ import annotations

from dataclasses import replace

from fmcli.registry.models import MODELS
from fmcli.training.setup.rows import Rows, are_related
from fmcli.training.setup.settings import Settings

# Features are many if there are more than this, and few of them occur if it is at most this share.
MANY_FEATURES, FEW_OCCUR = 1 << 16, 0.5


def on_columns(settings: Settings, rows: Rows) -> tuple[Rows, Settings]:
    """Return the rows, and the settings with their warm start, on the same columns; if only new features are learned,
    the rows that have some (see `on_new_columns`).

    A run has columns only for the features that occur in the rows or in the warm start if its kind of model is so, if
    there is a dictionary, or if few of many features occur; otherwise column j is feature j.
    """
    if settings.choices.only_new:
        return on_new_columns(settings, rows)
    warm_start, numbered = settings.warm_start, rows.columns.numbering is not None
    numbered = numbered or (warm_start is not None and warm_start.transform.numbering is not None)
    if not (numbered or MODELS[settings.spec.model].compact or are_few(settings, rows)):
        return rows, settings
    numbering = rows.columns.occurring
    if warm_start is not None:
        numbering = numbering.united(warm_start.occurring)
        settings = replace(settings, warm_start=warm_start.on_columns(numbering))
    return rows.on_columns(numbering, settings.threads), settings


def on_new_columns(settings: Settings, rows: Rows) -> tuple[Rows, Settings]:
    """Return the rows that have new features, and the settings with their warm start, on columns for their features;
    the settings also get the whole model, with columns for the new features, whose parameters are 0.

    If the parameters of a model depend on its columns, or on all users and items, its warm start is the whole model.
    """
    warm_start, spec = settings.warm_start, settings.spec
    assert warm_start is not None
    rows = rows.with_new_features(warm_start.transform)
    columns = rows.columns
    kind, fields = MODELS[spec.model], warm_start.transform.fields
    if kind.needs_fields(spec.values):
        fields = max(fields, *(data.fields for data in rows.in_memory))
    if columns.numbering is None and warm_start.transform.numbering is None:
        whole = warm_start.grown(max(columns.features, warm_start.model.features), fields)
    else:
        whole = warm_start.on_columns(columns.occurring.united(warm_start.occurring))
        whole = whole.grown(whole.model.features, fields)
    if kind.depends_on_columns(spec.values) or warm_start.known is not None:
        numbering = whole.transform.numbering
        rows = rows if numbering is None else rows.on_columns(numbering, settings.threads)
        return rows, replace(settings, warm_start=whole, whole=whole)
    numbering = columns.occurring
    part = warm_start.on_columns(numbering).grown(len(numbering), fields)
    return rows.on_columns(numbering, settings.threads), replace(settings, warm_start=part, whole=whole)


def are_few(settings: Settings, rows: Rows) -> bool:
    """Return whether few of many features occur in the rows of a run that visits them several times, so it saves
    time to number these. With new rows, there will be others."""
    spec = settings.spec
    by_column = MODELS[spec.model].depends_on_columns(spec.values)
    if by_column or are_related(rows) or settings.warm_start is not None or spec.values["epochs"] == 1:
        return False
    columns = rows.columns
    return columns.features > MANY_FEATURES and len(columns.occurring) <= FEW_OCCUR * columns.features
